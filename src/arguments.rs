//! What the command line and the environment say.

mod headers;
mod load;

pub(crate) use load::{Load, Null, Process, Template};

use clap::{
    Args, CommandFactory, FromArgMatches, Parser, Subcommand,
    builder::{BoolishValueParser, Resettable},
    parser::ValueSource,
};
use headers::Headers;
use std::{env, fmt, path::PathBuf, time::Duration};
use tollgate::{
    http::{InvalidToken, Token, TokenSource},
    rules::OnStoreFailure,
    server::{Names, TlsFiles},
    services::OptionalService,
    shadow::Window,
    store::redis,
    telemetry::LogFormat,
};

/// The rate limit service for Envoy: rules in YAML, exact limits, all or nothing.
///
/// Without a command, it serves the rules in `config/`.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) serve: Serve,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer ShouldRateLimit over gRPC and JSON (the default command).
    Serve(Box<Serve>),
    /// Validate rule files without serving them.
    ///
    /// Prints the rules as a tree, each with the path by which it is addressed, and exits with 0; or
    /// prints every error of every file and exits with 1.
    Check(Check),
    /// Show how it stands with the pools of a running server.
    ///
    /// Of each pool: its slots and how many are in flight; where its workers report how busy they are, also what
    /// they say, and what is shed for it. Exits with 1 where the server cannot be asked, or cannot ask its
    /// store.
    #[command(after_long_help = POOLS_HELP)]
    Pools(Pools),
    /// Show what rules in shadow mode would have refused.
    ///
    /// Of each rule: how many requests it met in the last minute, hour and day, which share of them it would have
    /// refused, and whom most; summed over all servers that share a store. Exits with 1 where the server cannot be
    /// asked, or cannot ask its store.
    #[command(after_long_help = SHADOW_REPORT_HELP)]
    ShadowReport(ShadowReport),
    /// Switch rules of a running server: off and on, to shadow mode and back.
    ///
    /// What is said is kept in the store: all replicas that share it obey within a second, and a restart remembers.
    /// Where the store cannot be reached, the server that was asked obeys alone, and says so; one whose store is its
    /// own memory obeys until it ends.
    #[command(subcommand, after_long_help = RULE_HELP)]
    Rule(RuleCommand),
    /// Set limits for single callers of a running server.
    ///
    /// Such a limit takes the place of the rule's for one counter, on all replicas within a second, for a while or
    /// until it is taken back. What was used stays used.
    #[command(subcommand, after_long_help = LIMIT_HELP)]
    Limit(LimitCommand),
    /// Look at single counters of a running server, and have them begin anew.
    #[command(subcommand, after_long_help = KEY_HELP)]
    Key(KeyCommand),
    /// Ask a server as hard as you say, and see how it answers.
    ///
    /// Asks any server that speaks ShouldRateLimit: prints how many requests a second it answered, how long they
    /// took, and how many passed. Exits with 1 where nothing was answered. Ctrl-C ends it early: it prints what it has
    /// measured by then, and exits with 130. Do not point it at a server that others depend on.
    #[command(after_long_help = load::HELP)]
    Load(Box<Load>),
    /// Give the same answer to everything, for `load --against-null`.
    #[command(hide = true)]
    Null(Null),
}

/// What `tollgate rule --help` teaches beside the commands.
const RULE_HELP: &str = "\
Examples:
  tollgate rule list                         what is on, off and in shadow mode
  tollgate rule off edge:plan=free:user      a rule, by its path
  tollgate rule shadow daily                 or by its name, where only one has it
  tollgate rule off edge                     all limits of a domain
  tollgate rule off --all                    all limits there are
  tollgate rule clear edge                   nothing is said of the domain any more
  tollgate rule clear --all                  nor of anything: all is as the files say

What is said of a domain or of everything is a main switch: while it is off, no
limit below it takes part, whatever is said of single rules; `on` takes that back.";

/// What `tollgate limit --help` teaches beside the commands.
const LIMIT_HELP: &str = "\
Examples:
  tollgate limit set edge:user user=alice --rate 500/s --burst 1000 --for 2h
  tollgate limit set edge:plan=free:user#daily user=alice --rate 5000/day
  tollgate limit set edge:reports:user user=alice --max 50
  tollgate limit list
  tollgate limit clear edge:user user=alice
  tollgate limit clear --all

A rule is meant by its path, as `tollgate rule list` shows it, or by its name.
Say a value for each of its entries that tells callers apart. To clear a limit
whose rule is gone, name its own path, as `tollgate limit list` shows it.";

/// What `tollgate key --help` teaches beside the commands.
const KEY_HELP: &str = "\
Examples:
  tollgate key show edge:user user=alice     how much is left, of how much
  tollgate key reset edge:user user=alice    a full bucket again, or no slot taken";

#[derive(Debug, Subcommand)]
pub(crate) enum RuleCommand {
    /// Show all rules: which are on, off and in shadow mode, and by whose word.
    List(Asking),
    /// Switch off: it takes no part in any decision.
    Off(Switching),
    /// Switch on again.
    On(Switching),
    /// Put into shadow mode: it is checked and charged, but refuses nothing.
    Shadow(Switching),
    /// Have it refuse again, or for the first time.
    Enforce(Switching),
    /// Take back what was said: it is as its file says.
    Clear(Switching),
}

#[derive(Debug, Subcommand)]
pub(crate) enum LimitCommand {
    /// Set the limit of one counter.
    Set(Setting),
    /// Show the limits that are set.
    List(Asking),
    /// Take back the limit that was set for one counter, or all.
    Clear(Clearing),
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Show how it stands with one counter.
    Show(Counter),
    /// Have one counter begin anew: a bucket is full, of slots none is taken, and what leases hold of it is freed.
    Reset(Counter),
}

/// Which server to ask, and how to show its answer.
#[derive(Debug, Args)]
pub(crate) struct Asking {
    #[command(flatten)]
    pub(crate) admin: Admin,

    /// Print JSON instead of text.
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Switching {
    /// A rule, by its path or its name, or a domain.
    #[arg(value_name = "RULE", required_unless_present = "all")]
    pub(crate) rule: Option<String>,

    /// Everything there is.
    #[arg(long, conflicts_with = "rule")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) asking: Asking,
}

/// A counter of a rule.
#[derive(Debug, Args)]
pub(crate) struct Counter {
    /// The rule, by its path or its name.
    #[arg(value_name = "RULE")]
    pub(crate) rule: String,

    /// The values that tell the counter from others of the rule.
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) values: Vec<String>,

    #[command(flatten)]
    pub(crate) asking: Asking,
}

#[derive(Debug, Args)]
pub(crate) struct Setting {
    #[command(flatten)]
    pub(crate) counter: Counter,

    /// How many come in how much time: `500/s`, `10/min`, `5/h` or `250/day`.
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<String>,

    /// How many at once: what a bucket holds (without it, what one period brings), or the queue of a leaky bucket
    /// (without it, that of the rule).
    #[arg(long, value_name = "TOKENS", requires = "rate")]
    pub(crate) burst: Option<u32>,

    /// How many in all, for a limit without a rate: requests in flight, or in a window.
    #[arg(long, value_name = "REQUESTS", conflicts_with = "rate")]
    pub(crate) max: Option<u32>,

    /// How long it holds: `30m`, `2h` or `7d`. Without it, until it is taken back.
    #[arg(long = "for", value_name = "DURATION")]
    pub(crate) duration: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Clearing {
    /// The rule, by its path or its name.
    #[arg(value_name = "RULE", required_unless_present = "all")]
    pub(crate) rule: Option<String>,

    /// The values that tell the counter from others of the rule.
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) values: Vec<String>,

    /// All limits that are set.
    #[arg(long, conflicts_with_all = ["rule", "values"])]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) asking: Asking,
}

/// What `tollgate shadow-report --help` teaches beside the flags.
const SHADOW_REPORT_HELP: &str = "\
Examples:
  tollgate shadow-report                          of all rules in shadow
  tollgate shadow-report edge:plan=free:user      of one, by its path
  tollgate shadow-report --window minute --watch  what goes on now
  tollgate shadow-report --json | jq '.rules[] | {rule, shares: [.windows[].share]}'

How to read it:
  A window is six slots, of which the last has not ended: `the last hour` is
  50 to 60 minutes. Requests that the store did not decide are in no share.

  How often a key would have been refused is what is certain: it may have been
  somewhat more where very many keys would have been.";

/// What `tollgate pools --help` teaches beside the flags.
const POOLS_HELP: &str = "\
Examples:
  tollgate pools                          of the server on this machine
  tollgate pools --watch                  again every second, until Ctrl-C
  tollgate pools --admin 10.0.0.7:6070    of a server elsewhere
  tollgate pools --json | jq '.pools[] | {pool, shedding}'

How to read it:
  The amount of shedding rises while the workers are too busy, and falls while
  they are not. From 0 on the first class of `shed` is dropped, more and more
  of it, then the next; at 1 all of them are.

  Where no report is fresh, nobody knows how busy the workers are: then nothing
  more is shed. A capacity that workers report holds for one `report_ttl` more;
  after that no `fleet` limit of the pool refuses.";

#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) rules: Rules,

    /// Where Envoy asks, over gRPC. Port 0 takes any free one, and says which.
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "TOLLGATE_GRPC_ADDR",
        default_value = "0.0.0.0:8081",
        value_parser = address
    )]
    pub(crate) grpc_addr: String,

    /// Where `POST /json`, `GET /healthcheck`, `GET /ready` and `GET /metrics` are answered.
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "TOLLGATE_HTTP_ADDR",
        default_value = "0.0.0.0:8080",
        value_parser = address
    )]
    pub(crate) http_addr: String,

    /// Where the operator asks: rules and switches, pools, rules in shadow, metrics. Elsewhere than on loopback it
    /// must be protected, by --admin-token-file or --admin-client-names.
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "TOLLGATE_ADMIN_ADDR",
        default_value = "127.0.0.1:6070",
        value_parser = address
    )]
    pub(crate) admin_addr: String,

    #[command(flatten)]
    pub(crate) admin_token: AdminToken,

    #[command(flatten)]
    pub(crate) tls: Tls,

    #[command(flatten)]
    pub(crate) store: Store,

    /// The most keys to keep in memory. A full store forgets those that have used least of their limits.
    #[arg(long, value_name = "KEYS", env = "TOLLGATE_MAX_KEYS", default_value = "1000000",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_keys: u32,

    /// Decide and charge as if enforced, but let every request pass.
    #[arg(long, env = "TOLLGATE_SHADOW_MODE", value_parser = BoolishValueParser::new())]
    pub(crate) shadow_mode: bool,

    /// Treat every limit as a quota limit: a request is refused when all of its limits are over.
    #[arg(long, env = "TOLLGATE_QUOTA_MODE", value_parser = BoolishValueParser::new())]
    pub(crate) quota_mode: bool,

    #[command(flatten)]
    pub(crate) headers: Headers,

    /// Answer with dynamic metadata: the request, and the metadata of its rules.
    #[arg(long, env = "TOLLGATE_RESPONSE_DYNAMIC_METADATA", value_parser = BoolishValueParser::new())]
    pub(crate) response_dynamic_metadata: bool,

    /// Switch a service off: `leases` and `utilization` (the services of tollgate.v1), `reflection`, `json` and
    /// `metrics` (on the HTTP port). What ShouldRateLimit does stays. Separated by commas, or several times.
    #[arg(
        long = "disable-service",
        value_name = "SERVICES",
        env = "TOLLGATE_DISABLE_SERVICE",
        value_delimiter = ',',
        value_parser = service
    )]
    pub(crate) disabled: Vec<OptionalService>,

    /// The most gRPC connections that may be open; more are closed at once. Also bounded by half of the
    /// files that the process may open (`ulimit -n`).
    #[arg(long, value_name = "CONNECTIONS", env = "TOLLGATE_MAX_CONNECTIONS", default_value = "10000",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections: u32,

    /// On how many threads gRPC is answered, each with connections of its own. Without it, on as many as there are
    /// cores for this process.
    #[arg(long, value_name = "THREADS", env = "TOLLGATE_THREADS", value_parser = clap::value_parser!(u16).range(1..=255))]
    pub(crate) threads: Option<u16>,

    /// Ask for a gRPC connection of this age to be opened anew, so that connections spread over replicas
    /// that came later: `30m`, give or take a tenth. What is under way on it is finished. Without it, they live for ever.
    #[arg(long, value_name = "DURATION", env = "TOLLGATE_MAX_CONNECTION_AGE", value_parser = age)]
    pub(crate) max_connection_age: Option<Duration>,

    /// How long to go on answering after SIGTERM, unready, so that callers can turn away first: `5s`. A bare
    /// number is in seconds.
    #[arg(long, value_name = "DURATION", env = "TOLLGATE_DRAIN", default_value = "5s", value_parser = drain)]
    pub(crate) drain: Duration,

    /// Where to export metrics and traces by OTLP over gRPC: `http://localhost:4317`, or `https://…`. Without it,
    /// nothing is exported. OpenTelemetry's variables of the environment hold, such as OTEL_SERVICE_NAME.
    #[arg(long, value_name = "URL", env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub(crate) otlp_endpoint: Option<String>,

    /// What to log: error, warn, info, debug or trace, or a filter such as `tollgate=debug`.
    #[arg(long, value_name = "FILTER", env = "TOLLGATE_LOG", default_value = "info")]
    pub(crate) log: String,

    /// How to write the log: `text`, or `json`, an object a line.
    #[arg(long, value_name = "FORMAT", env = "TOLLGATE_LOG_FORMAT", default_value = "text",
          value_parser = log_format)]
    pub(crate) log_format: LogFormat,
}

/// How the gRPC and the HTTP port are kept from others.
#[derive(Debug, Args)]
pub(crate) struct Tls {
    /// The server's certificate, with those between it and whom clients trust (PEM): gRPC and HTTP speak TLS
    /// then, and only that. It is read again when it changes, and so are the other two files.
    #[arg(
        long = "tls-cert",
        value_name = "FILE",
        env = "TOLLGATE_TLS_CERT",
        requires = "server_key"
    )]
    pub(crate) server_certificate: Option<PathBuf>,

    /// The key of that certificate (PEM).
    #[arg(
        long = "tls-key",
        value_name = "FILE",
        env = "TOLLGATE_TLS_KEY",
        requires = "server_certificate"
    )]
    pub(crate) server_key: Option<PathBuf>,

    /// Who signs the certificates of clients (PEM). Then only who shows one may ask; probes need none.
    #[arg(
        long = "tls-client-ca",
        value_name = "FILE",
        env = "TOLLGATE_TLS_CLIENT_CA",
        requires = "server_certificate"
    )]
    pub(crate) client_authority: Option<PathBuf>,

    /// The names of clients that may ask: a DNS name or a URI in their certificate, `*.example.com` or
    /// `spiffe://example.com/ns/edge/*` for all below one. Without it, all may that are signed. Separated by
    /// commas, or several times.
    #[arg(
        long = "tls-client-names",
        value_name = "NAMES",
        env = "TOLLGATE_TLS_CLIENT_NAMES",
        value_delimiter = ',',
        requires = "client_authority"
    )]
    pub(crate) client_names: Vec<Names>,

    /// The names of clients that may ask at the admin port, in the same form. Without it, certificates are not
    /// asked for there.
    #[arg(
        long,
        value_name = "NAMES",
        env = "TOLLGATE_ADMIN_CLIENT_NAMES",
        value_delimiter = ',',
        requires = "client_authority"
    )]
    pub(crate) admin_client_names: Vec<Names>,
}

/// The token of the admin port.
#[derive(Debug, Args)]
pub(crate) struct AdminToken {
    /// A file with the token of the admin port, which is then asked for: 16 characters or more. It is read
    /// again when it changes. The variable TOLLGATE_ADMIN_TOKEN can hold the token itself.
    #[arg(long = "admin-token-file", value_name = "FILE", env = "TOLLGATE_ADMIN_TOKEN_FILE")]
    file: Option<PathBuf>,
}

impl AdminToken {
    /// The token, where there is to be one. It is no argument: everybody on the machine can read those.
    pub(crate) fn open(&self) -> Result<Option<Token>, InvalidToken> {
        let text = env::var_os("TOLLGATE_ADMIN_TOKEN").filter(|text| !text.is_empty());
        let source = match (&self.file, text) {
            (Some(path), _) => TokenSource::File(path.clone()),
            (None, Some(text)) => TokenSource::Environment(text.to_string_lossy().into_owned()),
            (None, None) => return Ok(None),
        };
        Token::open(source).map(Some)
    }
}

impl Tls {
    /// Where to read what it takes; `None` for plain text.
    pub(crate) fn files(&self) -> Option<TlsFiles> {
        let (certificate, key) = self.server_certificate.clone().zip(self.server_key.clone())?;
        Some(TlsFiles { certificate, key, client_authority: self.client_authority.clone() })
    }
}

/// What is or holds a password, and is not shown.
#[derive(Clone)]
struct Secret(String);

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Where states are kept.
#[derive(Debug, Args)]
pub(crate) struct Store {
    /// Where states are kept: `memory`, in this process, for this process alone; or in a Redis, for all
    /// replicas that use it: redis://[user:password@]host[:port][/database], rediss:// for TLS, or
    /// unix:///path.
    #[arg(
        long = "store",
        value_name = "STORE",
        env = "TOLLGATE_STORE",
        default_value = "memory",
        hide_env_values = true
    )]
    url: Secret,

    /// The password for Redis, as it is; in --store, special characters are %-escaped. Give it in the
    /// environment: everybody on the machine can read a command line.
    #[arg(
        long = "store-password",
        value_name = "PASSWORD",
        env = "TOLLGATE_STORE_PASSWORD",
        hide_env_values = true
    )]
    password: Option<Secret>,

    /// Whoever signed Redis's certificate (PEM). Without it, whom this machine trusts.
    #[arg(long = "store-ca", value_name = "FILE", env = "TOLLGATE_STORE_CA")]
    pub(crate) authority: Option<PathBuf>,

    /// A certificate to show to Redis (PEM).
    #[arg(long = "store-cert", value_name = "FILE", env = "TOLLGATE_STORE_CERT", requires = "key")]
    pub(crate) certificate: Option<PathBuf>,

    /// The key of that certificate (PEM).
    #[arg(
        long = "store-key",
        value_name = "FILE",
        env = "TOLLGATE_STORE_KEY",
        requires = "certificate"
    )]
    pub(crate) key: Option<PathBuf>,

    /// How long to wait for Redis: `10ms`, or `1s`. Envoy waits 20 ms for all of it, unless told otherwise.
    #[arg(long = "store-timeout", value_name = "DURATION", env = "TOLLGATE_STORE_TIMEOUT",
          default_value = "10ms", value_parser = timeout)]
    pub(crate) timeout: Duration,

    /// What limits do when the store cannot decide in time, where neither they nor their files say it: `allow`
    /// lets the request pass, `deny` refuses it, and `local` limits rates in this process, at its share of the
    /// limit (and lets pass what is no rate).
    #[arg(long = "on-store-failure", value_name = "POLICY", env = "TOLLGATE_ON_STORE_FAILURE",
          default_value = "allow", value_parser = policy)]
    pub(crate) on_failure: OnStoreFailure,

    /// How many replicas share the limits of rules with `on_store_failure: local`. Without it, as many as the
    /// store last knew of.
    #[arg(long, value_name = "COUNT", env = "TOLLGATE_REPLICAS",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) replicas: Option<u32>,
}

/// Where the rules are.
#[derive(Debug, Args)]
pub(crate) struct Rules {
    /// A rule file, or a directory of them; give it several times for several.
    ///
    /// In the environment, paths are separated by `:`.
    #[arg(
        long = "config",
        value_name = "PATH",
        env = "TOLLGATE_CONFIG",
        default_value = "config/"
    )]
    pub(crate) paths: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) merge: Merge,
}

#[derive(Debug, Args)]
pub(crate) struct Merge {
    /// Join the descriptors of files that name the same domain, instead of refusing the second.
    #[arg(long, env = "TOLLGATE_MERGE_DOMAIN_CONFIG", value_parser = BoolishValueParser::new())]
    pub(crate) merge_domain_config: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Rule files, or directories of them.
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) merge: Merge,

    /// Print JSON instead of text.
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Pools {
    #[command(flatten)]
    pub(crate) admin: Admin,

    /// Ask again every second, until Ctrl-C. A terminal is drawn anew; elsewhere one view follows the other.
    #[arg(long)]
    pub(crate) watch: bool,

    /// Print JSON instead of text, as `GET /pools` answers it: with --watch, a document on each line.
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShadowReport {
    /// The rule to show, by its path or its name, also where it has left shadow or is gone; or a domain. Without
    /// it, all rules in shadow.
    #[arg(value_name = "RULE")]
    pub(crate) rule: Option<String>,

    /// Show this window alone: minute, hour or day. Without it, all three, with the keys of the hour.
    #[arg(long, value_name = "WINDOW", value_parser = window)]
    pub(crate) window: Option<Window>,

    /// How many keys to show of each rule, those first that would have been refused most.
    #[arg(long, value_name = "KEYS", default_value = "10",
          value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) top: u32,

    /// Ask again every second, until Ctrl-C. A terminal is drawn anew; elsewhere one view follows the other.
    #[arg(long)]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) asking: Asking,
}

/// Which server to ask.
#[derive(Debug, Args)]
pub(crate) struct Admin {
    /// The admin port of the server to ask: what it has as --admin-addr.
    #[arg(
        long = "admin",
        alias = "admin-addr",
        value_name = "ADDRESS",
        env = "TOLLGATE_ADMIN_ADDR",
        default_value = "127.0.0.1:6070",
        value_parser = admin
    )]
    pub(crate) address: String,

    #[command(flatten)]
    pub(crate) token: AdminToken,

    /// Whom to trust to have signed the server's certificate (PEM). With it, TLS is spoken.
    #[arg(long = "admin-ca", value_name = "FILE", env = "TOLLGATE_ADMIN_CA")]
    pub(crate) authority: Option<PathBuf>,

    /// A certificate to show to the server (PEM).
    #[arg(long = "admin-cert", value_name = "FILE", env = "TOLLGATE_ADMIN_CERT", requires_all = ["key", "authority"])]
    pub(crate) certificate: Option<PathBuf>,

    /// The key of that certificate (PEM).
    #[arg(
        long = "admin-key",
        value_name = "FILE",
        env = "TOLLGATE_ADMIN_KEY",
        requires = "certificate"
    )]
    pub(crate) key: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub(crate) enum StoreKind {
    /// In this process, for this process alone.
    Memory,
    /// In a Redis.
    Redis(Box<redis::Address>),
}

/// Arguments that envoyproxy/ratelimit reads from the environment under a shorter name.
const FAMILIAR: &[&str] = &[
    "SHADOW_MODE",
    "QUOTA_MODE",
    "MERGE_DOMAIN_CONFIG",
    "LIMIT_RESPONSE_HEADERS_ENABLED",
    "LIMIT_LIMIT_HEADER",
    "LIMIT_REMAINING_HEADER",
    "LIMIT_RESET_HEADER",
    "RESPONSE_DYNAMIC_METADATA",
];

impl Store {
    /// Which store it is. Read here and not by clap, which would show what it cannot read, password and
    /// all.
    pub(crate) fn kind(&self) -> Result<StoreKind, redis::AddressError> {
        if self.url.0 == "memory" {
            return Ok(StoreKind::Memory);
        }
        let address = redis::Address::parse(&self.url.0)?;
        Ok(StoreKind::Redis(Box::new(match &self.password {
            Some(password) => address.with_password(&password.0),
            None => address,
        })))
    }
}

impl Arguments {
    /// Reads them, or exits: 0 after `--help` and `--version`, 2 where something is wrong.
    pub(crate) fn read() -> Self {
        let command = Self::command().mut_args(from_environment);
        let command = command.mut_subcommands(|command| {
            let command = command.mut_args(from_environment);
            command.mut_subcommands(|command| command.mut_args(from_environment))
        });
        let matches = command.get_matches();
        let mut arguments = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        let (serve, matches) = match (&mut arguments.command, matches.subcommand()) {
            (Some(Command::Serve(serve)), Some((_, matches))) => (serve.as_mut(), matches),
            _ => (&mut arguments.serve, &matches),
        };
        if matches.value_source("paths") == Some(ValueSource::EnvVariable) {
            serve.rules.paths = serve.rules.paths.iter().flat_map(env::split_paths).collect();
        }
        arguments
    }
}

/// What an argument reads from the environment. A variable that is empty counts as not set, as tools
/// that fill in templates leave it; where only envoyproxy/ratelimit's name of one is set, that is read.
fn from_environment(argument: clap::Arg) -> clap::Arg {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let Some(ours) = argument.get_env().and_then(|name| name.to_str()).map(str::to_owned) else {
        return argument;
    };
    let familiar =
        FAMILIAR.iter().find(|familiar| ours.trim_start_matches("TOLLGATE_") == **familiar);
    let argument = match (familiar, argument.get_help().cloned()) {
        (Some(familiar), Some(help)) => argument.help(format!("{help} [also: {familiar}]")),
        _ => argument,
    };
    match familiar {
        Some(familiar) if !is_set(&ours) && is_set(familiar) => argument.env(familiar),
        _ if env::var_os(&ours).is_some() && !is_set(&ours) => argument.env(Resettable::Reset),
        _ => argument,
    }
}

fn address(text: &str) -> Result<String, String> {
    let port = text
        .rsplit_once(':')
        .and_then(|(host, port)| port.parse::<u16>().ok().filter(|_| !host.is_empty()));
    port.map(|_| text.to_owned())
        .ok_or_else(|| "write an address and a port, such as 0.0.0.0:8081".to_owned())
}

/// An address to ask at; it is no URL.
fn admin(text: &str) -> Result<String, String> {
    match address(text) {
        Ok(address) if !address.contains(['/', '@']) => Ok(address),
        _ => Err("write a host and a port, such as 127.0.0.1:6070".to_owned()),
    }
}

/// How long to wait for Redis; a bare number is in milliseconds.
fn timeout(text: &str) -> Result<Duration, String> {
    duration(text, "ms")
        .filter(|it| !it.is_zero() && *it <= Duration::from_secs(60))
        .ok_or_else(|| "write a duration from 1ms to 60s".to_owned())
}

fn window(name: &str) -> Result<Window, String> {
    Window::named(name).ok_or_else(|| "write minute, hour or day".to_owned())
}

fn policy(name: &str) -> Result<OnStoreFailure, String> {
    OnStoreFailure::named(name).ok_or_else(|| "write allow, deny or local".to_owned())
}

fn service(name: &str) -> Result<OptionalService, String> {
    let names = OptionalService::ALL.map(OptionalService::name).join(", ");
    OptionalService::named(name.trim()).ok_or_else(|| format!("write one of {names}"))
}

fn log_format(name: &str) -> Result<LogFormat, String> {
    match name {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("write text or json".to_owned()),
    }
}

/// How long to drain; a bare number is in seconds.
fn drain(text: &str) -> Result<Duration, String> {
    duration(text, "s")
        .filter(|it| *it <= Duration::from_secs(3600))
        .ok_or_else(|| "write a duration from 0s to 1h, such as 5s".to_owned())
}

/// How old a connection may become.
fn age(text: &str) -> Result<Duration, String> {
    duration(text, "")
        .filter(|it| (Duration::from_secs(1)..=Duration::from_secs(7 * 86_400)).contains(it))
        .ok_or_else(|| "write a duration from 1s to 168h, such as 30m".to_owned())
}

/// A duration such as `250ms`, `5s`, `30m` or `1h`; a bare number is in this unit.
fn duration(text: &str, bare: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.trim_end().parse().ok()?;
    let unit = text.strip_prefix(digits).filter(|unit| !unit.is_empty()).unwrap_or(bare);
    let seconds = match unit {
        "ms" => return Some(Duration::from_millis(number)),
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    number.checked_mul(seconds).map(Duration::from_secs)
}
