//! A server that always gives the same answer: what is left of its cost when nothing is decided is the cost of the
//! transport. `tollgate load --against-null` starts it as a process of its own.

use std::{io, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    time,
};
use tokio_stream::StreamExt as _;
use tollgate::grpc::proto::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse,
    rate_limit_response::{Code, DescriptorStatus, RateLimit, rate_limit::Unit},
    rate_limit_service_server::{RateLimitService, RateLimitServiceServer},
};
use tollgate::server::Cores;
use tonic::{Request, Response, Status, transport::Server};

/// How long it may take to start.
const LONGEST_START: Duration = Duration::from_secs(30);

/// Answers like a server whose limits are never over.
struct Null(RateLimitResponse);

impl Null {
    fn new() -> Self {
        let current_limit =
            RateLimit { name: String::new(), requests_per_unit: 1000, unit: Unit::Second.into() };
        let status = DescriptorStatus {
            code: Code::Ok.into(),
            current_limit: Some(current_limit),
            limit_remaining: 999,
            ..DescriptorStatus::default()
        };
        Self(RateLimitResponse {
            overall_code: Code::Ok.into(),
            statuses: vec![status],
            ..RateLimitResponse::default()
        })
    }
}

#[tonic::async_trait]
impl RateLimitService for Null {
    async fn should_rate_limit(
        &self,
        _: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        Ok(Response::new(self.0.clone()))
    }
}

/// Serves on a free port, which it prints, until its standard input ends: so it outlives nobody who started it. It has
/// as many runtimes as it is told, or one for each core, as the server itself, and what answers on them is a plain gRPC
/// server.
pub(crate) fn serve(threads: Option<u16>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let cores = Cores::start(threads.map_or_else(crate::cores, usize::from))?;
    let served = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        crate::print(&mut io::stdout(), &format!("{}\n", listener.local_addr()?))?;
        let left = async {
            let mut ignored = Vec::new();
            // An error is an end, too.
            let _ = tokio::io::stdin().read_to_end(&mut ignored).await;
        };
        tokio::select! {
            failed = accept(&listener, &cores) => Err(failed),
            () = left => Ok(()),
        }
    });
    // Its standard input may still be read.
    runtime.shutdown_background();
    Ok(served?)
}

/// Lets callers in until that fails.
async fn accept(listener: &TcpListener, cores: &Cores) -> io::Error {
    loop {
        let accepted = async {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // It is registered anew where it is served.
            stream.into_std()
        };
        let stream = match accepted.await {
            Ok(stream) => stream,
            Err(error) => return error,
        };
        let Some(seat) = cores.seat() else { continue };
        let runtime = seat.runtime().clone();
        runtime.spawn(async move {
            let _seat = seat;
            let incoming =
                tokio_stream::once(TcpStream::from_std(stream)).chain(tokio_stream::pending());
            let served = Server::builder()
                .add_service(RateLimitServiceServer::new(Null::new()))
                .serve_with_incoming(incoming);
            // What goes wrong on a connection is its caller's to know.
            let _ = served.await;
        });
    }
}

/// Such a server, as a process.
pub(super) struct NullServer {
    pub(super) address: String,
    pub(super) id: u32,
    _process: Child,
}

impl NullServer {
    /// Starts it, on so many threads.
    ///
    /// # Errors
    ///
    /// Where this very program cannot be started, or does not say where it listens.
    pub(super) async fn start(threads: Option<u16>) -> io::Result<Self> {
        let threads = threads.map(|threads| format!("--threads={threads}"));
        let mut process = Command::new(std::env::current_exe()?)
            .arg("null")
            .args(threads)
            // Ctrl-C is for the one who measures, who needs it until he has.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let silent = || io::Error::other("it does not say where it listens");
        let stdout = process.stdout.take().ok_or_else(silent)?;
        let mut lines = BufReader::new(stdout).lines();
        let line = time::timeout(LONGEST_START, lines.next_line()).await;
        let address = line.map_err(|_| silent())??.ok_or_else(silent)?;
        let id = process.id().ok_or_else(silent)?;
        Ok(Self { address, id, _process: process })
    }
}
