//! `tollgate load`: whom to ask, what, how hard and for how long.

use super::duration;
use clap::{Args, builder::BoolishValueParser};
use std::{str::FromStr, time::Duration};

/// What `tollgate load --help` teaches beside the flags.
pub(crate) const HELP: &str = "\
Examples:
  tollgate load                                    as fast as it answers
  tollgate load --rate 20000 --duration 1m         20,000 a second, come what may
  tollgate load --keys 1000000 --zipf 1.1          many users, some far busier
  tollgate load --descriptor 'plan=free,user={key}' --descriptor 'path=/login,remote_address={key}'
  tollgate load --pid $(pidof -s tollgate) --pid redis=$(pidof -s redis-server)
  tollgate load --against-null --pid $(pidof -s tollgate)

How to read it:
  Without --rate the next request of a stream is sent when the last is answered
  (a closed loop): that finds out how many there can be, but not how long callers
  wait, for while the server is slow nobody asks. With --rate requests are due
  evenly spaced (an open loop), and each waits from when it was due, whether or
  not it could be sent.

  Every answer is an answer, also one with a gRPC status that is an error: rate,
  latency and CPU are of answers. To see what a decision costs, look at OVER_LIMIT,
  which costs something else than OK, and at errors, which should not be. What had
  no answer is an error, too, and has no latency: where there are such, latencies
  are of the others alone, which is said.

  Requests that the server says it has not looked at, because it closes the
  connection or refuses the stream, are asked again, and wait since they were due.";

#[derive(Debug, Args)]
pub(crate) struct Load {
    /// The server to ask, at its gRPC port, in plain text: `host:port` or `http://host:port`.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081", value_parser = target)]
    pub(crate) target: String,

    /// Connections to it, over which requests are spread evenly.
    #[arg(long, value_name = "COUNT", default_value = "4",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) connections: u32,

    /// Requests under way on each connection, at most.
    #[arg(long, value_name = "COUNT", default_value = "32",
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) streams: u32,

    /// Requests per second. Without it, as many as are answered.
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) rate: Option<u32>,

    /// How many values `{key}` takes: numbers from 0 on, all of one length.
    #[arg(long, value_name = "COUNT", default_value = "10000",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keys: u32,

    /// How uneven they are drawn: the one with number k in proportion to 1 ÷ (k + 1)^S. With 0 all are alike.
    #[arg(long, value_name = "S", default_value = "0", allow_negative_numbers = true,
          value_parser = exponent)]
    pub(crate) zipf: f64,

    /// The domain that requests name.
    #[arg(long, value_name = "NAME", default_value = "edge")]
    pub(crate) domain: String,

    /// A descriptor of every request, by its entries: `plan=free,user={key}`. Give it several times for several.
    /// Each draws a key of its own. A value cannot hold a comma.
    #[arg(long = "descriptor", value_name = "ENTRIES", default_value = "plan=standard,user={key}")]
    pub(crate) templates: Vec<Template>,

    /// How many descriptors a request has: where there are fewer, they begin again at the first. Without it, one of
    /// each.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) descriptors: Option<u32>,

    /// How long to measure. A bare number is in seconds.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = measuring)]
    pub(crate) duration: Duration,

    /// How long to ask before that without counting it.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = warming)]
    pub(crate) warmup: Duration,

    /// How long to wait for each answer, and to tell the server so, as Envoy does: `20ms`. What is not answered then
    /// is cancelled. It counts from when a request is sent: latencies count from when it was due.
    #[arg(long, value_name = "DURATION", value_parser = patience)]
    pub(crate) deadline: Option<Duration>,

    /// A process whose CPU time to measure for each request: the server's, or another's with a name, such as
    /// `redis=4711`. May be given several times.
    #[arg(long = "pid", value_name = "[NAME=]PID")]
    pub(crate) processes: Vec<Process>,

    /// Threads that ask. More than one pays only where this one is busy all the time and the machine has more cores.
    #[arg(long, value_name = "COUNT", default_value = "1",
          value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: u32,

    /// Measure a server that always gives the same answer as well, in turn with this one, and say how they compare.
    #[arg(long)]
    pub(crate) against_null: bool,

    /// On how many threads that one answers: as many as the target has. Without it, on as many as there are cores.
    #[arg(long, value_name = "THREADS", requires = "against_null",
          value_parser = clap::value_parser!(u16).range(1..=255))]
    pub(crate) null_threads: Option<u16>,

    /// How often both take their turn.
    #[arg(long, value_name = "COUNT", default_value = "3", requires = "against_null",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,

    /// Print JSON instead of text.
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
}

/// The server that always gives the same answer.
#[derive(Debug, Args)]
pub(crate) struct Null {
    /// On how many threads it answers. Without it, on as many as there are cores.
    #[arg(long, value_name = "THREADS", value_parser = clap::value_parser!(u16).range(1..=255))]
    pub(crate) threads: Option<u16>,
}

/// A descriptor whose values may hold `{key}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    /// Names and values.
    pub(crate) entries: Vec<(String, String)>,
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let entry = |entry: &str| {
            let (key, value) = entry.split_once('=')?;
            (!key.is_empty()).then(|| (key.to_owned(), value.to_owned()))
        };
        let entries = text.split(',').map(entry).collect::<Option<Vec<_>>>();
        let entries = entries.filter(|entries| entries.len() <= 64);
        let entries = entries
            .ok_or("write entries as key=value, with commas between: plan=free,user={key}")?;
        Ok(Self { entries })
    }
}

/// A process, and what to call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) id: u32,
}

impl FromStr for Process {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, id) = text.split_once('=').unwrap_or(("server", text));
        let id = id.parse().ok().filter(|&id| id > 0 && !name.is_empty());
        let id = id.ok_or("write the number of a process, or NAME=NUMBER, such as redis=4711")?;
        Ok(Self { name: name.to_owned(), id })
    }
}

fn target(text: &str) -> Result<String, String> {
    if text.starts_with("https://") {
        return Err(
            "it asks in plain text only: name a gRPC port that does not speak TLS".to_owned()
        );
    }
    let address = text.strip_prefix("http://").unwrap_or(text);
    super::admin(address.strip_suffix('/').unwrap_or(address))
        .map_err(|_| "write a host and a port, such as 127.0.0.1:8081".to_owned())
}

fn exponent(text: &str) -> Result<f64, String> {
    let exponent = text.parse::<f64>().ok().filter(|s| (0.0..=10.0).contains(s));
    exponent.ok_or_else(|| "write a number from 0 to 10".to_owned())
}

fn measuring(text: &str) -> Result<Duration, String> {
    duration(text, "s")
        .filter(|it| (Duration::from_millis(100)..=Duration::from_secs(24 * 3600)).contains(it))
        .ok_or_else(|| "write a duration from 100ms to 24h, such as 10s".to_owned())
}

fn warming(text: &str) -> Result<Duration, String> {
    duration(text, "s")
        .filter(|it| *it <= Duration::from_secs(3600))
        .ok_or_else(|| "write a duration from 0s to 1h, such as 1s".to_owned())
}

/// A bare number is in milliseconds.
fn patience(text: &str) -> Result<Duration, String> {
    duration(text, "ms")
        .filter(|it| !it.is_zero() && *it <= Duration::from_secs(60))
        .ok_or_else(|| "write a duration from 1ms to 60s".to_owned())
}
