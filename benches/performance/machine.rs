//! Where and when it was measured, and what.

use std::{fmt, fs, process::Command, thread};

/// What figures depend on beside the program.
pub(crate) struct Machine {
    processor: String,
    cores: usize,
    kernel: String,
    redis: String,
    date: String,
    commit: String,
}

impl Machine {
    pub(crate) fn look() -> Self {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let mut lines = processors.lines();
        let model = lines.find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let redis = said("redis-server", &["--version"]);
        let version = redis.split_whitespace().find_map(|word| word.strip_prefix("v="));
        let commit = said("git", &["describe", "--always", "--dirty", "--abbrev=10"]);
        Self {
            processor: model.map_or("a processor without a name", |(_, name)| name).to_owned(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            kernel: said("uname", &["-sr"]),
            redis: version.unwrap_or("not there").to_owned(),
            date: said("date", &["-u", "+%Y-%m-%d"]),
            commit,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, cores, kernel, redis, date, commit } = self;
        write!(
            f,
            "Measured on {date} at commit {commit}: {cores} cores of {processor}, {kernel}, Redis {redis}."
        )
    }
}

/// What a command prints, or what is said in its place.
fn said(command: &str, arguments: &[&str]) -> String {
    let output =
        Command::new(command).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}
