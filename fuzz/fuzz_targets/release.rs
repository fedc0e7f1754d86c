//! Whatever bytes arrive as a Release, they are refused as malformed or invalid, or find nothing to give back, however often
//! they come.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use support::{RUNTIME, new_decider};
use tokio::sync::watch;
use tollgate::grpc::{
    Leases,
    proto::tollgate::v1::{LeaseState, ReleaseRequest, lease_service_server::LeaseService as _},
};
use tonic::{Code, Request};

fuzz_target!(|message: &[u8]| {
    let Ok(request) = ReleaseRequest::decode(message) else { return };
    RUNTIME.block_on(async {
        let service = Leases::new(new_decider(), watch::channel(()).1);
        for _ in 0..2 {
            match service.release(Request::new(request.clone())).await {
                Ok(released) => assert_eq!(released.get_ref().state(), LeaseState::AlreadyGone),
                Err(status) => return assert_eq!(status.code(), Code::InvalidArgument, "{status}"),
            }
        }
    });
});
