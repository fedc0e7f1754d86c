//! A way to a server that can be disturbed, as networks are.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::{mpsc, watch},
    task::JoinSet,
    time::{self, Instant},
};

/// What becomes of connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    /// Questions pass, answers are kept back.
    Held,
    /// Answers pass, questions are kept back.
    Stalled,
    /// Answers come so much later.
    Delayed(Duration),
    /// Answers come byte by byte, and so much time before each.
    Dripping(Duration),
    /// Nothing passes ever again, and neither end is told.
    Frozen,
    /// Both ends are told that it is over.
    Reset,
}

/// A listener that passes connections on to a port of loopback. All end when it is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    /// The port that new connections lead to.
    port: Arc<AtomicU16>,
    /// The way of all connections since the last disturbance.
    way: watch::Sender<watch::Sender<Way>>,
    accepted: Arc<AtomicUsize>,
    connections: JoinSet<()>,
}

impl Proxy {
    /// A way to a port, open.
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut proxy = Self {
            address: listener.local_addr().unwrap(),
            port: Arc::new(AtomicU16::new(port)),
            way: watch::Sender::new(watch::Sender::new(Way::Open)),
            accepted: Arc::default(),
            connections: JoinSet::new(),
        };
        proxy.listen(listener);
        proxy
    }

    fn listen(&mut self, listener: TcpListener) {
        let (counter, leads_to) = (Arc::clone(&self.accepted), Arc::clone(&self.port));
        let current = self.way.subscribe();
        self.connections.spawn(async move {
            let mut carried = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::Relaxed);
                let way = current.borrow().subscribe();
                let port = leads_to.load(Ordering::Relaxed);
                carried.spawn(async move { drop(carry(client, port, way).await) });
            }
        });
    }

    /// Nobody is there any more: connections end, and new ones are refused.
    pub(crate) async fn refuse(&mut self) {
        self.connections.shutdown().await;
    }

    /// Somebody is there again.
    pub(crate) async fn accept(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.listen(listener);
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens, as `--store` takes it.
    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Has new connections lead to another port.
    pub(crate) fn lead_to(&self, port: u16) {
        self.port.store(port, Ordering::Relaxed);
    }

    /// How many connections it has seen.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Keeps answers back, on every connection that there is or will be.
    pub(crate) fn hold(&self) {
        self.way.borrow().send_replace(Way::Held);
    }

    /// Keeps answers back on the connections that there are, until it is released. New ones work.
    pub(crate) fn hold_these(&self) -> Held {
        let these = self.way.send_replace(watch::Sender::new(Way::Open));
        these.send_replace(Way::Held);
        Held(these)
    }

    /// Keeps questions back, on every connection that there is or will be.
    pub(crate) fn stall(&self) {
        self.way.borrow().send_replace(Way::Stalled);
    }

    /// Has answers come so much later, on every connection that there is or will be.
    pub(crate) fn delay(&self, time: Duration) {
        self.way.borrow().send_replace(Way::Delayed(time));
    }

    /// Has answers come byte by byte, so much time before each, on every connection that there is or will be.
    pub(crate) fn drip(&self, time: Duration) {
        self.way.borrow().send_replace(Way::Dripping(time));
    }

    /// Has every connection that there is or will be stay up, and nothing pass on it, ever.
    pub(crate) fn freeze_all(&self) {
        self.way.borrow().send_replace(Way::Frozen);
    }

    /// Lets through what was kept back, and all that comes.
    pub(crate) fn release(&self) {
        self.way.borrow().send_replace(Way::Open);
    }

    /// Has the connections that there are stay up, and nothing pass. New ones work.
    pub(crate) fn freeze(&self) {
        self.disturb(Way::Frozen);
    }

    /// Resets the connections that there are. New ones work.
    pub(crate) fn reset(&self) {
        self.disturb(Way::Reset);
    }

    fn disturb(&self, way: Way) {
        self.way.send_replace(watch::Sender::new(Way::Open)).send_replace(way);
    }
}

/// Connections on which answers are kept back.
pub(crate) struct Held(watch::Sender<Way>);

impl Held {
    /// Lets the answers through.
    pub(crate) fn release(&self) {
        self.0.send_replace(Way::Open);
    }
}

async fn carry(mut client: TcpStream, port: u16, way: watch::Receiver<Way>) -> io::Result<()> {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut questions, to_client) = client.split();
    let (answers, mut to_server) = server.split();
    let mut disturbed = way.clone();
    let disturbed = disturbed.wait_for(|way| matches!(way, Way::Frozen | Way::Reset));
    let way = tokio::select! {
        biased;
        way = disturbed => way.map(|way| *way),
        ended = pass_to(&mut questions, &mut to_server, way.clone()) => return ended,
        ended = pass_on(answers, to_client, way) => return ended,
    };
    match way {
        Ok(Way::Reset) => {
            client.set_zero_linger()?;
            server.set_zero_linger()
        }
        _ => std::future::pending().await,
    }
}

async fn pass_to(
    questions: &mut ReadHalf<'_>,
    to_server: &mut WriteHalf<'_>,
    mut way: watch::Receiver<Way>,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let count = questions.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        way.wait_for(|way| *way != Way::Stalled).await.map_err(io::Error::other)?;
        to_server.write_all(&bytes[..count]).await?;
    }
}

#[expect(clippy::disallowed_methods, reason = "answers are delayed by when they came")]
async fn pass_on(
    mut answers: ReadHalf<'_>,
    mut to_client: WriteHalf<'_>,
    mut way: watch::Receiver<Way>,
) -> io::Result<()> {
    let (read, mut kept) = mpsc::unbounded_channel();
    let read = async move {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            let count = answers.read(&mut bytes).await?;
            if count == 0 || read.send((Instant::now(), bytes[..count].to_vec())).is_err() {
                return io::Result::Ok(());
            }
        }
    };
    let write = async move {
        while let Some((came, bytes)) = kept.recv().await {
            let way = *way.wait_for(|way| *way != Way::Held).await.map_err(io::Error::other)?;
            match way {
                Way::Delayed(time) => time::sleep_until(came + time).await,
                Way::Dripping(time) => {
                    for byte in bytes {
                        time::sleep(time).await;
                        to_client.write_all(&[byte]).await?;
                    }
                    continue;
                }
                _ => {}
            }
            to_client.write_all(&bytes).await?;
        }
        io::Result::Ok(())
    };
    tokio::try_join!(read, write).map(|_| ())
}
