//! Serves: every door on its listener, until told to stop; then finishes what is in flight.

use crate::{
    clock::Clock,
    decider::Decider,
    grpc::{self, DESCRIPTORS, Headers, Leases, Reports, Service},
    http::{self, Json, Readiness},
    reload::Reloads,
    telemetry::{PoolWatch, Watch},
};
use axum::{Router, serve::ListenerExt};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    sync::watch,
    time::{self, MissedTickBehavior},
};
use tonic::transport::server::TcpIncoming;
use tonic_health::{
    ServingStatus,
    pb::health_server::{Health, HealthServer},
};
use tower::util::MapResponseLayer;
use tracing::Level;

/// The most requests under way on one connection, and the most that may be cancelled before they were
/// looked at. Envoy cancels what is late, so after any pause many come at once; a server that ends the
/// connection over them lets all others on it pass.
const MOST_STREAMS: u32 = 4096;

/// How often a connection on which nothing comes is asked whether there is still somebody, and how long it
/// may take to say so.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// How long releases may take that are still to be made at the end.
const LAST_RELEASES: Duration = Duration::from_secs(1);

/// How long requests in flight may take once the doors are closed.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// How often the server looks how it stands with the store.
const WATCH: Duration = Duration::from_secs(1);

/// How often it looks how it stands with the pools. Shedding takes seconds to come and go.
const WATCH_POOLS: Duration = Duration::from_secs(3);

/// Open listeners, one for each door.
#[derive(Debug)]
pub struct Listeners {
    /// For Envoy.
    pub grpc: TcpListener,
    /// For `/json` and the probes.
    pub http: TcpListener,
    /// For the operator.
    pub admin: TcpListener,
}

/// Why serving ended before it was told to stop.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The gRPC server stopped.
    #[error("the gRPC server stopped: {0}")]
    Grpc(#[from] tonic::transport::Error),
    /// An HTTP server stopped.
    #[error("the HTTP server stopped: {0}")]
    Http(#[from] std::io::Error),
    /// The descriptors that the build generated do not hold the service.
    #[error("this build is broken: its generated descriptors do not describe the service")]
    Descriptors,
}

/// Serves until `stop` completes, and what is in flight is finished, in 10 seconds at most. From when
/// `leave` completes, which comes first, it is unready, but answers: so nobody is sent here any more when
/// the doors close.
///
/// # Errors
///
/// Where a server stops by itself.
pub async fn serve(
    listeners: Listeners,
    decider: Arc<Decider>,
    reloads: Arc<Reloads>,
    headers: Headers,
    leave: impl Future<Output = ()> + Send,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let readiness = Readiness::new(reloads);
    let service = Service::new(Arc::clone(&decider), headers);
    let json = Json::new().ok_or(ServeError::Descriptors)?;
    let public = http::public(service.clone(), json, readiness.clone(), Arc::clone(&decider));
    let admin = http::admin(Arc::clone(&decider));
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<grpc::Server>().await;
    reporter.set_serving::<grpc::LeaseServer>().await;
    reporter.set_serving::<grpc::UtilizationServer>().await;

    let (doors, closed) = watch::channel(());
    let (over, told) = watch::channel(());
    let watcher = tokio::spawn(watch_store(Arc::clone(&decider), told));
    tokio::spawn(watch_pools(Arc::clone(&decider), closed.clone()));
    let leases = Leases::new(Arc::clone(&decider), closed.clone());
    let reports = Reports::new(Arc::clone(&decider), closed.clone());
    let servers = async {
        tokio::try_join!(
            serve_grpc(listeners.grpc, (service, leases, reports), health, closed.clone()),
            serve_http(listeners.http, public, closed.clone()),
            serve_http(listeners.admin, admin, closed),
        )
        .map(|_| ())
    };
    tokio::pin!(servers);
    let told_to_stop = async {
        leave.await;
        tracing::info!("leaving: unready, but answering until the drain is over");
        readiness.drain();
        reporter.set_service_status("", ServingStatus::NotServing).await;
        reporter.set_not_serving::<grpc::Server>().await;
        reporter.set_not_serving::<grpc::LeaseServer>().await;
        reporter.set_not_serving::<grpc::UtilizationServer>().await;
        stop.await;
    };
    let ended = tokio::select! {
        ended = &mut servers => ended,
        () = told_to_stop => {
            drop(doors);
            time::timeout(LAST_ANSWERS, servers).await.unwrap_or_else(|_| {
                tracing::warn!("some requests in flight took too long and were cut off");
                Ok(())
            })
        }
    };
    decider.finish_releases(LAST_RELEASES).await;
    drop(over);
    // What it has to say last is short.
    let _ = watcher.await;
    ended
}

/// Completes when the other end of the channel is gone.
async fn until_stopped(mut stopped: watch::Receiver<()>) {
    while stopped.changed().await.is_ok() {}
}

async fn serve_grpc(
    listener: TcpListener,
    (service, leases, reports): (Service, Leases, Reports),
    health: HealthServer<impl Health>,
    stopped: watch::Receiver<()>,
) -> Result<(), ServeError> {
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    tonic::transport::Server::builder()
        .max_concurrent_streams(MOST_STREAMS)
        .http2_max_pending_accept_reset_streams(Some(MOST_STREAMS as usize))
        // A worker whose machine is gone says nothing: what it holds is released.
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .layer(MapResponseLayer::new(grpc::name_too_large))
        .layer(MapResponseLayer::new(grpc::keep_when_told))
        .add_service(service.into_server())
        .add_service(leases.into_server())
        .add_service(reports.into_server())
        .add_service(health)
        .add_service(reflection().build_v1().map_err(|_| ServeError::Descriptors)?)
        .add_service(reflection().build_v1alpha().map_err(|_| ServeError::Descriptors)?)
        .serve_with_incoming_shutdown(incoming, until_stopped(stopped))
        .await?;
    Ok(())
}

async fn serve_http(
    listener: TcpListener,
    router: Router,
    stopped: watch::Receiver<()>,
) -> Result<(), ServeError> {
    let listener = listener.tap_io(|stream| {
        // A socket that has gone already is found out by whoever reads it.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router).with_graceful_shutdown(until_stopped(stopped)).await?;
    Ok(())
}

/// Tells the log how it stands with the store, until all is over.
async fn watch_store(decider: Arc<Decider>, over: watch::Receiver<()>) {
    let store = decider.store().name();
    let clock = Clock::monotonic();
    let mut watch = Watch::default();
    let mut ticks = time::interval(WATCH);
    let over = until_stopped(over);
    tokio::pin!(over);
    let mut is_over = false;
    while !is_over {
        tokio::select! {
            _ = ticks.tick() => {}
            () = &mut over => is_over = true,
        }
        let (condition, now) = (decider.store().condition(), clock.now());
        let mut lines =
            if is_over { watch.tell_last(condition, now) } else { watch.tell(condition, now) };
        lines.extend(watch.tell_leases(decider.lease_counts(), now));
        lines.extend(watch.tell_workers(decider.worker_counts(), now));
        log(&store, lines);
    }
}

/// Tells the log how it stands with the pools, until the doors close.
async fn watch_pools(decider: Arc<Decider>, closed: watch::Receiver<()>) {
    let store = decider.store().name();
    let clock = Clock::monotonic();
    let mut watch = PoolWatch::default();
    let mut ticks = time::interval(WATCH_POOLS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watching = async {
        loop {
            ticks.tick().await;
            // A reload may bring the first pool that is worth a look.
            if !decider.rules().has_reporting_pools() {
                continue;
            }
            // Where the store cannot be asked, it has lines of its own for that.
            if let Ok(pools) = decider.pools().await {
                log(&store, watch.tell(&pools, clock.now()));
            }
        }
    };
    tokio::select! {
        () = watching => {}
        () = until_stopped(closed) => {}
    }
}

fn log(store: &str, lines: Vec<(Level, String)>) {
    for (level, line) in lines {
        match level {
            Level::ERROR => tracing::error!(store, "{line}"),
            Level::WARN => tracing::warn!(store, "{line}"),
            _ => tracing::info!(store, "{line}"),
        }
    }
}
