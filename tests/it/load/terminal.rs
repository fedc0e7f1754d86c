//! What it shows on a terminal while it runs, and what Ctrl-C leaves.

use super::server;
use crate::support::{PATIENCE, Server};
use std::process::Stdio;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::{ChildStdin, ChildStdout, Command},
    time,
};

/// A load on a terminal of its own: what it shows, and what is typed.
async fn load_on_a_terminal(
    server: &Server,
    arguments: &str,
    typing: impl AsyncFnOnce(&mut ChildStdin, &mut String, &mut ChildStdout),
) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_tollgate");
    let command = format!("exec '{program}' load --target {} {arguments}", server.grpc);
    // It comes with every Debian, and makes terminals.
    let mut terminal = Command::new("script")
        .args(["-q", "-e", "-c", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (mut keyboard, mut screen) =
        (terminal.stdin.take().unwrap(), terminal.stdout.take().unwrap());
    let mut shown = String::new();
    let watching = async {
        typing(&mut keyboard, &mut shown, &mut screen).await;
        screen.read_to_string(&mut shown).await.unwrap();
        terminal.wait().await.unwrap().code()
    };
    let code = time::timeout(PATIENCE, watching).await.expect("it did not end");
    (code, shown)
}

#[tokio::test]
async fn on_a_terminal_a_line_tells_how_it_goes() {
    let (server, _files) = server().await;
    let arguments = "--duration 3s --warmup 0 --rate 100";
    let (code, shown) = load_on_a_terminal(&server, arguments, async |_, _, _| {}).await;
    assert_eq!(code, Some(0), "{shown}");
    // Every line is written over the last, and the last makes room for what was measured.
    let (lines, summary) = shown.rsplit_once("\r\x1b[K").unwrap();
    let lines: Vec<_> = lines.split("\r\x1b[K").filter(|line| !line.is_empty()).collect();
    assert!(lines.iter().all(|line| line.starts_with(&server.grpc.to_string())), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("/s, p50 ")), "{lines:?}");
    assert!(summary.starts_with("rate ") && summary.contains("OK "), "{summary:?}");
}

#[tokio::test]
async fn ctrl_c_ends_it_early_and_shows_what_was_measured() {
    let (server, _files) = server().await;
    for against in ["", "--against-null --rounds 1"] {
        let arguments = format!("--duration 1h --warmup 0 --rate 100 {against}");
        let (code, shown) =
            load_on_a_terminal(&server, &arguments, async |keyboard, shown, screen| {
                let mut piece = [0; 1024];
                while !shown.contains("/s, p50") {
                    let length = screen.read(&mut piece).await.unwrap();
                    *shown += &String::from_utf8_lossy(&piece[..length]);
                }
                keyboard.write_all(b"\x03").await.unwrap();
            })
            .await;
        assert_eq!(code, Some(130), "{shown}");
        let says = if against.is_empty() { "rate " } else { "No round was whole" };
        assert!(shown.contains(says), "{shown}");
    }
}
