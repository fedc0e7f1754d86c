//! How long a caller waits, by what he says: `grpc-timeout`, as every gRPC client sends it, and Envoy's
//! `x-envoy-expected-rq-timeout-ms`. An answer after that is none, so it is given a little earlier.

use crate::clock::Deadline;
use http::{Extensions, HeaderMap};
use std::time::Duration;

/// What every gRPC client says: eight digits at most, and a unit.
const GRPC: &str = "grpc-timeout";

/// What Envoy says.
const ENVOY: &str = "x-envoy-expected-rq-timeout-ms";

/// The least time that is kept for the way here and back, where the caller waits long enough to leave it: of
/// Envoy's 20 ms, half. With 5 ms, one request in a hundred came back too late, on a machine with nothing else
/// to do.
const LEAST_MARGIN: Duration = Duration::from_millis(10);

/// When a request has to be answered, where that was noted when its head came: its body may have taken a while. Else
/// never.
pub fn noted(extensions: &Extensions) -> Deadline {
    extensions.get().copied().unwrap_or_default()
}

/// When a request that has come just now has to be answered. What cannot be read says nothing.
pub fn of(headers: &HeaderMap) -> Deadline {
    match said(headers) {
        Some(timeout) => Deadline::after(timeout.saturating_sub(margin(timeout))),
        None => Deadline::default(),
    }
}

/// How long a caller waits, where he says it.
pub fn said(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let said = [text(GRPC).and_then(grpc), text(ENVOY).and_then(milliseconds)];
    said.into_iter().flatten().min()
}

/// What is kept of a timeout for the way here and back, which counts for the caller too.
fn margin(timeout: Duration) -> Duration {
    (timeout / 10).max(LEAST_MARGIN).min(timeout / 2)
}

fn milliseconds(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_millis)
}

/// Reads a `grpc-timeout`, as the gRPC protocol over HTTP/2 defines it.
fn grpc(text: &str) -> Option<Duration> {
    const MOST_DIGITS: usize = 8;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > MOST_DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a request with these headers may take.
    fn left(headers: &[(&'static str, &str)]) -> Option<Duration> {
        let headers = headers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()));
        of(&headers.collect()).left()
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_leaves_time_for_the_way() {
        let ms = Duration::from_millis;
        assert_eq!(left(&[]), None);
        assert_eq!(left(&[("grpc-timeout", "20m")]), Some(ms(10)));
        assert_eq!(left(&[("grpc-timeout", "20000u")]), Some(ms(10)));
        assert_eq!(left(&[("x-envoy-expected-rq-timeout-ms", "20")]), Some(ms(10)));
        assert_eq!(left(&[("grpc-timeout", "4S")]), Some(ms(3600)));
        assert_eq!(left(&[("grpc-timeout", "50m")]), Some(ms(40)), "at least 10 ms are kept");
        assert_eq!(left(&[("grpc-timeout", "2m")]), Some(ms(1)), "but not more than half");
        assert_eq!(left(&[("grpc-timeout", "0n")]), Some(ms(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_shorter_of_two_holds() {
        for (grpc, envoy) in [("20m", "1000"), ("1S", "20")] {
            let said = [("grpc-timeout", grpc), ("x-envoy-expected-rq-timeout-ms", envoy)];
            assert_eq!(left(&said), Some(Duration::from_millis(10)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_read_says_nothing() {
        for text in ["", "m", "20", "-5m", "+5m", "123456789m", "5 m", "5h", "1.5S", "é", "5é"] {
            assert_eq!(left(&[("grpc-timeout", text)]), None, "{text}");
            assert_eq!(left(&[("x-envoy-expected-rq-timeout-ms", &format!("{text}x"))]), None);
        }
        assert!(left(&[("grpc-timeout", "99999999H")]).is_some());
    }
}
