//! Who may ask at the operator's port.

use crate::support::{self, Authority, Server, TempDir, TlsClient, until};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 2}
";

const TOKEN: &str = "correct-horse-battery-staple";

/// On all addresses.
const OPEN: (&str, &str) = ("TOLLGATE_ADMIN_ADDR", "0.0.0.0:0");

async fn start(files: &TempDir, environment: &[(&str, &str)]) -> Server {
    Server::start_with(&files.file("shop.yaml", RULES), environment).await
}

/// The way there on this machine.
fn here(server: &Server) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, server.admin.port()).into()
}

/// What is answered to whoever sends this as authorization.
async fn with(server: &Server, authorization: &str) -> support::Response {
    let headers = [("authorization", authorization.as_bytes())];
    // Whoever asks an address on loopback calls it so, and `support::get` says `test`.
    support::get_as("localhost", here(server), "/rlconfig", &headers).await.unwrap()
}

/// What `tollgate pools` says, and how it ends.
async fn pools(server: &Server, environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let address = format!("localhost:{}", server.admin.port());
    let all = [&[("TOLLGATE_ADMIN_ADDR", address.as_str())], environment].concat();
    let output = support::run(&["pools"], &all).await;
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test]
async fn a_port_that_others_reach_is_not_opened_unprotected() {
    let files = TempDir::new();
    let rules = files.file("shop.yaml", RULES).display().to_string();
    let short = files.file("short", "too-short\n").display().to_string();
    let cases: [(&[(&str, &str)], &str); 5] = [
        (&[], "--admin-token-file"),
        (&[("TOLLGATE_ADMIN_TOKEN", "")], "--admin-client-names"),
        (&[("TOLLGATE_ADMIN_TOKEN", "too-short")], "TOLLGATE_ADMIN_TOKEN: a token has at least 16"),
        (&[("TOLLGATE_ADMIN_TOKEN_FILE", &short)], "short: a token has at least 16"),
        (&[("TOLLGATE_ADMIN_CLIENT_NAMES", "ops")], "--tls-client-ca"),
    ];
    for (environment, words) in cases {
        let free = [
            ("TOLLGATE_GRPC_ADDR", "127.0.0.1:0"),
            ("TOLLGATE_HTTP_ADDR", "127.0.0.1:0"),
            ("TOLLGATE_CONFIG", &rules),
            OPEN,
        ];
        let output = support::run(&["serve"], &[&free[..], environment].concat()).await;
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(matches!(output.status.code(), Some(1 | 2)), "{environment:?}: {text}");
        assert!(text.contains("error: ") && text.contains(words), "{environment:?}: {text}");
        assert!(!text.contains("too-short"), "{text}");
    }
}

#[tokio::test]
async fn who_does_not_bring_the_token_is_told_what_to_do() {
    for place in [OPEN, ("TOLLGATE_ADMIN_ADDR", "127.0.0.1:0")] {
        let files = TempDir::new();
        let server = start(&files, &[place, ("TOLLGATE_ADMIN_TOKEN", TOKEN)]).await;
        for wrong in
            ["", "Bearer correct-horse-battery-stapl", "Basic correct-horse-battery-staple"]
        {
            let refused = with(&server, wrong).await;
            assert_eq!(refused.status, 401, "{wrong}");
            assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
            assert!(refused.body.contains("--admin-token-file"), "{}", refused.body);
        }
        assert_eq!(with(&server, &format!("Bearer {TOKEN}")).await.status, 200);

        let (code, said) = pools(&server, &[]).await;
        assert!(code == Some(1) && said.contains("TOLLGATE_ADMIN_TOKEN"), "{said}");
        assert_eq!(
            pools(&server, &[("TOLLGATE_ADMIN_TOKEN", TOKEN)]).await,
            (Some(0), String::new())
        );
        let is_plain = server.log().contains("speaks plain text");
        assert_eq!(is_plain, place == OPEN, "{}", server.log());
        assert!(!server.log().contains(TOKEN) && !server.screen.contains(TOKEN));
    }
}

#[tokio::test]
async fn a_new_token_in_the_file_is_in_force_and_a_bad_one_never() {
    let files = TempDir::new();
    let path = files.file("token", &format!("{TOKEN}\n"));
    let path = path.to_str().unwrap();
    let server = start(&files, &[("TOLLGATE_ADMIN_TOKEN_FILE", path)]).await;
    assert_eq!(with(&server, &format!("Bearer {TOKEN}")).await.status, 200);
    fs::write(path, "short").unwrap();
    let told = async || server.log().contains("the admin token stays as it was").then_some(());
    until("it is told", told).await;
    assert_eq!(with(&server, &format!("Bearer {TOKEN}")).await.status, 200);
    assert_eq!(with(&server, "Bearer short").await.status, 401);
    fs::write(path, "another-horse-and-battery").unwrap();
    until("the new one is in force", async || {
        (with(&server, "Bearer another-horse-and-battery").await.status == 200).then_some(())
    })
    .await;
    assert_eq!(with(&server, &format!("Bearer {TOKEN}")).await.status, 401);
    assert_eq!(pools(&server, &[("TOLLGATE_ADMIN_TOKEN_FILE", path)]).await.0, Some(0));
}

#[tokio::test]
async fn web_pages_cannot_ask_on_loopback_under_names_of_their_own() {
    let files = TempDir::new();
    let server = start(&files, &[]).await;
    for (host, status) in [
        ("localhost", 200),
        ("127.0.0.1:6070", 200),
        ("[::1]", 200),
        ("evil.example", 403),
        ("", 403),
    ] {
        let answer = support::get_as(host, server.admin, "/rlconfig", &[]).await.unwrap();
        assert_eq!(answer.status, status, "{host}");
    }
    // A page's own requests go to the port with everything else on it, too.
    let target = format!("http://evil.example:{}/rlconfig", server.admin.port());
    let answer = support::get_as("localhost", server.admin, &target, &[]).await.unwrap();
    assert_eq!(answer.status, 403);
}

#[tokio::test]
async fn certificates_protect_it_and_the_command_shows_one() {
    let files = TempDir::new();
    let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
    let (certificate, key) = authority.issue("tollgate").written(&files, "tls");
    let ca = clients.written(&files, "clients.pem");
    let trusted = authority.written(&files, "ca.pem");
    let (operator, other) = (clients.issue("ops.example"), clients.issue("envoy.example"));
    for place in [OPEN, ("TOLLGATE_ADMIN_ADDR", "127.0.0.1:0")] {
        let environment = [
            place,
            ("TOLLGATE_TLS_CERT", &certificate),
            ("TOLLGATE_TLS_KEY", &key),
            ("TOLLGATE_TLS_CLIENT_CA", &ca),
            ("TOLLGATE_ADMIN_CLIENT_NAMES", "ops.example"),
        ];
        let server = start(&files, &environment).await;
        for (shown, status) in [(Some(&operator), 200), (Some(&other), 403), (None, 403)] {
            let client = TlsClient::new(&authority, shown);
            let answer = client.ask(here(&server), "/rlconfig", "", "").await.unwrap();
            assert_eq!(answer.status, status, "{}", answer.body);
        }
        // Whoever may ask for decisions and whoever operates are not the same.
        let envoy = TlsClient::new(&authority, Some(&other));
        assert_eq!(envoy.ask(server.http, "/ready", "", "").await.unwrap().status, 200);

        let (certificate, key) = operator.written(&files, "operator");
        let tls = ("TOLLGATE_ADMIN_CA", trusted.as_str());
        let shown = [tls, ("TOLLGATE_ADMIN_CERT", &certificate), ("TOLLGATE_ADMIN_KEY", &key)];
        assert_eq!(pools(&server, &shown).await, (Some(0), String::new()));
        let (code, said) = pools(&server, &[tls]).await;
        assert!(code == Some(1) && said.contains("client certificate"), "{said}");
        let (code, said) = pools(&server, &[]).await;
        assert!(code == Some(1) && said.contains("--admin-ca"), "{said}");
        let (code, said) = pools(&server, &[("TOLLGATE_ADMIN_CA", &ca)]).await;
        assert!(code == Some(1) && said.contains("there is no TLS"), "{said}");
        let (code, said) = pools(&server, &[("TOLLGATE_ADMIN_CA", "nowhere.pem")]).await;
        assert!(code == Some(1) && said.contains("--admin-ca nowhere.pem"), "{said}");
    }
}

#[tokio::test]
async fn with_tls_elsewhere_it_is_as_it_was_on_loopback() {
    let files = TempDir::new();
    let (certificate, key) = Authority::new("servers").issue("tollgate").written(&files, "tls");
    let environment = [("TOLLGATE_TLS_CERT", certificate.as_str()), ("TOLLGATE_TLS_KEY", &key)];
    let server = start(&files, &environment).await;
    assert_eq!(pools(&server, &[]).await, (Some(0), String::new()));
}

#[tokio::test]
async fn a_token_is_not_sent_to_another_machine_as_plain_text() {
    let token = [("TOLLGATE_ADMIN_TOKEN", TOKEN)];
    for address in ["192.0.2.1:6070", "[2001:db8::1]:6070", "tollgate.example.com:6070"] {
        let output = support::run(&["pools", "--admin", address], &token).await;
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("--admin-ca") && told.contains(address), "{told}");
        assert!(!told.contains(TOKEN), "{told}");
    }
}
