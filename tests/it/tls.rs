//! TLS at the doors.

use crate::{
    grpc::Client,
    support::{
        self, Authority, Identity, Response, Server, TempDir, TlsClient, envoy_example,
        start_envoy, until, yaml,
    },
};
use axum::{Router, routing};
use serde_json::{Value, json};
use std::{cell::Cell, fs, io, net::SocketAddr, os::unix::fs::symlink, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

const RULES: &str = "
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 1000}
  - key: plan
    value: free
    descriptors:
      - key: user
        rate_limit: {unit: hour, requests_per_unit: 3}
";

const JSON: &str =
    r#"{"domain":"edge","descriptors":[{"entries":[{"key":"user","value":"ada"}]}]}"#;

const YEAR: Duration = Duration::from_secs(365 * 86_400);

fn request() -> Value {
    json!({ "domain": "edge", "descriptors": [{ "entries": [["user", "ada"]] }] })
}

/// A server that speaks TLS, who has signed its certificate, and who signs those of its clients.
struct Opened {
    server: Server,
    authority: Authority,
    clients: Authority,
    files: TempDir,
    versions: Cell<u32>,
}

/// The files of a server, laid out as Kubernetes does: a link to a directory, which is changed all at once.
fn write(files: &TempDir, version: u32, identity: &Identity, clients: &Authority) {
    let directory = files.path().join(version.to_string());
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("tls.pem"), &identity.certificate).unwrap();
    fs::write(directory.join("tls.key"), &identity.key).unwrap();
    fs::write(directory.join("clients.pem"), clients.pem()).unwrap();
    symlink(&directory, files.path().join("next")).unwrap();
    fs::rename(files.path().join("next"), files.path().join("current")).unwrap();
}

async fn open_for(valid: Duration, asks_clients: bool, environment: &[(&str, &str)]) -> Opened {
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    let files = TempDir::new();
    write(&files, 1, &authority.issue_for("tollgate", valid), &clients);
    let path = |name: &str| files.path().join("current").join(name).display().to_string();
    let (certificate, key, ca) = (path("tls.pem"), path("tls.key"), path("clients.pem"));
    let mut all = vec![("TOLLGATE_TLS_CERT", certificate.as_str()), ("TOLLGATE_TLS_KEY", &key)];
    if asks_clients {
        all.push(("TOLLGATE_TLS_CLIENT_CA", &ca));
    }
    all.extend(environment);
    let server = Server::start_with(&files.file("edge.yaml", RULES), &all).await;
    Opened { server, authority, clients, files, versions: Cell::new(1) }
}

async fn open(asks_clients: bool, environment: &[(&str, &str)]) -> Opened {
    open_for(YEAR, asks_clients, environment).await
}

impl Opened {
    /// A client that may have a certificate to show.
    fn client(&self, shown: Option<&Identity>) -> TlsClient {
        TlsClient::new(&self.authority, shown)
    }

    /// Puts other files in the place of those that are read.
    fn change(&self, identity: &Identity, clients: &Authority) {
        self.versions.set(self.versions.get() + 1);
        write(&self.files, self.versions.get(), identity, clients);
    }

    /// The status of a decision over gRPC; `None` where the client is not let in.
    async fn decides(&self, client: &TlsClient) -> Option<i32> {
        let mut client = Client::over(client.channel(self.server.grpc).await.ok()?);
        Some(client.ask(&request()).await.ok()?.overall_code)
    }

    async fn json(&self, client: &TlsClient) -> io::Result<Response> {
        client.ask(self.server.http, "/json", "", JSON).await
    }

    async fn logs(&self, words: &str) {
        until(words, async || self.server.log().contains(words).then_some(())).await;
    }
}

#[tokio::test]
async fn grpc_and_http_speak_tls_of_two_versions_and_nothing_else() {
    let opened = open(false, &[]).await;
    assert_eq!(opened.server.screen.matches(", over TLS").count(), 2, "{}", opened.server.screen);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let client = TlsClient::with_versions(&opened.authority, None, &[version]);
        assert_eq!(opened.decides(&client).await, Some(1));
        assert_eq!(opened.json(&client).await.unwrap().status, 200);
        let ready = client.ask(opened.server.http, "/ready", "", "").await.unwrap();
        assert_eq!((ready.status, ready.body.as_str()), (200, "ready\n"));
    }
    let client = opened.client(None);
    // A door speaks what stands behind it.
    client.connect(opened.server.grpc, &["http/1.1"]).await.unwrap_err();
    client.connect(opened.server.http, &["h2"]).await.unwrap_err();
    opened.logs("gRPC port: 1 TLS handshakes failed").await;
    // And not in plain text; the operator's own, on loopback, is as it was.
    for door in [opened.server.grpc, opened.server.http] {
        support::get(door, "/ready", &[]).await.unwrap_err();
    }
    opened.logs("HTTP port: 1 clients did not speak TLS").await;
    let other = TlsClient::new(&opened.clients, None);
    other.connect(opened.server.grpc, &["h2"]).await.unwrap_err();
    opened.logs("clients did not accept the certificate").await;
    assert_eq!(support::get(opened.server.admin, "/rlconfig", &[]).await.unwrap().status, 200);
}

#[tokio::test]
async fn only_who_shows_a_certificate_may_ask_but_probes_need_none() {
    let opened = open(true, &[]).await;
    let known = opened.client(Some(&opened.clients.issue("envoy.edge")));
    assert_eq!(opened.decides(&known).await, Some(1));
    assert_eq!(opened.json(&known).await.unwrap().status, 200);

    let nobody = opened.client(None);
    assert_eq!(opened.decides(&nobody).await, None);
    let refused = opened.json(&nobody).await.unwrap();
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("client certificate"), "{}", refused.body);
    for probe in ["/healthcheck", "/ready"] {
        let answer = nobody.ask(opened.server.http, probe, "", "").await.unwrap();
        assert_eq!(answer.status, 200, "{probe}");
    }
    opened.logs("clients did not show the certificate").await;

    // Whoever another has signed is not even let in at the HTTP port.
    let foreign = opened.client(Some(&opened.authority.issue("envoy.edge")));
    assert_eq!(opened.decides(&foreign).await, None);
    opened.json(&foreign).await.unwrap_err();
    let expired = opened.clients.issue_for("envoy.edge", Duration::ZERO);
    assert_eq!(opened.decides(&opened.client(Some(&expired))).await, None);
    opened.logs("clients showed a certificate that has expired").await;
    assert!(!opened.server.log().contains("envoy.edge"), "{}", opened.server.log());
}

#[tokio::test]
async fn who_is_signed_but_not_named_may_not_ask() {
    let names = ("TOLLGATE_TLS_CLIENT_NAMES", "*.edge,spiffe://mesh/ns/edge/*");
    let opened = open(true, &[names]).await;
    for name in ["envoy.edge", "spiffe://mesh/ns/edge/sa/envoy"] {
        let client = opened.client(Some(&opened.clients.issue(name)));
        assert_eq!(opened.decides(&client).await, Some(1), "{name}");
        assert_eq!(opened.json(&client).await.unwrap().status, 200, "{name}");
    }
    for name in ["edge", "envoy.edge.example", "spiffe://mesh/ns/other/sa/envoy"] {
        let client = opened.client(Some(&opened.clients.issue(name)));
        assert_eq!(opened.decides(&client).await, None, "{name}");
        let refused = opened.json(&client).await.unwrap();
        assert_eq!(refused.status, 403, "{name}");
        assert!(refused.body.contains("for no name that may ask"), "{}", refused.body);
        let ready = client.ask(opened.server.http, "/ready", "", "").await.unwrap();
        assert_eq!(ready.status, 200, "{name}");
    }
    opened.logs("clients showed a certificate that is signed, but for no name").await;
}

/// The certificate that the server shows.
async fn shown(opened: &Opened, client: &TlsClient) -> Option<Vec<u8>> {
    let stream = client.connect(opened.server.grpc, &["h2"]).await.ok()?;
    Some(stream.get_ref().1.peer_certificates()?.first()?.to_vec())
}

#[tokio::test]
async fn new_certificates_are_in_force_without_a_restart_and_bad_ones_never() {
    let opened = open(true, &[]).await;
    let old = opened.clients.issue("envoy.edge");
    let client = opened.client(Some(&old));
    let first = shown(&opened, &client).await.unwrap();
    let mut lasting = Client::over(client.channel(opened.server.grpc).await.unwrap());
    lasting.ask(&request()).await.unwrap();

    // A key of another certificate.
    let (one, other) = (opened.authority.issue("tollgate"), opened.authority.issue("tollgate"));
    let pair = Identity { certificate: one.certificate.clone(), key: other.key };
    opened.change(&pair, &opened.clients);
    opened.logs("certificates stay as they were").await;
    assert_eq!(shown(&opened, &client).await.as_ref(), Some(&first));
    fs::remove_file(opened.files.path().join("current")).unwrap();
    opened.logs("No such file").await;
    assert_eq!(shown(&opened, &client).await.as_ref(), Some(&first));

    let new_clients = Authority::new("new clients");
    opened.change(&one, &new_clients);
    opened.logs("new certificates are in force").await;
    assert_eq!(opened.decides(&client).await, None, "signed by whom is not trusted any more");
    let client = opened.client(Some(&new_clients.issue("envoy.edge")));
    let second = shown(&opened, &client).await.unwrap();
    assert_ne!(second, first);
    assert_eq!(opened.decides(&client).await, Some(1));
    // Who is in, stays.
    lasting.ask(&request()).await.unwrap();
    let log = opened.server.log();
    assert_eq!(log.matches("certificates stay as they were").count(), 2, "{log}");
}

#[tokio::test]
async fn a_certificate_that_is_about_to_expire_is_told_of() {
    let opened = open_for(Duration::from_secs(3 * 86_400 + 3600), false, &[]).await;
    opened.logs("the certificate expires in 3 days").await;
    opened.change(&opened.authority.issue_for("tollgate", Duration::ZERO), &opened.clients);
    opened.logs("the certificate has expired").await;
    opened.change(&opened.authority.issue("tollgate"), &opened.clients);
    until("the new one is in force", async || {
        (opened.server.log().matches("are in force").count() == 2).then_some(())
    })
    .await;
    let log = opened.server.log();
    assert_eq!(log.matches("the certificate").count(), 2, "{log}");
}

#[tokio::test]
async fn garbage_in_place_of_a_handshake_is_counted_and_harms_nobody() {
    let opened = open(false, &[]).await;
    for _ in 0..100 {
        let mut caller = TcpStream::connect(opened.server.grpc).await.unwrap();
        caller.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let _ = caller.read_to_end(&mut Vec::new()).await;
    }
    assert_eq!(opened.decides(&opened.client(None)).await, Some(1));
    opened.logs("clients did not speak TLS").await;
    assert!(opened.server.log().lines().count() < 5, "{}", opened.server.log());
}

#[tokio::test]
async fn who_does_not_go_on_with_a_handshake_is_left() {
    let opened = open(false, &[]).await;
    for door in [opened.server.grpc, opened.server.http] {
        let mut caller = TcpStream::connect(door).await.unwrap();
        caller.write_all(b"\x16\x03\x01\x02\x00\x01\x00").await.unwrap();
        let end =
            tokio::time::timeout(support::PATIENCE, caller.read_to_end(&mut Vec::new())).await;
        let _ = end.expect("it is still waited for");
    }
    assert_eq!(opened.decides(&opened.client(None)).await, Some(1));
}

#[tokio::test]
async fn what_cannot_speak_tls_does_not_start() {
    let files = TempDir::new();
    let rules = files.file("edge.yaml", RULES).display().to_string();
    let (certificate, key) = Authority::new("servers").issue("tollgate").written(&files, "tls");
    let cases: [(&[&str], &str); 6] = [
        (&["--tls-cert", &certificate], "--tls-key"),
        (&["--tls-key", &key], "--tls-cert"),
        (&["--tls-client-ca", &certificate], "--tls-cert"),
        (&["--tls-cert", &certificate, "--tls-key", &rules], "it holds no private key"),
        (&["--tls-cert", &rules, "--tls-key", &key], "it holds no certificates"),
        (
            &[
                "--tls-cert",
                &certificate,
                "--tls-key",
                &key,
                "--tls-client-ca",
                &certificate,
                "--tls-client-names",
                "*",
            ],
            "write a DNS name",
        ),
    ];
    for (flags, words) in cases {
        let output = support::run(&[&["--config", &rules], flags].concat(), &[]).await;
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(matches!(output.status.code(), Some(1 | 2)), "{flags:?}: {text}");
        assert!(text.contains("error: ") && text.contains(words), "{flags:?}: {text}");
    }
}

async fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Router::new().fallback(routing::any(async || "from the upstream"));
    tokio::spawn(async move { axum::serve(listener, answer).await });
    address
}

#[tokio::test]
async fn an_envoy_asks_with_its_certificate() {
    let opened = open(true, &[("TOLLGATE_TLS_CLIENT_NAMES", "spiffe://mesh/ns/edge/*")]).await;
    let identity = opened.clients.issue("spiffe://mesh/ns/edge/sa/envoy");
    let (certificate, key) = identity.written(&opened.files, "envoy");
    let ca = opened.authority.written(&opened.files, "ca.pem");

    let mut snippet = yaml("examples/envoy/tls.yaml").to_string();
    for (there, here) in [
        ("/etc/envoy/tls/tls.crt", certificate.as_str()),
        ("/etc/envoy/tls/tls.key", &key),
        ("/etc/envoy/tls/ca.crt", &ca),
        ("tollgate.example.com", "localhost"),
    ] {
        assert!(snippet.contains(there), "the example lacks {there}");
        snippet = snippet.replace(there, here);
    }
    let snippet: Value = serde_json::from_str(&snippet).unwrap();
    let mut config = envoy_example("envoy.yaml", opened.server.grpc, upstream().await);
    let cluster = config.pointer_mut("/static_resources/clusters/0").unwrap();
    cluster["transport_socket"] = snippet["transport_socket"].clone();
    let config = opened.files.file("envoy.json", &config.to_string());
    let (_envoy, edge) = start_envoy(&config, &opened.files).await;

    let ask = async || {
        let headers: [(&str, &[u8]); 2] = [("x-plan", b"free"), ("x-user", b"ada")];
        support::get(edge, "/", &headers).await.unwrap().status
    };
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(ask().await);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
}
