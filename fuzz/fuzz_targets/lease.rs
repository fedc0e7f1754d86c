//! Whatever bytes arrive as an Acquire, they are refused as malformed or invalid, or decided: one status
//! for each descriptor, and what was acquired is held, and can be renewed and released by its id.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use support::{RUNTIME, new_decider};
use tokio::sync::watch;
use tollgate::grpc::{
    Leases,
    proto::tollgate::v1::{
        AcquireRequest, LeaseState, ReleaseRequest, RenewRequest, acquire_response::Outcome,
        lease_service_server::LeaseService as _,
    },
};
use tonic::Request;

fuzz_target!(|message: &[u8]| {
    let Ok(mut request) = AcquireRequest::decode(message) else { return };
    // Nobody releases what it would wait for.
    request.wait = None;
    RUNTIME.block_on(async {
        let service = Leases::new(new_decider(), watch::channel(()).1);
        let (domain, descriptors) = (request.domain.clone(), request.descriptors.clone());
        let Ok(answer) = service.acquire(Request::new(request)).await else { return };
        let acquired = answer.get_ref();
        assert_eq!(acquired.statuses.len(), descriptors.len());
        assert!(!acquired.degraded, "a store in memory always decides");
        let lease_id = acquired.lease_id.clone();
        if acquired.outcome() == Outcome::Refused {
            assert!(lease_id.is_empty() && acquired.refusal.is_some());
            return;
        }
        let renew = RenewRequest { lease_id: lease_id.clone(), ttl: None, domain, descriptors };
        let renewed = service.renew(Request::new(renew)).await.expect("what was valid is valid");
        assert_eq!(renewed.get_ref().state(), LeaseState::Live);
        let release = || Request::new(ReleaseRequest { lease_id: lease_id.clone() });
        for state in [LeaseState::Live, LeaseState::AlreadyGone] {
            let released = service.release(release()).await.expect("an id that was given");
            assert_eq!(released.get_ref().state(), state);
        }
    });
});
