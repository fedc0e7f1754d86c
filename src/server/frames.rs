//! Follows the frames of an HTTP/2 connection before the HTTP/2 library gets them, for two bounds that the library
//! does not have.
//!
//! **Memory.** A header block that is not whole yet is held back, as it came, within the memory budget. Decoded, each
//! of its bytes could be a hundred: so the library decodes a block only when all of it is there, and the request is
//! reduced to what is used as soon as that is done.
//!
//! **Time.** A connection is read for so many bytes in a turn; then other connections of its core have theirs. The
//! work that requests cause grows with their bytes, so a turn takes about half a millisecond. A request costs something
//! however short it is, so a header block counts for [`LEAST_OF_A_REQUEST`] bytes at least; and where blocks are so short
//! that one read would bring too many, less is read at a time. A SETTINGS frame may cost the library a walk through all
//! open streams, so a connection may send only some.
//!
//! Everything else is the library's: what is wrong with a frame is found there, and nothing is changed on the way.

#[cfg(test)]
mod tests;

use super::turn::Turn;
use crate::budget::{Budget, Reservation};
use bytes::{Buf as _, BytesMut};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The largest header list of a request, in bytes as HTTP/2 counts it. Envoy copies header fields of its callers into
/// its calls (`tracestate`), up to 60 KiB by default; a larger list is an error, and Envoy lets the request pass.
pub(super) const LARGEST_HEAD: u32 = 264 << 10;

/// The least length of a header block that may have been too large a list, in bytes: Huffman's code makes 5 bytes of
/// 8 at best.
const MAY_BE_TOO_LARGE: usize = LARGEST_HEAD as usize / 8 * 5;

/// The length of a client's first bytes, before its first frame.
const PREFACE: usize = 24;

/// The length of what stands before each frame, in bytes.
const FRAME_HEADER: usize = 9;

/// What a request counts for at least, in bytes of a turn.
const LEAST_OF_A_REQUEST: usize = 128;

/// How many bytes are read at a time of a connection whose requests are shorter than half of that.
const FEW_BYTES: usize = 1 << 10;

/// How many SETTINGS frames a connection may send. Clients send one, and some a few more as they measure the way.
const MOST_SETTINGS: usize = 256;

/// Kinds of frames, the flag at the end of a header block, and that of an acknowledgement.
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// What the library may keep of a header block that is too large, in bytes: as many fields as the list may have, of a
/// hundred bytes and more each.
const KEPT_OF_TOO_LARGE: usize = 1 << 20;

/// What a connection may hold of unfinished frames without a reservation, in bytes.
const FREE: usize = 1 << 10;

/// The bytes of a connection, in whole header blocks.
pub(super) struct Frames<S> {
    stream: S,
    turn: Turn,
    budget: Budget,
    /// For what is held back, here and in the library.
    reservation: Option<Reservation>,
    /// What was read and is not given on yet; `ready` of these bytes may be.
    held: BytesMut,
    ready: usize,
    scanner: Scanner,
    /// How many SETTINGS frames have come.
    settings: usize,
    /// Whether requests are so short that little is read at a time.
    is_dense: bool,
    is_over: bool,
}

impl<S> Frames<S> {
    /// Follows a connection of which nothing was read yet. What is held back takes room of the budget.
    pub(super) fn new(stream: S, turn: Turn, budget: Budget) -> Self {
        Self {
            stream,
            turn,
            budget,
            reservation: None,
            held: BytesMut::new(),
            ready: 0,
            scanner: Scanner::default(),
            settings: 0,
            is_dense: false,
            is_over: false,
        }
    }

    /// Reserves room for what is unfinished.
    fn reserve(&mut self) -> io::Result<()> {
        let unfinished = self.held.len() + self.scanner.given_on();
        if unfinished <= FREE {
            self.reservation = None;
            return Ok(());
        }
        match &mut self.reservation {
            Some(reservation) => reservation.set(unfinished).map_err(io::Error::other),
            none => {
                *none = Some(self.budget.reserve(unfinished));
                Ok(())
            }
        }
    }

    /// Takes note of what was read into `buffer` behind `before`, and leaves there what may be given on.
    fn follow(&mut self, buffer: &mut ReadBuf<'_>, before: usize) -> io::Result<()> {
        let new = buffer.filled().get(before..).unwrap_or_default();
        let Scanned { open, blocks, large, settings } = self.scanner.scan(new);
        self.settings += settings;
        if self.settings > MOST_SETTINGS {
            return Err(io::Error::other("more SETTINGS frames than a connection may send"));
        }
        let least = blocks * LEAST_OF_A_REQUEST;
        self.is_dense = least > 2 * new.len();
        self.turn.spend(new.len().max(least));
        self.turn.note_blocks(blocks, large);
        let (all, held) = (self.held.len() + new.len(), self.held.len());
        let ready = all.saturating_sub(open);
        if held == 0 && ready == new.len() {
            return Ok(());
        }
        // What was held back comes first, so all that is new waits behind it.
        let kept = if held == 0 { ready } else { 0 };
        self.held.extend_from_slice(new.get(kept..).unwrap_or_default());
        self.ready = ready - kept;
        buffer.set_filled(before + kept);
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> Frames<S> {
    /// Reads what has come, or a part of it.
    fn read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_dense || buffer.remaining() <= FEW_BYTES {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(FEW_BYTES));
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut part))?;
        let length = part.filled().len();
        buffer.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Frames<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        loop {
            if this.ready > 0 {
                let length = this.ready.min(buffer.remaining());
                buffer.put_slice(this.held.get(..length).unwrap_or_default());
                this.held.advance(length);
                this.ready -= length;
                if this.held.is_empty() {
                    this.held = BytesMut::new();
                }
                this.reserve()?;
                return Poll::Ready(Ok(()));
            }
            if this.is_over {
                return Poll::Ready(Ok(()));
            }
            if this.turn.is_spent() {
                // The turn wakes the connection when others have had theirs.
                return Poll::Pending;
            }
            if let Some(reservation) = &this.reservation
                && let Poll::Ready(revoked) = reservation.poll_revoked(context)
            {
                return Poll::Ready(Err(io::Error::other(revoked)));
            }
            ready!(this.read(context, buffer))?;
            if buffer.filled().len() == before {
                // What was held back will never be whole.
                (this.is_over, this.ready) = (true, this.held.len());
                continue;
            }
            this.follow(buffer, before)?;
            this.reserve()?;
            if buffer.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Frames<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Where in the frames of a connection its bytes have come to.
#[derive(Debug)]
struct Scanner {
    place: Place,
    /// The length of the header block that has begun, with its frame headers; `None` where none has.
    block: Option<usize>,
    /// How many of the last bytes are to be held back: of a header block, or of a frame header.
    open: usize,
    /// How many bytes of a DATA frame have come that is not whole; the library keeps them.
    data: usize,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// So many bytes of the preface are left.
    Preface(usize),
    /// Amid a frame header: what has come of it.
    Header { bytes: [u8; FRAME_HEADER], length: usize },
    /// Amid a payload: what is left of it, and whether a header block ends with it.
    Payload { left: usize, ends_block: bool },
}

/// What was found in some bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Scanned {
    /// How many of the last bytes are to be held back.
    open: usize,
    /// Header blocks that ended.
    blocks: usize,
    /// How many of them may be larger than a header list may be.
    large: usize,
    /// SETTINGS frames that began and acknowledge nothing.
    settings: usize,
}

const FRAME: Place = Place::Header { bytes: [0; FRAME_HEADER], length: 0 };

impl Default for Scanner {
    fn default() -> Self {
        Self { place: Place::Preface(PREFACE), block: None, open: 0, data: 0 }
    }
}

impl Scanner {
    fn scan(&mut self, bytes: &[u8]) -> Scanned {
        let mut scanned = Scanned::default();
        let mut rest = self.scan_whole(bytes, &mut scanned);
        while !rest.is_empty() {
            let taken = match &mut self.place {
                Place::Preface(left) => {
                    let taken = rest.len().min(*left);
                    *left -= taken;
                    if *left == 0 {
                        self.place = FRAME;
                    }
                    taken
                }
                Place::Header { bytes, length } => {
                    let (_, missing) = bytes.split_at_mut(*length);
                    let taken = rest.len().min(missing.len());
                    missing.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
                    *length += taken;
                    self.open += taken;
                    if *length == FRAME_HEADER {
                        let header = *bytes;
                        self.begin_frame(header, &mut scanned);
                    }
                    taken
                }
                Place::Payload { left, ends_block } => {
                    let taken = rest.len().min(*left);
                    *left -= taken;
                    let (is_whole, ends_block) = (*left == 0, *ends_block);
                    match &mut self.block {
                        Some(length) => {
                            *length += taken;
                            self.open += taken;
                        }
                        None => self.data += taken,
                    }
                    if is_whole {
                        self.end_frame(ends_block, &mut scanned);
                    }
                    taken
                }
            };
            // A frame without a payload ends with its header.
            if let Place::Payload { left: 0, ends_block } = self.place {
                self.end_frame(ends_block, &mut scanned);
            }
            if self.block.is_some_and(|length| length > LARGEST_HEAD as usize) {
                // The library refuses it whatever follows, and keeps nothing of it: it need not be whole.
                self.open = 0;
            }
            rest = rest.get(taken..).unwrap_or_default();
        }
        scanned.open = self.open;
        scanned
    }

    /// Passes over frames that are there as a whole, header blocks of one frame among them: nearly all are. Returns
    /// what is left.
    fn scan_whole<'b>(&self, bytes: &'b [u8], scanned: &mut Scanned) -> &'b [u8] {
        let mut rest = bytes;
        if self.block.is_some() || !matches!(self.place, Place::Header { length: 0, .. }) {
            return rest;
        }
        while let Some((&[a, b, c, kind, flags, ..], payload)) =
            rest.split_first_chunk::<FRAME_HEADER>()
        {
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            let Some(after) = payload.get(length..) else { break };
            match kind {
                HEADERS if flags & END_HEADERS == 0 => break,
                HEADERS => {
                    scanned.blocks += 1;
                    scanned.large += usize::from(length > MAY_BE_TOO_LARGE);
                }
                SETTINGS => scanned.settings += usize::from(flags & ACK == 0),
                _ => {}
            }
            rest = after;
        }
        rest
    }

    /// What the library keeps of what is unfinished, in bytes.
    fn given_on(&self) -> usize {
        match self.block {
            Some(length) if length > LARGEST_HEAD as usize => KEPT_OF_TOO_LARGE,
            _ => self.data,
        }
    }

    fn begin_frame(&mut self, header: [u8; FRAME_HEADER], scanned: &mut Scanned) {
        let [a, b, c, kind, flags, ..] = header;
        let left = u32::from_be_bytes([0, a, b, c]) as usize;
        scanned.settings += usize::from(kind == SETTINGS && flags & ACK == 0);
        let in_block = match kind {
            HEADERS => self.block.is_none(),
            CONTINUATION => self.block.is_some(),
            _ => false,
        };
        if in_block {
            *self.block.get_or_insert(0) += FRAME_HEADER;
        } else {
            // Any other frame amid a block is an error, which the library tells.
            (self.block, self.open) = (None, 0);
        }
        self.place = Place::Payload { left, ends_block: in_block && flags & END_HEADERS != 0 };
    }

    fn end_frame(&mut self, ends_block: bool, scanned: &mut Scanned) {
        (self.place, self.data) = (FRAME, 0);
        if ends_block && let Some(length) = self.block.take() {
            self.open = 0;
            scanned.blocks += 1;
            scanned.large += usize::from(length > MAY_BE_TOO_LARGE);
        }
    }
}
