//! What the system says of the process, under the names that all of Prometheus's libraries use. Where there is no
//! `/proc`, there are none.

use super::{Instruments, number};
use rustix::param::{clock_ticks_per_second, page_size};
use std::fs;

pub(super) fn register(instruments: &Instruments) {
    instruments.seconds("process.cpu", "CPU time of the process", |_, tell| {
        if let Some(stat) = Stat::read() {
            tell(in_seconds(stat.cpu_ticks), &[]);
        }
    });
    instruments.gauge("process.resident_memory", "By", "Memory of the process", |_, tell| {
        if let Some(stat) = Stat::read() {
            tell(number(stat.resident_pages.saturating_mul(page_size() as u64)), &[]);
        }
    });
    instruments.gauge(
        "process.start_time",
        "s",
        "When the process began, since 1970",
        |_, tell| {
            if let Some((stat, boot)) = Stat::read().zip(boot_time()) {
                tell(number(boot) + in_seconds(stat.began_ticks), &[]);
            }
        },
    );
    instruments.gauge("process.open_fds", "", "Files that the process has open", |_, tell| {
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // One of them is the directory that is being read.
            tell(number((open.count() as u64).saturating_sub(1)), &[]);
        }
    });
    instruments.gauge("process.max_fds", "", "Files that the process may have open", |_, tell| {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        if let Some(limit) = limit {
            tell(number(limit), &[]);
        }
    });
}

/// Of `/proc/self/stat`.
struct Stat {
    /// User and system time.
    cpu_ticks: u64,
    /// Since the system was started.
    began_ticks: u64,
    resident_pages: u64,
}

impl Stat {
    fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name before it is in parentheses, and may hold anything.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // The first of them is the third of the line, as `man proc` counts.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            began_ticks: field(22)?,
            resident_pages: field(24)?,
        })
    }
}

/// When the system was started, in seconds since 1970.
fn boot_time() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let time = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    time.trim().parse().ok()
}

fn in_seconds(ticks: u64) -> f64 {
    number(ticks) / number(clock_ticks_per_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_hides_no_field() {
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let stat = Stat::parse(&format!("7 (a ) b) S {}", fields.join(" "))).unwrap();
        assert_eq!((stat.cpu_ticks, stat.began_ticks, stat.resident_pages), (14 + 15, 22, 24));
        assert!(Stat::parse("7 (tollgate) S 4 5").is_none());
    }
}
