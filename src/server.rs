//! Serves: every door on its listener, until told to stop; then finishes what is in flight.
//!
//! `door.rs` is how callers come in, `connection.rs` what they come on; `http1.rs` and `http2.rs` are what is
//! spoken there, and `tls.rs` how it is kept from others. `services.rs` is what may be switched off.

mod connection;
mod cores;
mod door;
mod frames;
mod http1;
mod http2;
mod places;
mod services;
#[cfg(test)]
mod tests;
mod tls;
mod turn;

pub use cores::Cores;
pub use tls::{Files as TlsFiles, InvalidName, Names, Tls, TlsError};

use crate::{
    budget::Budget,
    clock::Clock,
    decider::{Decider, PoolView},
    grpc::{Calls, DESCRIPTORS, Headers, Leases, Reports, Service},
    http::{self, AdminAccess, Json, Readiness, Scrapes, Token},
    reload::Reloads,
    services::{DisabledServices, OptionalService},
    task::{Task, supervise},
    telemetry::{
        CostWatch, DoorView, DoorWatch, Export, Metrics, MetricsError, PoolWatch, RefusalWatch,
        Sources, Watch,
    },
};
use axum::Router;
use door::Door;
use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    runtime::Handle,
    sync::watch,
    time::{self, MissedTickBehavior},
};
use tonic::service::Routes;
use tonic_health::{ServingStatus, server::HealthReporter};
use tracing::Level;

/// How long releases may take that are still to be made at the end.
const LAST_RELEASES: Duration = Duration::from_secs(1);

/// How long the store may meanwhile take to hear what rules in shadow did last.
const LAST_TELLING: Duration = Duration::from_secs(1);

/// How long the last lines about the store and the doors may take. Only a watch that panics again and again takes it.
const LAST_LINES: Duration = Duration::from_secs(1);

/// How long what is in flight may take once the doors are closed, beside what its store takes, and at most.
/// Who reads or writes slower than that, or says nothing, holds up nobody's end.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
const LAST_ANSWERS_AT_MOST: Duration = Duration::from_secs(10);

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

/// How callers are served.
pub struct Settings {
    /// How gRPC and HTTP are kept from others; without, they speak plain text.
    pub tls: Option<Tls>,
    /// The names of clients that may ask. Empty, all may whose certificate is signed.
    pub client_names: Names,
    /// How the operator's door is kept from others.
    pub admin: Admin,
    /// The headers that answers add.
    pub headers: Headers,
    /// What became of changed rule files.
    pub reloads: Arc<Reloads>,
    /// How many connections may be open.
    pub most: MostConnections,
    /// How old a connection for gRPC may become before its caller is asked to open a new one.
    pub longest_life: Option<Duration>,
    /// How long the store may take to answer.
    pub store_timeout: Duration,
    /// Where metrics and traces go.
    pub export: Export,
    /// The services that are switched off.
    pub disabled: DisabledServices,
    /// On how many threads calls for gRPC are answered.
    pub threads: usize,
}

/// Who may ask at the operator's door.
#[derive(Default)]
pub struct Admin {
    /// Who brings this.
    pub token: Option<Token>,
    /// Whose certificate has one of these names; empty, no certificate is asked for.
    pub client_names: Names,
}

/// Why the operator's door is not opened.
#[derive(Debug, thiserror::Error)]
#[error(
    "--admin-addr {0} is open to others, who could read the rules and switch limits off: keep it on loopback (127.0.0.1:6070), or protect it with --admin-token-file (or TOLLGATE_ADMIN_TOKEN), or with --tls-client-ca and --admin-client-names"
)]
pub struct Unprotected(SocketAddr);

impl Admin {
    /// Whether nobody else can come in at this address.
    ///
    /// # Errors
    ///
    /// Where everybody can who reaches it.
    pub fn protects(&self, address: SocketAddr) -> Result<(), Unprotected> {
        let is_protected = self.token.is_some() || !self.client_names.is_empty();
        let is_loopback = address.ip().to_canonical().is_loopback();
        if is_loopback || is_protected { Ok(()) } else { Err(Unprotected(address)) }
    }
}

/// How many connections may be open, door by door: a flood at one is none at the others.
#[derive(Debug, Clone, Copy)]
pub struct MostConnections {
    /// For Envoy.
    pub grpc: usize,
    /// For `/json` and the probes.
    pub http: usize,
    /// For the operator.
    pub admin: usize,
}

/// Why serving ended before it was told to stop.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// There are no threads to serve on.
    #[error("cannot start the threads that serve (--threads): {0}")]
    Threads(#[from] io::Error),
    /// The descriptors that the build generated do not hold the service.
    #[error("this build is broken: its generated descriptors do not describe the service")]
    Descriptors,
    /// What is counted cannot be told.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
}

/// Serves until `stop` completes, and what is in flight is finished, in two seconds and the time that the
/// store may take, 10 seconds at most. From when `leave` completes, which comes first, it is unready, but answers: so nobody is sent here any more when
/// the doors close.
///
/// # Errors
///
/// Where a server stops by itself.
pub async fn serve(
    listeners: Listeners,
    decider: Arc<Decider>,
    settings: Settings,
    leave: impl Future<Output = ()> + Send,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let Settings {
        tls,
        client_names,
        admin,
        headers,
        reloads,
        most,
        longest_life,
        store_timeout,
        export,
        disabled,
        threads,
    } = settings;
    let cores = Cores::start(threads)?;
    let low = Cores::start_low()?;
    let for_large = low.first().map_or_else(Handle::current, Handle::clone);
    let asks_clients = tls.as_ref().is_some_and(Tls::asks_clients);
    let is_loopback =
        listeners.admin.local_addr().is_ok_and(|at| at.ip().to_canonical().is_loopback());
    let mut grpc_door = Door::new(listeners.grpc, most.grpc).on(cores.clone());
    let mut http_door = Door::new(listeners.http, most.http);
    let mut admin_door = Door::new(listeners.admin, most.admin);
    let views = [grpc_door.view("grpc"), http_door.view("http"), admin_door.view("admin")];
    let budget = Budget::default();
    let (looked, pools) = watch::channel(Vec::new());
    let sources = Sources {
        decider: Arc::clone(&decider),
        reloads: Arc::clone(&reloads),
        pools,
        doors: views.clone(),
        budget: budget.clone(),
    };
    let metrics = Arc::new(Metrics::new(sources, export)?);
    let observer = metrics.observer();
    decider.store().time(Arc::new(observer.clone()));
    let scrapes = Scrapes::new(Arc::clone(&metrics));

    let readiness = Readiness::new(reloads);
    let decisions = Service::new(Arc::clone(&decider), headers).observed(observer.clone());
    let json = Json::new(for_large.clone()).ok_or(ServeError::Descriptors)?;
    let public = http::public(
        decisions.clone(),
        json,
        readiness.clone(),
        Arc::clone(&decider),
        budget.clone(),
        asks_clients,
        disabled.serves(OptionalService::Json),
    );
    let public = public.merge(if disabled.serves(OptionalService::Metrics) {
        scrapes.clone().route(asks_clients)
    } else {
        Scrapes::switched_off()
    });
    let access = AdminAccess {
        is_loopback,
        asks_certificates: !admin.client_names.is_empty(),
        token: admin.token.clone(),
    };
    let operator = http::admin(Arc::clone(&decider), access, scrapes.route(false));
    let (reporter, health) = tonic_health::server::health_reporter();
    tell_health(&reporter, disabled, ServingStatus::Serving).await;

    let (doors, closed) = watch::channel(());
    let (over, told) = watch::channel(());
    let (answering, answered) = watch::channel(());
    if let Some(tls) = &tls {
        grpc_door = grpc_door.with_tls(tls.http2(), client_names.clone());
        http_door = http_door.with_tls(tls.http1(), client_names);
        // On loopback nobody else listens in, and nobody asks it by a name that is in a certificate.
        if !is_loopback || !admin.client_names.is_empty() {
            admin_door = admin_door.with_tls(tls.http1(), admin.client_names);
        }
    } else if !is_loopback {
        tracing::warn!(
            "the admin port speaks plain text, its token too: give --tls-cert, or keep it on loopback"
        );
    }
    if let Some(token) = admin.token {
        let reloading = supervise(Task::AdminToken, async move || token.keep_current().await);
        tokio::spawn(until_either(reloading, closed.clone()));
    }
    let [grpc, http, at_admin] = views;
    let doors_watched = [("gRPC", grpc), ("HTTP", http), ("admin", at_admin)]
        .map(|(name, view)| (DoorWatch::new(name), view));
    let watcher = tokio::spawn(watch_store(Arc::clone(&decider), doors_watched, told));
    let teller = tokio::spawn(tell_shadow(Arc::clone(&decider), answered));
    if let Some(mut tls) = tls {
        let reloading = supervise(Task::Certificates, async move || tls.keep_current().await);
        tokio::spawn(until_either(reloading, closed.clone()));
    }
    tokio::spawn(watch_pools(Arc::clone(&decider), looked, closed.clone()));
    let following = Arc::clone(&decider);
    let following = supervise(Task::Overrides, async move || following.follow_orders().await);
    tokio::spawn(until_either(following, closed.clone()));
    let leases = Leases::new(Arc::clone(&decider), closed.clone()).observed(observer.clone());
    let reports = Reports::new(Arc::clone(&decider), closed.clone()).observed(observer.clone());
    let routes = Routes::new(decisions.clone().into_server()).add_service(health);
    let routes = services::add(routes, disabled, OptionalService::Leases, leases.into_server());
    let routes =
        services::add(routes, disabled, OptionalService::Utilization, reports.into_server());
    let v1 = reflection(disabled, "grpc.reflection.v1.ServerReflection")
        .build_v1()
        .map_err(|_| ServeError::Descriptors)?;
    let routes = services::add(routes, disabled, OptionalService::Reflection, v1);
    let v1alpha = reflection(disabled, "grpc.reflection.v1alpha.ServerReflection")
        .build_v1alpha()
        .map_err(|_| ServeError::Descriptors)?;
    let routes = services::add(routes, disabled, OptionalService::Reflection, v1alpha);
    let calls = Calls::new(decisions, routes.prepare(), budget.clone(), for_large);
    let servers = async {
        tokio::join!(
            http2::serve(grpc_door, calls, budget, longest_life, closed.clone()),
            serve_http(http_door, public, closed.clone()),
            serve_http(admin_door, operator, closed),
        );
    };
    tokio::pin!(servers);
    let told_to_stop = async {
        leave.await;
        tracing::info!("leaving: unready, but answering until the drain is over");
        readiness.drain();
        tell_health(&reporter, disabled, ServingStatus::NotServing).await;
        stop.await;
    };
    tokio::select! {
        () = &mut servers => {}
        () = told_to_stop => {
            drop(doors);
            end_health_watches(reporter, disabled).await;
            let last_answers = (LAST_ANSWERS + store_timeout).min(LAST_ANSWERS_AT_MOST);
            time::timeout(last_answers, servers).await.unwrap_or_else(|_| {
                tracing::warn!("some connections were cut off: they did not end {last_answers:?} after the doors had closed");
            });
        }
    }
    drop(answering);
    let telling = time::timeout(LAST_TELLING, teller);
    let returning = time::timeout(LAST_RELEASES, decider.store().finish_grants());
    let _ = tokio::join!(decider.finish_releases(LAST_RELEASES), returning, telling);
    drop(over);
    // What it has to say last is short.
    let _ = time::timeout(LAST_LINES, watcher).await;
    metrics.finish().await;
    drop((cores, low));
    Ok(())
}

/// What tells callers which services and messages there are.
fn reflection(
    disabled: DisabledServices,
    own_name: &'static str,
) -> tonic_reflection::server::Builder<'static> {
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
    // Otherwise it lists what is switched off as well.
    let names = services::names(disabled).chain(["grpc.health.v1.Health", own_name]);
    names.fold(reflection, tonic_reflection::server::Builder::with_service_name)
}

/// The services whose health is told, the empty one being the server itself. Of one that is switched off it is
/// unknown.
fn healths(disabled: DisabledServices) -> impl Iterator<Item = &'static str> {
    [""].into_iter().chain(services::names(disabled))
}

async fn tell_health(reporter: &HealthReporter, disabled: DisabledServices, status: ServingStatus) {
    for service in healths(disabled) {
        reporter.set_service_status(service, status).await;
    }
}

/// Whoever watches the health of a service would else do so until the last moment, and hold that up.
async fn end_health_watches(mut reporter: HealthReporter, disabled: DisabledServices) {
    for service in healths(disabled) {
        reporter.clear_service_status(service).await;
    }
}

/// Completes when the other end of the channel is gone.
async fn until_closed(mut closed: watch::Receiver<()>) {
    while closed.changed().await.is_ok() {}
}

/// Goes on until the doors close.
async fn until_either(work: impl Future<Output = ()>, closed: watch::Receiver<()>) {
    tokio::select! {
        () = work => {}
        () = until_closed(closed) => {}
    }
}

async fn serve_http(door: Door, router: Router, closed: watch::Receiver<()>) {
    let told = closed.clone();
    let serve = move |connection| http1::serve(connection, router.clone(), told.clone());
    door.open(closed, serve).await;
}

/// Tells the log how it stands with the store and at the doors, until all is over.
async fn watch_store(
    decider: Arc<Decider>,
    mut doors: [(DoorWatch, DoorView); 3],
    over: watch::Receiver<()>,
) {
    let store = decider.store().name();
    let clock = Clock::monotonic();
    let (mut watch, mut refusals) = (Watch::default(), RefusalWatch::default());
    let mut costs = CostWatch::default();
    let watching = async move || {
        let mut ticks = time::interval(WATCH);
        let over = until_closed(over.clone());
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
            log_of_doors(refusals.tell(&decider.rules(), now));
            log_of_doors(costs.tell(&decider.rules()));
            for (watch, door) in &mut doors {
                let counts = *door.counts.borrow();
                log_of_doors(watch.tell(&counts, now));
            }
        }
    };
    supervise(Task::Log, watching).await;
}

/// Tells the store what rules in shadow would have refused, until nothing is answered any more.
async fn tell_shadow(decider: Arc<Decider>, answered: watch::Receiver<()>) {
    let telling = async move || decider.keep_telling_shadow(until_closed(answered.clone())).await;
    supervise(Task::Shadow, telling).await;
}

/// Tells the log how it stands with the pools, and keeps what it saw for the metrics, until the doors close.
async fn watch_pools(
    decider: Arc<Decider>,
    looked: watch::Sender<Vec<PoolView>>,
    closed: watch::Receiver<()>,
) {
    let store = decider.store().name();
    let clock = Clock::monotonic();
    let mut watch = PoolWatch::default();
    let watching = async move || {
        let mut ticks = time::interval(WATCH_POOLS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let pools = decider.pools().await;
            // Where the store cannot be asked, it has lines of its own for that.
            if let Ok(pools) = &pools {
                log(&store, watch.tell(pools, clock.now()));
            }
            // Then nobody knows how it stands with them.
            looked.send_replace(pools.unwrap_or_default());
        }
    };
    until_either(supervise(Task::Pools, watching), closed).await;
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

/// What has nothing to do with the store.
fn log_of_doors(lines: Vec<(Level, String)>) {
    for (level, line) in lines {
        match level {
            Level::ERROR => tracing::error!("{line}"),
            Level::WARN => tracing::warn!("{line}"),
            _ => tracing::info!("{line}"),
        }
    }
}
