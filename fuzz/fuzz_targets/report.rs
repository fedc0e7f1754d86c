//! Whatever bytes arrive as a report, they are refused as malformed or invalid, or taken in: then the pool is as
//! busy as somebody may be, and requests are shed or not without an error.

#![no_main]

mod support;

use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use support::{RUNTIME, new_decider};
use tokio::sync::watch;
use tollgate::grpc::{
    Reports,
    proto::tollgate::v1::{
        ReportUtilizationRequest, utilization_service_server::UtilizationService as _,
    },
};
use tonic::{Code, Request};

fuzz_target!(|message: &[u8]| {
    let Ok(request) = ReportUtilizationRequest::decode(message) else { return };
    RUNTIME.block_on(async {
        let decider = new_decider();
        let service = Reports::new(decider.clone(), watch::channel(()).1);
        let has_time = request.measured_at.is_some();
        match service.report_utilization(Request::new(request.clone())).await {
            Ok(answer) => {
                let answer = answer.into_inner();
                assert_eq!(answer.workers, u32::from(answer.counted));
                assert_eq!(answer.utilization.is_some(), answer.counted);
                assert!(answer.utilization.is_none_or(|it| (0.0..=10.0).contains(&it)));
                assert!(answer.shedding <= 0.0, "no time has passed");
                let again = service.report_utilization(Request::new(request)).await;
                assert_eq!(again.is_err(), answer.counted && has_time, "it came twice");
            }
            Err(status) => assert!(
                matches!(
                    status.code(),
                    Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition
                ),
                "{status}"
            ),
        }
        let pools = decider.pools().await.expect("a store in memory");
        let workers = pools.iter().filter_map(|pool| pool.workers.as_ref());
        for (_, chance) in workers.flat_map(|workers| &workers.classes) {
            assert_eq!(*chance, 0.0);
        }
    });
});
