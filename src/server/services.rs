//! The gRPC services that are served, and those that are switched off.

use crate::{
    grpc::{self, Disabled},
    services::{DisabledServices, OptionalService},
};
use axum::response::IntoResponse;
use std::convert::Infallible;
use tonic::{body::Body, server::NamedService, service::Routes};
use tower::Service;

/// The full names of the services that are served, health and reflection aside.
pub(super) fn names(disabled: DisabledServices) -> impl Iterator<Item = &'static str> {
    let all = [
        (grpc::SERVICE, None),
        (grpc::LEASE_SERVICE, Some(OptionalService::Leases)),
        (grpc::UTILIZATION_SERVICE, Some(OptionalService::Utilization)),
    ];
    let served = all.into_iter().filter(move |(_, it)| it.is_none_or(|it| disabled.serves(it)));
    served.map(|(name, _)| name)
}

/// Adds a service; where it is switched off, one that says so in its place.
pub(super) fn add<S>(
    routes: Routes,
    disabled: DisabledServices,
    which: OptionalService,
    service: S,
) -> Routes
where
    S: Service<http::Request<Body>, Error = Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Response: IntoResponse,
    S::Future: Send + 'static,
{
    if disabled.serves(which) {
        routes.add_service(service)
    } else {
        routes.add_service(Disabled::<S>::new(which.switched_off(S::NAME)))
    }
}
