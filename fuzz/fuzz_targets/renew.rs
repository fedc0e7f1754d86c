//! Whatever bytes arrive as a Renew, they are refused as malformed or invalid, or answered: a lease that nobody has is lost,
//! or taken again where the message says what it held, and then it can be released.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use support::{RUNTIME, new_decider};
use tokio::sync::watch;
use tollgate::grpc::{
    Leases,
    proto::tollgate::v1::{
        LeaseState, ReleaseRequest, RenewRequest, lease_service_server::LeaseService as _,
    },
};
use tonic::{Code, Request};

fuzz_target!(|message: &[u8]| {
    let Ok(request) = RenewRequest::decode(message) else { return };
    RUNTIME.block_on(async {
        let service = Leases::new(new_decider(), watch::channel(()).1);
        let lease_id = request.lease_id.clone();
        let says_what = !request.domain.is_empty();
        let renewed = match service.renew(Request::new(request.clone())).await {
            Ok(renewed) => renewed.into_inner(),
            Err(status) => return assert_eq!(status.code(), Code::InvalidArgument, "{status}"),
        };
        let is_taken = renewed.state() == LeaseState::Retaken;
        assert!(is_taken || renewed.state() == LeaseState::Lost, "{renewed:?}");
        assert!(says_what || !is_taken, "taken for nothing that it says");
        assert_eq!(renewed.expires_in.is_some(), is_taken);
        if is_taken {
            let again =
                service.renew(Request::new(request)).await.expect("what was valid is valid");
            assert_eq!(again.get_ref().state(), LeaseState::Live);
        }
        let release = Request::new(ReleaseRequest { lease_id });
        let released = service.release(release).await.expect("an id that was understood");
        let state = if is_taken { LeaseState::Live } else { LeaseState::AlreadyGone };
        assert_eq!(released.get_ref().state(), state);
    });
});
