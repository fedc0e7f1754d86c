//! The files that ship the server agree with each other and with it. No container engine runs them
//! here, so what one would trip over is read from them.

use crate::support::{self, Redis, Server, on, yaml};
use serde_json::Value;
use std::{fs, path::Path, process::Command};

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file))
        .unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn exists(path: &str) -> bool {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path).exists()
}

/// The instructions of the Dockerfile: name and the rest, continued lines joined.
fn dockerfile() -> Vec<(String, String)> {
    let text = read("Dockerfile");
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    joined
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, rest)| (name.to_owned(), rest.trim().to_owned()))
        .collect()
}

/// What follows the one instruction of this name.
fn only<'a>(instructions: &'a [(String, String)], name: &str) -> &'a str {
    let found: Vec<_> = instructions.iter().filter(|(found, _)| found == name).collect();
    assert_eq!(found.len(), 1, "the Dockerfile has one {name}");
    &found[0].1
}

/// `1.95` of `1.95-slim`, as numbers that compare.
fn version(text: &str) -> Vec<u32> {
    let number = text.split(|c: char| c != '.' && !c.is_ascii_digit()).next().unwrap();
    number.split('.').map(|part| part.parse().unwrap()).collect()
}

/// The value of a field in the system's description of a process, in KiB.
fn kib(file: &str, field: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_matches([':', '\t', ' ', 'k', 'B']).parse().unwrap()
}

#[tokio::test]
async fn an_idle_server_takes_less_memory_than_its_manifest_requests() {
    let manifest = read("deploy/kubernetes/deployment.yaml");
    let requests = manifest.split_once("requests:").unwrap().1;
    let memory = requests.split_once("memory: ").unwrap().1;
    let requested: u64 = memory.split_once("Mi\n").unwrap().0.parse().unwrap();
    let redis = Redis::start().await;
    for environment in [&[][..], &on(&redis)[..]] {
        let files = support::TempDir::new();
        let rules = files.file("rules.yaml", "domain: shop\ndescriptors: []\n");
        let server = Server::start_with(&rules, environment).await;
        // A debug build has twice as much code, and more of it is read than in a release.
        let resident = server.memory_kib("VmRSS") / 1024;
        assert!(resident < requested, "{resident} MiB of {requested}");
        let mapped = format!("/proc/{}/smaps_rollup", server.id());
        assert_eq!(kib(&mapped, "AnonHugePages"), 0, "no huge pages");
        assert_eq!(kib(&format!("/proc/{}/status", server.id()), "THP_enabled"), 0);
    }
}

#[test]
fn the_builder_gets_all_that_the_program_is_made_of() {
    let ignore = read(".dockerignore");
    let let_through: Vec<_> = ignore.lines().filter_map(|line| line.strip_prefix('!')).collect();
    // Benchmarks too: Cargo refuses a manifest whose targets have no file, even to build another.
    let parts =
        ["Cargo.toml", "Cargo.lock", "benches", "build.rs", "config", "lua", "proto", "src"];
    for part in parts.into_iter().filter(|part| exists(part)) {
        assert!(let_through.contains(&part), ".dockerignore stops {part}");
    }

    let dockerfile = dockerfile();
    let copies = dockerfile.iter().filter(|(name, _)| name == "COPY");
    for (_, copy) in copies.filter(|(_, rest)| !rest.starts_with("--from=")) {
        let (sources, _) = copy.rsplit_once(' ').expect("a destination");
        for source in sources.split_whitespace() {
            assert!(exists(source), "the Dockerfile copies {source}");
            assert!(source == "." || let_through.contains(&source), "{source} is not let through");
        }
    }
}

#[test]
fn the_image_runs_its_program_as_a_user_that_is_not_root() {
    let dockerfile = dockerfile();

    let user = only(&dockerfile, "USER");
    let ids: Vec<u32> = user.split(':').map(|id| id.parse().expect("a number")).collect();
    assert!(ids.iter().all(|&id| id > 0), "USER {user}");

    let entrypoint: Vec<String> = serde_json::from_str(only(&dockerfile, "ENTRYPOINT")).unwrap();
    let program = dockerfile.iter().find_map(|(name, rest)| {
        (name == "COPY" && rest.starts_with("--from=build")).then(|| rest.split(' ').next_back())?
    });
    assert_eq!(program, entrypoint.first().map(String::as_str));

    let arguments: Vec<String> = serde_json::from_str(only(&dockerfile, "CMD")).unwrap();
    assert_eq!(arguments, ["serve", "--config", "/etc/tollgate"]);
    assert!(dockerfile.contains(&("COPY".to_owned(), "config /etc/tollgate".to_owned())));
}

#[test]
fn the_image_is_built_by_a_rust_that_is_new_enough() {
    let dockerfile = dockerfile();
    let image = dockerfile.iter().find_map(|(_, rest)| rest.strip_prefix("rust:")).unwrap();
    let manifest = read("Cargo.toml");
    let asked = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
    assert!(version(image) >= version(asked.trim_matches('"')), "rust:{image} < {asked}");
}

#[test]
fn the_compose_file_mounts_only_what_there_is() {
    let compose = yaml("docker-compose.yml");
    for service in compose["services"].as_object().unwrap().values() {
        for volume in service["volumes"].as_array().into_iter().flatten() {
            let source = volume.as_str().unwrap().split(':').next().unwrap();
            assert!(exists(source), "docker-compose.yml mounts {source}");
        }
    }
}

#[tokio::test]
async fn the_redis_of_the_compose_file_is_set_up_as_the_server_wants_it() {
    let compose = yaml("docker-compose.yml");
    let command = compose["services"]["redis"]["command"].as_array().unwrap();
    let settings: Vec<_> = command.iter().skip(1).map(|word| word.as_str().unwrap()).collect();
    let redis = Redis::start_with(&settings).await;
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let server = Server::start_with(&config, &on(&redis)).await;
    // By then it has been looked at.
    support::until("the store is used", async || {
        let ready = support::get(server.http, "/ready", &[]).await.unwrap();
        (ready.body == "ready\n").then_some(())
    })
    .await;
    server.signal("INT").await;
    let log = server.last_log().await;
    assert!(!log.contains("WARN"), "{log}");
}

#[test]
fn compose_envoy_and_the_server_agree_on_ports() {
    let compose = yaml("docker-compose.yml");
    let published: Vec<_> = compose["services"]["tollgate"]["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| port.as_str().unwrap().rsplit(':').next().unwrap().to_owned())
        .collect();
    assert_eq!(published, ["10000", "8081", "8080"]);
    assert_eq!(only(&dockerfile(), "EXPOSE"), "8081 8080");
    let program = Command::new(env!("CARGO_BIN_EXE_tollgate")).args(["serve", "--help"]).output();
    let help = String::from_utf8(program.unwrap().stdout).unwrap();
    for address in ["0.0.0.0:8081", "0.0.0.0:8080"] {
        assert!(help.contains(address), "{address} is no default of `tollgate serve`: {help}");
    }

    let envoy = yaml("examples/envoy/envoy.yaml");
    let port = |place: &str| envoy.pointer(place).and_then(Value::as_u64).unwrap();
    let cluster = |index: usize| {
        port(&format!(
            "/static_resources/clusters/{index}\
             /load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address/port_value"
        ))
    };
    assert_eq!(port("/static_resources/listeners/0/address/socket_address/port_value"), 10000);
    assert_eq!(cluster(0), 8081);
    let upstream = format!("-listen=:{}", cluster(1));
    let command = compose["services"]["upstream"]["command"].as_array().unwrap();
    assert!(command.contains(&upstream.into()), "{command:?}");
}

#[test]
fn everything_means_the_same_envoy() {
    let script = read("scripts/prepare");
    let installed = script.lines().find_map(|line| line.strip_prefix("version=")).unwrap();
    let image = yaml("docker-compose.yml")["services"]["envoy"]["image"].clone();
    assert_eq!(image, format!("envoyproxy/envoy:v{installed}-latest"));
    assert!(read("examples/envoy/envoy.yaml").contains(&format!("Envoy ({installed})")));
}
