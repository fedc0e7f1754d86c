//! The commands of the README, run as they stand there, with what they print.
//!
//! A block of `console` holds commands behind `$` and their output. In it `…` at the end of a line
//! stands for the rest of it, and alone for the rest of the output.

use crate::support::{Server, TempDir};
use std::{env, fs, path::Path, process::Stdio};
use tokio::process::Command;

const README: &str = include_str!("../../README.md");

/// A command and what it prints.
struct Example {
    command: String,
    output: String,
}

fn examples() -> Vec<Example> {
    let blocks = README.split("```console\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap());
    let examples = blocks.flat_map(|block| block.split("$ ").skip(1));
    examples
        .map(|example| {
            let (command, output) = example.split_once('\n').unwrap();
            Example { command: command.to_owned(), output: output.to_owned() }
        })
        .collect()
}

/// Whether an output is the one that is shown.
fn is_shown(shown: &str, output: &str) -> bool {
    let mut lines = output.lines();
    for shown in shown.lines() {
        if shown == "…" {
            return true;
        }
        let Some(line) = lines.next() else { return false };
        let is_same = match shown.strip_suffix('…') {
            Some(start) => line.starts_with(start),
            None => line == shown,
        };
        if !is_same {
            return false;
        }
    }
    lines.next().is_none()
}

#[tokio::test]
async fn its_commands_print_what_it_shows() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let server = Server::start(&here.join("config")).await;
    let files = TempDir::new();
    let program = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().unwrap();
    let path = format!("{}:{}", program.display(), env::var("PATH").unwrap());
    std::os::unix::fs::symlink(here.join("config"), files.path().join("config")).unwrap();
    let examples = examples();
    assert!(examples.len() >= 5, "the README has lost its examples");
    for Example { command, output: shown } in examples {
        let output = match command.as_str() {
            // It runs already, on ports of its own.
            "cargo run" => on_usual_ports(&server),
            command => {
                let command = command.replace("localhost:8080", &server.http.to_string());
                let mut bash = Command::new("bash");
                bash.args(["-c", &format!("{{ {command}; }} 2>&1")]).current_dir(files.path());
                bash.env("TOLLGATE_ADMIN_ADDR", server.admin.to_string());
                let output = bash.env("PATH", &path).stdin(Stdio::null());
                String::from_utf8(output.output().await.unwrap().stdout).unwrap()
            }
        };
        // curl's progress is for people.
        let start = output.find("{\"overallCode").filter(|_| command.starts_with("curl"));
        let output = &output[start.unwrap_or(0)..];
        assert!(is_shown(&shown, output), "$ {command}\nshown:\n{shown}\nprinted:\n{output}");
    }
}

/// The screen of a server, as it were on the ports that it has by default.
fn on_usual_ports(server: &Server) -> String {
    let usual = [
        (server.grpc, "0.0.0.0:8081"),
        (server.http, "0.0.0.0:8080"),
        (server.admin, "127.0.0.1:6070"),
    ];
    usual.into_iter().fold(server.screen.clone(), |screen, (actual, usual)| {
        screen.replace(&format!("{:<22}", actual.to_string()), &format!("{usual:<22}"))
    })
}

#[test]
fn its_rules_are_valid() {
    let rules = README.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let source = tollgate::config::Source { name: "README.md".to_owned(), text: rules.to_owned() };
    let loaded = tollgate::config::parse(vec![source], &tollgate::config::Options::default());
    assert_eq!(loaded.render(false), "");
}

#[test]
fn the_rules_in_the_documents_are_valid() {
    for document in ["docs/rules.md", "docs/operating.md", "docs/adopting.md"] {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(here.join(document)).unwrap();
        let blocks: Vec<_> = text.split("```yaml\n").skip(1).collect();
        assert!(!blocks.is_empty(), "{document} has lost its rules");
        for block in blocks {
            let text = block.split("```").next().unwrap().to_owned();
            let source = tollgate::config::Source { name: document.to_owned(), text };
            let loaded =
                tollgate::config::parse(vec![source], &tollgate::config::Options::default());
            assert_eq!(loaded.render(false), "");
        }
    }
}

#[test]
fn its_links_lead_somewhere() {
    for document in [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "docs/rules.md",
        "docs/redis.md",
        "docs/operating.md",
        "docs/adopting.md",
        "examples/clients/README.md",
    ] {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(here.join(document)).unwrap();
        let folder = here.join(document).parent().unwrap().to_owned();
        for link in text.split("](").skip(1) {
            let link = link.split(')').next().unwrap();
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let slug = |line: &str| {
                line.trim_start_matches('#')
                    .trim()
                    .to_lowercase()
                    .replace(' ', "-")
                    .replace('/', "")
            };
            let is_there = match file {
                "" => text.lines().any(|line| line.starts_with('#') && slug(line) == heading),
                file => folder.join(file).exists(),
            };
            assert!(link.starts_with("http") || is_there, "{document} links to {link}");
        }
    }
}

#[test]
fn its_make_targets_exist() {
    let makefile = include_str!("../../Makefile");
    let commands: Vec<&str> =
        README.lines().filter_map(|line| line.strip_prefix("make ")).collect();
    assert!(!commands.is_empty());
    for command in commands {
        let target = command.split_whitespace().next().unwrap();
        assert!(makefile.contains(&format!("\n{target}:")), "make {target}");
    }
}
