//! A server that always gives the same answer: what is left of its cost when nothing is decided is the cost of the
//! transport. `tollgate load --against-null` starts it as a process of its own.

use std::{io, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    net::TcpListener,
    process::{Child, Command},
    time,
};
use tollgate::grpc::proto::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse,
    rate_limit_response::{Code, DescriptorStatus, RateLimit, rate_limit::Unit},
    rate_limit_service_server::{RateLimitService, RateLimitServiceServer},
};
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

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

/// Serves on a free port, which it prints, until its standard input ends: so it outlives nobody who started it.
pub(crate) fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        crate::print(&mut io::stdout(), &format!("{}\n", listener.local_addr()?))?;
        let left = async {
            let mut ignored = Vec::new();
            // An error is an end, too.
            let _ = tokio::io::stdin().read_to_end(&mut ignored).await;
        };
        let serving = Server::builder()
            .add_service(RateLimitServiceServer::new(Null::new()))
            .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
        tokio::select! {
            served = serving => Ok(served?),
            () = left => Ok(()),
        }
    })
}

/// Such a server, as a process.
pub(super) struct NullServer {
    pub(super) address: String,
    pub(super) id: u32,
    _process: Child,
}

impl NullServer {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// Where this very program cannot be started, or does not say where it listens.
    pub(super) async fn start() -> io::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("null")
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
