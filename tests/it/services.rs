//! Services that are switched off one by one: what they answer, and what goes on.

use crate::{
    grpc::{Client, health},
    support::{Leases, Reports, Response, Server, TempDir, acquire, get, post, report, run, until},
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code as Decided;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tollgate::grpc::proto::tollgate::v1::{
    acquire_response::Outcome, report_utilization_request::Load,
};
use tonic::{Code, Status, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

const RULES: &str = "
domain: edge
pools:
  api: {capacity: 10, utilization: {report_ttl: 10m}}
descriptors:
  - key: alone
    concurrency: {max: 1, lease_ttl: 60s}
  - key: dark
    concurrency: {max: 1}
    shadow_mode: true
  - key: worker
    utilization_report: {pool: api}
";

const LEASES: &str = "tollgate.v1.LeaseService";
const UTILIZATION: &str = "tollgate.v1.UtilizationService";

struct Edge {
    server: Server,
    _files: TempDir,
}

impl Edge {
    async fn without(services: &str) -> Self {
        let files = TempDir::new();
        let rules = files.file("edge.yaml", RULES);
        let off = [("TOLLGATE_DISABLE_SERVICE", services)];
        Self { server: Server::start_with(&rules, &off).await, _files: files }
    }

    /// Which of the services answer, by the names with which they are switched off.
    async fn served(&self) -> Vec<&'static str> {
        let Server { grpc, http, .. } = self.server;
        let answered = [
            ("leases", answers(self.acquire().await, LEASES, "leases")),
            ("leases", answers(self.hold().await, LEASES, "leases")),
            ("utilization", answers(self.report().await, UTILIZATION, "utilization")),
            ("utilization", answers(self.stream().await, UTILIZATION, "utilization")),
            ("reflection", answers(listed(grpc).await, "ServerReflection", "reflection")),
            ("json", is_found(&post(http, "/json", BODY).await.unwrap(), "json")),
            ("metrics", is_found(&get(http, "/metrics", &[]).await.unwrap(), "metrics")),
        ];
        let mut served: Vec<_> =
            answered.into_iter().filter(|(_, answers)| *answers).map(|(name, _)| name).collect();
        served.dedup();
        served
    }

    async fn acquire(&self) -> Result<(), Status> {
        let leases = Leases::connect(self.server.grpc).await;
        leases.acquire(acquire("edge", &[&[["dark", "x"]]])).await.map(drop)
    }

    async fn hold(&self) -> Result<(), Status> {
        let leases = Leases::connect(self.server.grpc).await;
        let holding = leases.try_hold(acquire("edge", &[&[["dark", "x"]]])).await;
        let mut holding = holding?;
        assert_eq!(holding.acquired().await.outcome(), Outcome::Acquired);
        Ok(())
    }

    async fn report(&self) -> Result<(), Status> {
        let reports = Reports::connect(self.server.grpc).await;
        reports.say(report("edge", "one", Load::Ratio(0.5))).await.map(drop)
    }

    async fn stream(&self) -> Result<(), Status> {
        let reports = Reports::connect(self.server.grpc).await;
        let (sender, mut answers) = reports.try_stream().await?;
        sender.send(report("edge", "two", Load::Ratio(0.5))).await.unwrap();
        answers.message().await.map(drop)
    }
}

const BODY: &str =
    r#"{"domain":"edge","descriptors":[{"entries":[{"key":"nothing","value":"x"}]}]}"#;

/// Whether a call was answered, and not by what stands in the place of a service that is switched off.
fn answers(answer: Result<impl Sized, Status>, service: &str, name: &str) -> bool {
    match answer {
        Ok(_) => true,
        Err(status) => {
            assert_eq!(status.code(), Code::Unimplemented, "{status:?}");
            let text =
                format!("{service} is switched off on this server (--disable-service {name})");
            assert!(status.message().ends_with(&text), "{status:?}");
            false
        }
    }
}

fn is_found(response: &Response, name: &str) -> bool {
    if response.status == 404 {
        assert!(response.body.contains(&format!("(--disable-service {name})")), "{response:?}");
    }
    response.status == 200
}

/// The services that reflection lists.
async fn listed(to: SocketAddr) -> Result<Vec<String>, Status> {
    let channel = Channel::from_shared(format!("http://{to}")).unwrap().connect().await.unwrap();
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(channel);
    let answers = client.server_reflection_info(tokio_stream::iter([request])).await?;
    let answer = answers.into_inner().message().await?.unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("no list")
    };
    Ok(list.service.into_iter().map(|service| service.name).collect())
}

async fn health_is_unknown(to: SocketAddr, service: &str) -> bool {
    let channel = Channel::from_shared(format!("http://{to}")).unwrap().connect().await.unwrap();
    let request = HealthCheckRequest { service: service.to_owned() };
    match HealthClient::new(channel).check(request).await {
        Ok(_) => false,
        Err(status) => status.code() == Code::NotFound,
    }
}

const ALL: [&str; 5] = ["leases", "utilization", "reflection", "json", "metrics"];

#[tokio::test]
async fn each_is_switched_off_by_itself() {
    for off in ALL {
        let edge = Edge::without(off).await;
        let others: Vec<&str> = ALL.into_iter().filter(|name| *name != off).collect();
        assert_eq!(edge.served().await, others, "without {off}");
        let unknown =
            [LEASES, UTILIZATION].map(async |name| health_is_unknown(edge.server.grpc, name).await);
        let [leases, utilization] = unknown;
        assert_eq!((leases.await, utilization.await), (off == "leases", off == "utilization"));
    }
}

#[tokio::test]
async fn without_all_of_them_decisions_go_on() {
    let edge = Edge::without("leases, utilization,reflection,json,metrics").await;
    assert_eq!(edge.served().await, [""; 0]);
    let Server { grpc, http, admin, screen, .. } = &edge.server;
    assert_eq!(health(*grpc, "").await, 1);
    assert_eq!(health(*grpc, tollgate::grpc::SERVICE).await, 1);
    for probe in ["/healthcheck", "/ready"] {
        assert_eq!(get(*http, probe, &[]).await.unwrap().status, 200);
    }
    assert_eq!(get(*admin, "/metrics", &[]).await.unwrap().status, 200);
    for name in [LEASES, UTILIZATION, "/json", "/metrics", "curl"] {
        assert!(!screen.contains(name), "{name} in {screen}");
    }
    assert!(screen.contains("GET /healthcheck, GET /ready\n"), "{screen}");

    // What rides on ShouldRateLimit is for the rules to say.
    let mut client = Client::connect(*grpc).await;
    let mut decide = async |entries: Value, hits: Option<u64>| {
        let descriptor = json!({ "entries": [entries], "hits_addend": hits });
        let request = json!({ "domain": "edge", "descriptors": [descriptor] });
        client.ask(&request).await.unwrap()
    };
    let taken = decide(json!(["alone", "x"]), None).await;
    let metadata = crate::grpc::struct_to_json(&taken.dynamic_metadata.unwrap());
    let again = decide(json!(["alone", "x"]), None).await;
    assert_eq!(again.overall_code(), Decided::OverLimit);
    decide(json!(["lease_id", metadata["lease_id"]]), None).await;
    let released = decide(json!(["alone", "x"]), None).await;
    assert_eq!(released.overall_code(), Decided::Ok);
    decide(json!(["worker", "web-1"]), Some(500)).await;
    until("the report counts", async || {
        let pools = get(*admin, "/pools", &[("accept", b"application/json")]).await.unwrap().body;
        pools.contains(r#""utilization":0.5"#).then_some(())
    })
    .await;
}

#[tokio::test]
async fn reflection_lists_what_is_served() {
    let ours = |names: Vec<String>| -> Vec<String> {
        names.into_iter().filter(|name| name.starts_with("tollgate")).collect()
    };
    let all = Edge::without("json").await;
    let names = listed(all.server.grpc).await.unwrap();
    for name in ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"] {
        assert!(names.iter().any(|it| it == name), "{name} in {names:?}");
    }
    assert_eq!(ours(names), [LEASES, UTILIZATION]);
    let some = Edge::without("leases").await;
    assert_eq!(ours(listed(some.server.grpc).await.unwrap()), [UTILIZATION]);
}

#[tokio::test]
async fn a_service_that_there_is_not_cannot_be_switched_off() {
    let output = run(&["serve", "--disable-service", "lease"], &[]).await;
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("write one of leases, utilization, reflection, json, metrics"),
        "{error}"
    );
}
