//! A connection that was let in: its bytes, and its place among those that may be open.

use super::places::Place;
use crate::{http::Caller, telemetry::DoorCounts};
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::watch,
    time::{self, Sleep},
};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

/// How long a caller may take to read anything of what waits for him. Nobody holds a place, and what was
/// written for him, by not reading.
const LONGEST_STALL: Duration = Duration::from_secs(30);

/// What a client says first over HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes as they are, or within TLS.
pub(super) type Stream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A connection to a caller.
pub(super) struct Connection {
    stream: Stream,
    caller: Caller,
    /// What was read to find out who speaks, and is to be read again.
    unread: &'static [u8],
    /// Runs while something is to be written that the caller does not take.
    stall: Option<Pin<Box<Sleep>>>,
    /// Free again when the connection is dropped.
    place: Place,
    /// Where it is counted what happens at its port.
    counts: Arc<watch::Sender<DoorCounts>>,
}

impl Connection {
    pub(super) fn new(
        stream: Stream,
        caller: Caller,
        place: Place,
        counts: Arc<watch::Sender<DoorCounts>>,
    ) -> Self {
        Self { stream, caller, unread: &[], stall: None, place, counts }
    }

    /// Its place at the port.
    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    /// Where it is counted what happens at its port.
    pub(super) const fn counts(&self) -> &Arc<watch::Sender<DoorCounts>> {
        &self.counts
    }

    /// Who is at the other end.
    pub(super) const fn caller(&self) -> Caller {
        self.caller
    }

    /// Waits until the caller has said that it speaks HTTP/2.
    ///
    /// # Errors
    ///
    /// Where it says something else, or leaves.
    pub(super) async fn speaks_http2(&mut self) -> io::Result<()> {
        let mut said = [0; PREFACE.len()];
        self.read_exact(&mut said).await?;
        if said != PREFACE {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.unread = PREFACE;
        Ok(())
    }

    /// What came of writing, but for no longer than a caller may stall.
    fn unless_stalled<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stall = None;
            return written;
        }
        let stall = self.stall.get_or_insert_with(|| Box::pin(time::sleep(LONGEST_STALL)));
        ready!(stall.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let (now, later) = self.unread.split_at(self.unread.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.unread = later;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.unless_stalled(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.unless_stalled(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.unless_stalled(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.unless_stalled(context, shut)
    }
}
