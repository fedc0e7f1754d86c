//! Whatever a caller says of how long it waits, in either header, it is understood, or says nothing: of two headers the one
//! holds that leaves less, and a number of milliseconds never leaves more than so many.

#![no_main]

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;
use std::{sync::LazyLock, time::Duration};
use tokio::runtime::{Builder, Runtime};
use tollgate::grpc::deadline;

const GRPC: HeaderName = HeaderName::from_static("grpc-timeout");
const ENVOY: HeaderName = HeaderName::from_static("x-envoy-expected-rq-timeout-ms");

/// Time stands still in it.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
});

/// How long a request with these headers may take; never is the longest.
fn left(headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>) -> Duration {
    let headers: HeaderMap = headers.into_iter().collect();
    deadline::of(&headers).left().unwrap_or(Duration::MAX)
}

fuzz_target!(|input: &[u8]| {
    // One value, a new line, and another one.
    let mut values = input.splitn(2, |byte| *byte == b'\n');
    let mut next = || HeaderValue::from_bytes(values.next().unwrap_or_default());
    let (Ok(grpc), Ok(envoy)) = (next(), next()) else { return };
    let _in_it = RUNTIME.enter();
    let alone = left([(GRPC, grpc.clone())]).min(left([(ENVOY, envoy.clone())]));
    let both = left([(GRPC, grpc.clone()), (ENVOY, envoy.clone())]);
    assert_eq!(both, alone, "{grpc:?} {envoy:?}");
    let milliseconds = envoy.to_str().ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(milliseconds) = milliseconds.filter(|number| *number < 1 << 40) {
        assert!(both <= Duration::from_millis(milliseconds));
    }
});
