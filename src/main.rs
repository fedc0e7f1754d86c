//! The `tollgate` command: arguments, rules, listeners, serve.

mod arguments;
mod ask;
mod load;
mod open_files;
mod orders;
mod pools;
mod redraw;
mod screen;
mod shadow_report;
mod watch;

use anyhow::{Context as _, anyhow};
use arguments::{Arguments, Check, Command, Serve, StoreKind};
use ask::NotShown;
use mimalloc::MiMalloc;
use std::{
    env, fs,
    io::{self, IsTerminal as _, Write as _, stderr, stdout},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::oneshot,
    time,
};
use tollgate::{
    config::{self, Digest, Loaded},
    decider::{Decider, Modes},
    grpc::Headers,
    reload::Reload,
    rules::{self, Rules},
    server::{self, Admin, Listeners, Settings, Tls},
    store::{Memory, Redis, Store, redis},
    telemetry::{self, Export},
};

/// A decision is a few small allocations, made and freed on one core: what this is best at.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let Arguments { command, serve } = Arguments::read();
    let outcome = match command.unwrap_or_else(|| Command::Serve(Box::new(serve))) {
        Command::Serve(arguments) => run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Check(arguments) => check(&arguments),
        Command::Pools(arguments) => ask(pools::show(&arguments)),
        Command::ShadowReport(arguments) => ask(shadow_report::show(&arguments)),
        Command::Rule(command) => ask(orders::rule(&command)),
        Command::Limit(command) => ask(orders::limit(&command)),
        Command::Key(command) => ask(orders::key(&command)),
        Command::Load(arguments) => load::run(&arguments),
        Command::Null(arguments) => load::serve_null(arguments.threads).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        // Where stderr is gone there is nobody left to tell.
        let _ = writeln!(stderr(), "error: {error:#}");
        ExitCode::FAILURE
    })
}

/// Validates rule files, and shows them.
fn check(arguments: &Check) -> anyhow::Result<ExitCode> {
    let options = config::Options { merge_domains: arguments.merge.merge_domain_config };
    let loaded = config::load(&arguments.paths, &options);
    // Half of the rules are no rules.
    let domains = if loaded.has_errors() { &[][..] } else { &loaded.domains };
    if arguments.json {
        let report = serde_json::json!({
            "domains": rules::describe::domains_json(domains),
            "rules": rules::describe::json(domains),
            "diagnostics": loaded.to_json(),
        });
        print(&mut stdout(), &format!("{report:#}\n"))?;
    } else {
        print(&mut stderr(), &loaded.render(stderr().is_terminal()))?;
        print(&mut stdout(), &rules::describe::tree(domains))?;
    }
    Ok(if loaded.has_errors() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Asks a running server, and shows what it answers.
fn ask(asking: impl Future<Output = Result<(), NotShown>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let shown = runtime.block_on(asking);
    // A name that nobody resolves is not waited for.
    runtime.shutdown_background();
    shown?;
    Ok(ExitCode::SUCCESS)
}

/// Has the system back memory by pages of their usual size. With huge ones an idle process takes 70 MiB instead of 18, and
/// CPU per decision is the same within 1.5 %. The allocator does not ask for them either (`no_thp` in Cargo.toml).
fn refuse_huge_pages() {
    // Where the system does not know of it, there are none to refuse.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Serves until the process is told to stop.
fn run(arguments: &Serve) -> anyhow::Result<()> {
    refuse_huge_pages();
    telemetry::init(&arguments.log, arguments.log_format)
        .map_err(|error| anyhow!("--log {}: {error}", arguments.log))?;
    telemetry::log_panics();
    let kind = arguments.store.kind().context("--store")?;
    let headers = arguments.headers.wanted()?;
    let (loaded, digest) = load(arguments)?;
    let tls = arguments.tls.files().map(Tls::open).transpose()?;
    let admin = Admin {
        token: arguments.admin_token.open()?,
        client_names: arguments.tls.admin_client_names.iter().cloned().collect(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let listeners = Listeners {
            grpc: listen("gRPC", "--grpc-addr", &arguments.grpc_addr).await?,
            http: listen("HTTP", "--http-addr", &arguments.http_addr).await?,
            admin: listen("admin", "--admin-addr", &arguments.admin_addr).await?,
        };
        admin.protects(listeners.admin.local_addr()?)?;
        if matches!(kind, StoreKind::Memory) && env::var_os("REDIS_URL").is_some() {
            tracing::warn!(
                "REDIS_URL is not read here, and states are kept in memory: set TOLLGATE_STORE to share them"
            );
        }
        let store = store(&kind, arguments).await?;
        // From here on a signal is heard, and not the end.
        let (leave, stop, drop_all) = told_to_stop(arguments.drain)?;
        let hangup = signal(SignalKind::hangup())?;
        let screen = screen::of(&listeners, &loaded, &kind, arguments)?;
        let rules = Rules::new(loaded.domains);
        let clock = store.clock();
        let decider = Decider::new(rules, store, clock, modes(arguments, &headers));
        decider.hear_first_orders().await;
        print(&mut stdout(), &screen)?;
        let options = options(&arguments.rules);
        let paths = arguments.rules.paths.clone();
        let reload = Reload::new(paths, options, digest, Arc::clone(&decider));
        let settings = Settings {
            tls,
            client_names: arguments.tls.client_names.iter().cloned().collect(),
            admin,
            headers,
            reloads: reload.reloads(),
            most: open_files::most_connections(arguments.max_connections),
            longest_life: arguments.max_connection_age,
            store_timeout: arguments.store.timeout,
            export: Export::open(arguments.otlp_endpoint.as_deref())?,
            disabled: arguments.disabled.iter().copied().collect(),
            threads: arguments.threads.map_or_else(cores, usize::from),
        };
        tokio::spawn(reload.run(hangup));
        tokio::select! {
            served = server::serve(listeners, decider, settings, leave, stop) => Ok(served?),
            () = drop_all => anyhow::bail!("told to stop once more: what was in flight is cut off"),
        }
    });
    // A rule file that cannot be read to its end, on a mount that hangs, is not waited for.
    runtime.shutdown_background();
    served
}

/// How many cores there are for this process.
fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

const fn options(rules: &arguments::Rules) -> config::Options {
    config::Options { merge_domains: rules.merge.merge_domain_config }
}

/// The rules, and the digest of their files; or every reason why there are none.
fn load(arguments: &Serve) -> anyhow::Result<(Loaded, Digest)> {
    let files = config::read(&arguments.rules.paths);
    let digest = files.digest();
    let loaded = files.understand(&options(&arguments.rules));
    print(&mut stderr(), &loaded.render(stderr().is_terminal()))?;
    if loaded.has_errors() {
        anyhow::bail!("the rules are not valid, so nothing is served");
    }
    Ok((loaded, digest))
}

fn modes(arguments: &Serve, headers: &Headers) -> Modes {
    Modes {
        shadow: arguments.shadow_mode,
        quota: arguments.quota_mode,
        metadata: arguments.response_dynamic_metadata,
        standings: headers.rate_limit.list_limits(),
        on_store_failure: arguments.store.on_failure,
        replicas: arguments.store.replicas,
    }
}

async fn store(kind: &StoreKind, arguments: &Serve) -> anyhow::Result<Store> {
    let options = &arguments.store;
    match kind {
        StoreKind::Memory => Ok(Store::Memory(Memory::new(arguments.max_keys as usize))),
        StoreKind::Redis(address) => {
            let certificates = certificates(options)?;
            let store = Redis::open((**address).clone(), certificates, options.timeout).await;
            Ok(Store::Redis(Box::new(store.with_context(|| format!("--store {address}"))?)))
        }
    }
}

fn certificates(options: &arguments::Store) -> anyhow::Result<redis::Certificates> {
    let read = |flag: &str, path: &Option<PathBuf>| {
        let read = path
            .as_ref()
            .map(|path| fs::read(path).with_context(|| format!("{flag} {}", path.display())));
        read.transpose()
    };
    let certificate = read("--store-cert", &options.certificate)?;
    let key = read("--store-key", &options.key)?;
    Ok(redis::Certificates {
        authority: read("--store-ca", &options.authority)?,
        client: certificate.zip(key),
    })
}

async fn listen(door: &str, flag: &str, address: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address} for {door} (choose another with {flag})")
    })
}

/// Futures that say when to leave, when to stop, and when to drop everything. SIGTERM, as orchestrators send
/// it, says to leave, and to stop when the drain is over; Ctrl-C, or a second signal, says to stop at once:
/// somebody waits. Another one does not even wait for what is in flight. Signals are caught from the call on.
fn told_to_stop(
    drain: Duration,
) -> io::Result<(impl Future<Output = ()>, impl Future<Output = ()>, impl Future<Output = ()>)> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (leave, told_to_leave) = oneshot::channel();
    let (stop, told_to_stop) = oneshot::channel();
    let (drop_all, told_to_drop_all) = oneshot::channel();
    tokio::spawn(async move {
        let drain = tokio::select! {
            _ = terminate.recv() => drain,
            _ = interrupt.recv() => Duration::ZERO,
        };
        // A server that has ended by itself needs not be told.
        let _ = leave.send(());
        tokio::select! {
            () = time::sleep(drain) => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = stop.send(());
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = drop_all.send(());
    });
    Ok((
        async { told_to_leave.await.unwrap_or(()) },
        async { told_to_stop.await.unwrap_or(()) },
        async { told_to_drop_all.await.unwrap_or(()) },
    ))
}

/// Prints; whoever closed the pipe has read enough.
fn print(to: &mut impl io::Write, text: &str) -> io::Result<()> {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}
