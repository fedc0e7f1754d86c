//! Under which names a port on loopback answers. A web page on the operator's machine can have a name of its
//! own stand for 127.0.0.1 and then ask what listens there, as if it were its own server; but it cannot have the
//! browser say another name than its own.

#[cfg(test)]
mod tests;

use axum::{
    extract::Request,
    http::{StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::net::IpAddr;

/// Lets those ask who call the server by an address, or by the name that every machine has for itself.
pub(super) async fn loopback_only(request: Request, next: Next) -> Response {
    let hosts = request.headers().get_all(header::HOST).iter().map(|host| host.to_str().ok());
    let target = request.uri().authority().map(|authority| Some(authority.as_str()));
    if hosts.chain(target).all(|host| host.is_some_and(is_loopback)) {
        return next.run(request).await;
    }
    let why = "this port is on loopback, and answers only those who call it so: ask localhost or 127.0.0.1\n";
    (StatusCode::FORBIDDEN, why).into_response()
}

/// Whether this is an address, or `localhost`, with or without a port.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) if port.is_empty() || is_port(port) => address,
        Some(_) => return false,
        None => match host.find(':').map(|colon| host.split_at(colon)) {
            Some((name, port)) if is_port(port) => name,
            Some(_) => return false,
            None => host,
        },
    };
    name.parse::<IpAddr>().is_ok() || name.trim_end_matches('.').eq_ignore_ascii_case("localhost")
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|port| port.bytes().all(|it| it.is_ascii_digit()))
}
