//! The command line: what it accepts, what it says when it does not, and how it ends.

use crate::{
    grpc::{Client, health},
    support::{self, Server, TempDir},
};
use serde_json::{Value, json};
use std::{
    net::TcpListener,
    process::{Output, Stdio},
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 1}
    message: One a day.
";

const MISTAKES: &str = "
domain: shop
descriptors:
  - key: user
    ratelimit: {unit: day, requests_per_unit: 1}
  - key: plan
    rate_limit: {unit: fortnight, requests_per_unit: 1}
";

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

#[tokio::test]
async fn check_shows_valid_rules_with_their_addresses() {
    let files = TempDir::new();
    let path = files.file("shop.yaml", RULES);
    let output = support::run(&["check", path.to_str().unwrap()], &[]).await;
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stdout(&output), "shop\n└─ user   token_bucket 1 per day   shop:user\n");
    assert_eq!(stderr(&output), "");
}

#[tokio::test]
async fn check_shows_every_error_of_every_file() {
    let files = TempDir::new();
    files.file("a.yaml", MISTAKES);
    files.file("b.yaml", &MISTAKES.replace("shop", "mall"));
    let output = support::run(&["check", files.path().to_str().unwrap()], &[]).await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "", "rules that are not valid are not shown as if they were");
    let text = stderr(&output);
    for place in ["a.yaml:5:5", "a.yaml:7:24", "b.yaml:5:5", "b.yaml:7:24"] {
        assert!(text.contains(place), "{place} in {text}");
    }
    assert_eq!(text.matches("error: ").count(), 4);
    assert_eq!(text.matches("help: ").count(), 4);
}

#[tokio::test]
async fn check_speaks_json() {
    let files = TempDir::new();
    let good = files.file("good.yaml", RULES);
    let output = support::run(&["check", "--json", good.to_str().unwrap()], &[]).await;
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(report["rules"][0]["rule"], "shop:user");
    assert_eq!(report["diagnostics"], json!([]));

    let bad = files.file("bad.yaml", MISTAKES);
    let output = support::run(&["check", "--json", bad.to_str().unwrap()], &[]).await;
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let first = &report["diagnostics"][0];
    let place = &first["place"];
    assert_eq!((&first["severity"], &first["key"]), (&json!("error"), &json!("ratelimit")));
    assert_eq!((&place["line"], &place["column"]), (&json!(5), &json!(5)));
    assert_eq!(report["rules"], json!([]), "half of the rules are no rules");
}

#[tokio::test]
async fn what_cannot_start_says_why_and_fails() {
    let files = TempDir::new();
    let rules = files.file("shop.yaml", RULES);
    let rules = rules.to_str().unwrap();
    let mistakes = files.file("mistakes.yaml", MISTAKES);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let cases: [(&[&str], &[&str]); 21] = [
        (&["serve", "--config", "nowhere.yaml"], &["nowhere.yaml"]),
        (&["check", "nowhere.yaml"], &["nowhere.yaml"]),
        (&["serve", "--config", mistakes.to_str().unwrap()], &["ratelimit", "nothing is served"]),
        (&["--config", rules, "--grpc-addr", &taken], &["--grpc-addr", &taken, "in use"]),
        (
            &["--config", rules, "--grpc-addr", "127.0.0.1:0", "--http-addr", &taken],
            &["--http-addr"],
        ),
        (&["--config", rules, "--admin-addr", "nonsense"], &["--admin-addr", "nonsense"]),
        (&["--config", rules, "--admin-addr", "8081"], &["--admin-addr", "0.0.0.0:8081"]),
        (&["--config", rules, "--log", "wran"], &["--log", "wran", "warn"]),
        (&["--confg", rules], &["--confg", "--config"]),
        (&["--config", rules, "--max-keys", "0"], &["--max-keys"]),
        (&["--config", rules, "--store", "memcached"], &["--store", "redis://", "unix://"]),
        (&["--config", rules, "--store", "redis://u:p@h/db"], &["--store", "database number"]),
        (&["--config", rules, "--store", "rediss://h#insecure"], &["--store", "#"]),
        (&["--config", rules, "--store", "rediss://h", "--store-ca", "none.pem"], &["none.pem"]),
        (&["--config", rules, "--store", "rediss://h", "--store-cert", rules], &["--store-key"]),
        (&["--config", rules, "--store", "redis://h", "--store-ca", rules], &["rediss://"]),
        (&["--config", rules, "--store", "rediss://h", "--store-ca", rules], &["certificates"]),
        (&["--config", rules, "--store-timeout", "0"], &["--store-timeout"]),
        (&["--config", rules, "--rate-limit-headers", "rfc"], &["x-ratelimit", "ietf", "separate"]),
        (
            &[
                "--config",
                rules,
                "--rate-limit-headers",
                "ietf",
                "--limit-response-headers-enabled",
            ],
            &["--rate-limit-headers ietf", "contradict"],
        ),
        (
            &["--config", rules, "--rate-limit-headers=none", "--limit-response-headers-enabled"],
            &["--rate-limit-headers none", "contradict"],
        ),
    ];
    for (arguments, words) in cases {
        let free = [("TOLLGATE_GRPC_ADDR", "127.0.0.1:0"), ("TOLLGATE_HTTP_ADDR", "127.0.0.1:0")];
        let output = support::run(arguments, &free).await;
        let text = stderr(&output);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {:?}", output.status);
        assert!(text.contains("error: ") && !text.contains("panicked"), "{arguments:?}: {text}");
        assert!(words.iter().all(|word| text.contains(word)), "{arguments:?}: {text}");
    }
}

#[tokio::test]
async fn help_names_every_flag_and_its_variable() {
    let output = support::run(&["serve", "--help"], &[]).await;
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    let flags = text.lines().filter(|line| line.trim_start().starts_with("--")).count();
    // One is called as everywhere where there is OpenTelemetry.
    let variables = ["[env: TOLLGATE_", "[env: OTEL_"];
    let told: usize = variables.iter().map(|name| text.matches(name).count()).sum();
    assert_eq!(flags, told);
    assert!(text.contains("[env: TOLLGATE_GRPC_ADDR=]"));
}

#[tokio::test]
async fn the_familiar_variables_work_and_ours_win() {
    let files = TempDir::new();
    let rules = files.file("shop.yaml", RULES);
    let request = json!({ "domain": "shop", "descriptors": [{ "entries": [["user", "ada"]] }] });
    let cases: [(&[(&str, &str)], bool); 4] = [
        (&[], true),
        (&[("SHADOW_MODE", "true")], false),
        (&[("TOLLGATE_SHADOW_MODE", "1")], false),
        (&[("SHADOW_MODE", "true"), ("TOLLGATE_SHADOW_MODE", "false")], true),
    ];
    for (environment, refuses) in cases {
        let server = Server::start_with(&rules, environment).await;
        let mut client = Client::connect(server.grpc).await;
        client.ask(&request).await.unwrap();
        let answer = client.ask(&request).await.unwrap();
        assert_eq!(answer.overall_code == 2, refuses, "{environment:?}");
        assert_eq!(answer.statuses[0].code, 2, "the descriptor is over either way");
        assert_eq!(answer.raw_body.is_empty(), !refuses, "shadow mode adds no refusal's body");
        assert_eq!(answer.response_headers_to_add.is_empty(), !refuses, "nor headers");
    }
}

#[tokio::test]
async fn headers_come_in_the_dialect_that_was_asked_for() {
    let files = TempDir::new();
    let rules = files.file("shop.yaml", RULES);
    let request = json!({ "domain": "shop", "descriptors": [{ "entries": [["user", "ada"]] }] });
    let separate: &[&str] = &["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];
    let envoys: &[&str] = &["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
    let ours = "TOLLGATE_RATE_LIMIT_HEADERS";
    let familiar = "LIMIT_RESPONSE_HEADERS_ENABLED";
    let cases = [
        (vec![(ours, "none")], &[][..]),
        (vec![(ours, "x-ratelimit")], envoys),
        (vec![(ours, "ietf")], &["RateLimit-Policy", "RateLimit"]),
        (vec![(ours, "separate")], separate),
        (vec![(familiar, "true")], separate),
        (vec![(familiar, "true"), (ours, "separate")], separate),
    ];
    for (environment, names) in cases {
        let server = Server::start_with(&rules, &environment).await;
        let answer = Client::connect(server.grpc).await.ask(&request).await.unwrap();
        let headers = answer.response_headers_to_add.iter().map(|header| &header.key);
        assert_eq!(headers.collect::<Vec<_>>(), names, "{environment:?}");
    }
}

#[tokio::test]
async fn several_paths_are_served_together() {
    let files = TempDir::new();
    let shop = files.file("shop.yaml", RULES);
    let mall = files.file("mall.yaml", &RULES.replace("shop", "mall"));
    let both = format!("{}:{}", shop.display(), mall.display());
    let output =
        support::run(&["check", shop.to_str().unwrap(), mall.to_str().unwrap()], &[]).await;
    assert!(stdout(&output).contains("mall:user") && stdout(&output).contains("shop:user"));
    let server = Server::start_from_environment(&[("TOLLGATE_CONFIG", &both)]).await;
    let tree = support::get(server.admin, "/rlconfig", &[]).await.unwrap().body;
    assert!(tree.contains("mall:user") && tree.contains("shop:user"), "{tree}");
}

#[tokio::test]
async fn a_colon_in_a_path_on_the_command_line_is_part_of_it() {
    let files = TempDir::new();
    let rules = files.file("a:b.yaml", RULES);
    let server = Server::start(&rules).await;
    let tree = support::get(server.admin, "/rlconfig", &[]).await.unwrap().body;
    assert!(tree.contains("shop:user"), "{tree}");
}

#[tokio::test]
async fn an_empty_variable_counts_as_not_set() {
    let files = TempDir::new();
    let rules = files.file("shop.yaml", RULES);
    let empty = [
        ("SHADOW_MODE", ""),
        ("TOLLGATE_QUOTA_MODE", ""),
        ("MERGE_DOMAIN_CONFIG", ""),
        ("LIMIT_LIMIT_HEADER", ""),
        ("TOLLGATE_MAX_KEYS", ""),
        ("TOLLGATE_LOG", ""),
    ];
    let server = Server::start_with(&rules, &empty).await;
    assert_eq!(support::get(server.http, "/ready", &[]).await.unwrap().status, 200);
    let familiar = [("TOLLGATE_SHADOW_MODE", ""), ("SHADOW_MODE", "true")];
    let server = Server::start_with(&rules, &familiar).await;
    let request = json!({ "domain": "shop", "descriptors": [{ "entries": [["user", "ada"]], "hits_addend": 2 }] });
    let answer = Client::connect(server.grpc).await.ask(&request).await.unwrap();
    assert_eq!(answer.overall_code, 1);
}

#[tokio::test]
async fn told_to_stop_it_ends_well() {
    for signal in ["TERM", "INT"] {
        let files = TempDir::new();
        let rules = files.file("shop.yaml", RULES);
        let server = Server::start_with(&rules, &[("TOLLGATE_DRAIN", "0")]).await;
        let _idle_connection = Client::connect(server.grpc).await;
        server.signal(signal).await;
        assert!(server.ended().await.success(), "{signal}");
    }
}

#[tokio::test]
async fn told_to_leave_it_is_unready_but_answers_until_it_is_told_again() {
    let files = TempDir::new();
    let rules = files.file("shop.yaml", RULES);
    // Longer than this test can take.
    let server = Server::start_with(&rules, &[("TOLLGATE_DRAIN", "3600")]).await;
    server.signal("TERM").await;
    let unready = async || {
        let response = support::get(server.http, "/ready", &[]).await.unwrap();
        (response.status == 503).then_some(())
    };
    support::until("it is unready", unready).await;
    let not_serving = async || {
        let all =
            [health(server.grpc, "").await, health(server.grpc, tollgate::grpc::SERVICE).await];
        (all == [2, 2]).then_some(())
    };
    support::until("its health is NOT_SERVING", not_serving).await;
    let request = json!({ "domain": "shop", "descriptors": [{ "entries": [["user", "ada"]] }] });
    let answer = Client::connect(server.grpc).await.ask(&request).await.unwrap();
    assert_eq!(answer.overall_code, 1);
    server.signal("INT").await;
    assert!(server.ended().await.success());
}

#[tokio::test]
async fn nobody_listening_to_its_log_is_no_reason_to_die() {
    let files = TempDir::new();
    let rules = files.file("shop.yaml", RULES);
    let mut process = support::program(&[
        ("TOLLGATE_GRPC_ADDR", "127.0.0.1:0"),
        ("TOLLGATE_HTTP_ADDR", "127.0.0.1:0"),
        ("TOLLGATE_ADMIN_ADDR", "127.0.0.1:0"),
        ("TOLLGATE_DRAIN", "0"),
    ]);
    let process = process.arg("--config").arg(rules).kill_on_drop(true);
    let mut process = process.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(process.stderr.take());
    let mut screen = BufReader::new(process.stdout.take().unwrap()).lines();
    while screen.next_line().await.unwrap().is_some_and(|line| !line.contains("Ctrl-C")) {}
    let id = process.id().unwrap().to_string();
    Command::new("kill").args(["-s", "TERM", &id]).status().await.unwrap();
    assert_eq!(process.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_reader_who_has_seen_enough_is_no_error() {
    let files = TempDir::new();
    // More than a pipe holds.
    let many: String =
        (0..5000).map(|user| format!("  - {{key: user, value: u{user}}}\n")).collect();
    let rules = files.file("shop.yaml", &format!("domain: shop\ndescriptors:\n{many}"));
    let mut process = support::program(&[]);
    let process = process.arg("check").arg(rules).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = process.kill_on_drop(true).spawn().unwrap();
    drop(process.stdout.take());
    let output = process.wait_with_output().await.unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
}
