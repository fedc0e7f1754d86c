//! What is exported by OTLP, to a collector: metrics, and traces that go on where Envoy's are.

use super::{RULES, Shop, request};
use crate::{
    grpc::Client,
    support::{
        self, CONNECTION_MANAGER, Collector, Redis, Server, TempDir, envoy_example, free_port,
        span_text, start_envoy, until,
    },
};
use axum::{Router, routing};
use serde_json::json;
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
};
use tokio::{net::TcpListener, process::Child};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Everything at once.
const HASTE: [(&str, &str); 2] =
    [("OTEL_METRIC_EXPORT_INTERVAL", "100"), ("OTEL_BSP_SCHEDULE_DELAY", "50")];

/// Asks over `/json` in a trace that is kept, or is not.
async fn ask_in(server: SocketAddr, trace: &str, user: &str) -> u16 {
    let body = crate::http::to_json(&request("shop", &[["user", user]])).to_string();
    let headers: [(&str, &[u8]); 2] = [
        ("content-length", &body.len().to_string().into_bytes()),
        ("traceparent", trace.as_bytes()),
    ];
    support::send(server, "POST", "/json", &headers, body.as_bytes()).await.unwrap().status
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn metrics_arrive_and_so_do_the_spans_of_who_keeps_his_trace() {
    let (collector, redis) = (Collector::start().await, Redis::start().await);
    let url = collector.url();
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
        ("OTEL_SERVICE_NAME", "limits"),
        ("TOLLGATE_STORE", redis.url()),
        support::PATIENT,
    ];
    let shop = Shop::open(&[&HASTE[..], &environment].concat()).await;
    until("metrics arrive", async || {
        let metrics = collector.metrics("limits");
        let wanted = ["tollgate.decisions", "tollgate.store.call.duration", "process.cpu"];
        wanted.iter().all(|name| metrics.iter().any(|it| it == name)).then_some(())
    })
    .await;

    let (kept, not_kept) = (format!("00-{TRACE}-{PARENT}-01"), format!("00-{TRACE}-{PARENT}-00"));
    for (trace, user) in
        [("00", "secretive"), ("rubbish", "secretive"), (not_kept.as_str(), "as secretive")]
    {
        assert_eq!(ask_in(shop.server.http, trace, user).await, 200);
    }
    let refused = ask_in(shop.server.http, &kept, "secretive").await;
    assert_eq!(refused, 429);
    let spans = until("both spans arrive", async || {
        let spans = collector.spans("limits");
        (spans.len() >= 2).then_some(spans)
    })
    .await;
    assert_eq!(spans.len(), 2, "{spans:?}");
    let server = spans.iter().find(|span| span.name == "POST /json").unwrap();
    assert_eq!((hex(&server.trace_id), hex(&server.parent_span_id)), (TRACE.into(), PARENT.into()));
    let attributes: BTreeMap<_, _> = server
        .attributes
        .iter()
        .map(|attribute| (attribute.key.as_str(), span_text(attribute.value.clone())))
        .collect();
    assert_eq!(attributes["tollgate.domain"], "shop");
    assert_eq!(attributes["tollgate.outcome"], "refused");
    assert_eq!(attributes["tollgate.rule"], "shop:user");
    let call = spans.iter().find(|span| span.name == "redis decide").unwrap();
    assert_eq!((&call.trace_id, &call.parent_span_id), (&server.trace_id, &server.span_id));
    assert!(!format!("{spans:?}").contains("secretive"), "{spans:?}");
}

/// An Envoy with tracing on, in front of a server with these rules, and where it listens.
async fn traced_envoy(
    collector: &Collector,
    server: SocketAddr,
    files: &TempDir,
) -> (Child, SocketAddr) {
    let upstream = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let upstream_at = upstream.local_addr().unwrap();
    let router = Router::new().fallback(routing::any(|| async { "here" }));
    tokio::spawn(async { axum::serve(upstream, router).await.unwrap() });
    let mut config = envoy_example("envoy.yaml", server, upstream_at);
    config.pointer_mut(CONNECTION_MANAGER).unwrap()["tracing"] = json!({
        "provider": {
            "name": "envoy.tracers.opentelemetry",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig",
                "grpc_service": { "envoy_grpc": { "cluster_name": "collector" }, "timeout": "1s" },
                "service_name": "envoy",
            },
        },
    });
    config["static_resources"]["clusters"].as_array_mut().unwrap().push(json!({
        "name": "collector",
        "type": "STATIC",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": { "http2_protocol_options": {} },
            },
        },
        "load_assignment": {
            "cluster_name": "collector",
            "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": { "socket_address": {
                "address": "127.0.0.1", "port_value": collector.address.port(),
            } } } }] }],
        },
    }));
    let config = files.file("envoy.json", &config.to_string());
    start_envoy(&config, files).await
}

#[tokio::test]
async fn a_trace_goes_on_where_envoys_is() {
    let (collector, files) = (Collector::start().await, TempDir::new());
    let rules = RULES.replace("domain: shop", "domain: edge");
    let url = collector.url();
    let environment =
        [&HASTE[..], &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url.as_str())]].concat();
    let server = Server::start_with(&files.file("edge.yaml", &rules), &environment).await;
    let (_envoy, edge) = traced_envoy(&collector, server.grpc, &files).await;
    support::get(edge, "/", &[("x-user", b"alice"), ("x-plan", b"free")]).await.unwrap();
    let ours = until("our span arrives", async || collector.spans("tollgate").pop()).await;
    assert_eq!(ours.name, "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit");
    // Envoy exports its own a few seconds later.
    until("the Envoy span that asked arrives, of the same trace", async || {
        let spans = collector.spans("envoy");
        let asked = spans.into_iter().find(|span| span.span_id == ours.parent_span_id)?;
        assert_eq!(asked.trace_id, ours.trace_id);
        Some(())
    })
    .await;
}

/// Envoy copies the caller's `tracestate` into its call, as long as it is: the caller is limited all the same.
#[tokio::test]
async fn a_long_tracestate_bypasses_no_limit() {
    let (collector, files) = (Collector::start().await, TempDir::new());
    let rules = "
domain: edge
descriptors:
  - key: plan
    value: free
    descriptors:
      - key: user
        rate_limit: {unit: year, requests_per_unit: 2}
";
    let url = collector.url();
    let environment =
        [&HASTE[..], &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url.as_str())]].concat();
    let server = Server::start_with(&files.file("edge.yaml", rules), &environment).await;
    let (_envoy, edge) = traced_envoy(&collector, server.grpc, &files).await;
    for length in [100, 16_000, 20_000, 55_000] {
        for flags in ["01", "00"] {
            let user = format!("user-{length}-{flags}");
            let trace = format!("00-{TRACE}-{PARENT}-{flags}");
            let state = format!("a={}", "x".repeat(length));
            let headers = [
                ("x-plan", &b"free"[..]),
                ("x-user", user.as_bytes()),
                ("traceparent", trace.as_bytes()),
                ("tracestate", state.as_bytes()),
            ];
            let mut statuses = Vec::new();
            for _ in 0..4 {
                statuses.push(support::get(edge, "/", &headers).await.unwrap().status);
            }
            assert_eq!(statuses, [200, 200, 429, 429], "{length} bytes, {flags}");
        }
    }
}

#[tokio::test]
async fn a_collector_that_is_gone_is_told_of_once_and_holds_up_nobody() {
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, free_port()).into();
    let url = format!("http://{address}");
    let environment = [&HASTE[..], &[("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str())]].concat();
    let mut shop = Shop::open(&environment).await;
    let told = |log: &str| log.matches("metrics cannot be exported by OTLP").count();
    until("it is told", async || (told(&shop.server.log()) > 0).then_some(())).await;
    shop.ask(&[["user", "alice"]]).await;
    let kept = format!("00-{TRACE}-{PARENT}-01");
    for _ in 0..3 {
        ask_in(shop.server.http, &kept, "alice").await;
    }
    until("traces are told of, too", async || {
        shop.server.log().contains("traces cannot be exported by OTLP").then_some(())
    })
    .await;
    let collector = Collector::start_at(address).await;
    until("it is back", async || {
        shop.server.log().contains("metrics are exported again").then_some(())
    })
    .await;
    assert_eq!(told(&shop.server.log()), 1, "{}", shop.server.log());
    assert!(!collector.metrics("tollgate").is_empty());
}

#[tokio::test]
async fn the_last_is_exported_when_it_leaves_and_a_hanging_collector_does_not_keep_it() {
    let collector = Collector::start().await;
    // It takes connections, and says nothing.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    for (url, is_heard) in [(collector.url(), true), (silent_url, false)] {
        let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()), ("TOLLGATE_DRAIN", "0s")];
        let shop = Shop::open(&environment).await;
        let kept = format!("00-{TRACE}-{PARENT}-01");
        ask_in(shop.server.http, &kept, "alice").await;
        shop.server.signal("TERM").await;
        // Ended within what tests have patience for.
        shop.server.last_log().await;
        assert_eq!(collector.spans("tollgate").len(), 1, "{is_heard}");
        assert!(!collector.metrics("tollgate").is_empty());
    }
}

#[tokio::test]
async fn an_endpoint_without_a_scheme_is_refused_at_the_start() {
    let files = TempDir::new();
    let rules = files.file("shop.yaml", RULES).display().to_string();
    let addresses = ["TOLLGATE_GRPC_ADDR", "TOLLGATE_HTTP_ADDR", "TOLLGATE_ADMIN_ADDR"];
    let free = addresses.map(|name| (name, "127.0.0.1:0"));
    let arguments = ["serve", "--config", &rules, "--otlp-endpoint", "localhost:4317"];
    let output = support::run(&arguments, &free).await;
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("http://localhost:4317"), "{error}");
}

#[tokio::test]
async fn with_another_sampler_requests_without_a_trace_have_one() {
    let collector = Collector::start().await;
    let url = collector.url();
    let environment =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()), ("OTEL_TRACES_SAMPLER", "always_on")];
    let shop = Shop::open(&[&HASTE[..], &environment].concat()).await;
    let mut client = Client::connect(shop.server.grpc).await;
    client.ask(&request("shop", &[["user", "alice"]])).await.unwrap();
    let span = until("a span arrives", async || collector.spans("tollgate").pop()).await;
    assert!(span.parent_span_id.is_empty());
}
