//! Whatever is asked at the operator's port, and whoever it says it is, it is answered, and nothing is shown to who does not
//! bring the token.

#![no_main]

mod support;

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode, header},
};
use libfuzzer_sys::fuzz_target;
use support::{RUNTIME, new_decider};
use tollgate::http::{self, AdminAccess, Token, TokenSource};
use tower::ServiceExt as _;

const TOKEN: &str = "open-sesame-please";

fuzz_target!(|input: &[u8]| {
    // A path, who is asked for, and what is brought, a line each.
    let mut lines = input.split(|byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (path, host, authorization, accept) = (line(), line(), line(), line());
    let request = Request::get(path)
        .header(header::HOST, host)
        .header(header::AUTHORIZATION, authorization)
        .header(header::ACCEPT, accept)
        .body(Body::empty());
    let Ok(request) = request else { return };
    let token = Token::open(TokenSource::Environment(TOKEN.to_owned())).expect("a token");
    let access = AdminAccess { is_loopback: true, asks_certificates: false, token: Some(token) };
    let admin = http::admin(new_decider(), access, Router::new());
    RUNTIME.block_on(async {
        let answer = admin.oneshot(request).await.expect("an answer");
        let status = answer.status();
        assert!(!status.is_server_error(), "{status}");
        if status == StatusCode::OK {
            let token = TOKEN.as_bytes();
            assert!(authorization.windows(token.len()).any(|part| part == token));
            let body = to_bytes(answer.into_body(), usize::MAX).await.expect("a whole answer");
            assert!(!body.is_empty());
        }
    });
});
