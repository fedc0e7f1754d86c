//! How much CPU time processes take.

use crate::arguments::Process;
use rustix::param::clock_ticks_per_second;
use std::{collections::BTreeMap, fs};

/// What a process is that cannot be measured.
#[derive(Debug, thiserror::Error)]
#[error(
    "--pid: there is no process {id} whose CPU time can be read from /proc/{id}/stat (which is Linux's)"
)]
pub(crate) struct NoProcess {
    id: u32,
}

/// CPU time of processes so far, in microseconds, by their names.
#[derive(Debug, Clone)]
pub(super) struct CpuTimes(BTreeMap<String, f64>);

impl CpuTimes {
    /// As it stands now.
    ///
    /// # Errors
    ///
    /// Where one of them is gone.
    pub(super) fn read(processes: &[Process]) -> Result<Self, NoProcess> {
        let read = processes.iter().map(|process| {
            let id = process.id;
            let us = cpu_us(&id.to_string()).ok_or(NoProcess { id })?;
            Ok((process.name.clone(), us))
        });
        Ok(Self(read.collect::<Result<_, _>>()?))
    }

    /// The same of those that are still there.
    pub(super) fn of_those_there(processes: &[Process]) -> Self {
        let read =
            |process: &Process| Some((process.name.clone(), cpu_us(&process.id.to_string())?));
        Self(processes.iter().filter_map(read).collect())
    }

    /// What was taken since, in microseconds.
    pub(super) fn since(&self, earlier: &Self) -> BTreeMap<String, f64> {
        let taken = self.0.iter().filter_map(|(name, now)| {
            let before = earlier.0.get(name)?;
            Some((name.clone(), now - before))
        });
        taken.collect()
    }
}

/// The name by which figures call the process that measures.
pub(super) const SELF: &str = "load";

/// This process, where the system tells what it takes.
pub(super) fn this() -> Option<Process> {
    let id = std::process::id();
    cpu_us(&id.to_string()).map(|_| Process { name: SELF.to_owned(), id })
}

/// CPU time that a process has taken, its own and the system's for it, in microseconds.
fn cpu_us(process: &str) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    ticks(&text).map(|ticks| ticks as f64 * 1e6 / clock_ticks_per_second() as f64)
}

/// The ticks in which a process ran, of `/proc/PID/stat`: its 14th and 15th field. The second is the program's name
/// in parentheses, and may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let stat = "42 (a b) R 1 2) S 1 42 42 0 -1 4194560 1 2 3 4 70 5 6 7 20 0 1 0 8 9 10";
        assert_eq!(ticks(stat), Some(75));
        assert_eq!(ticks("42 (a"), None);
    }

    #[test]
    fn what_is_no_process_has_no_time() {
        let nobody = Process { name: "server".to_owned(), id: u32::MAX };
        let error = CpuTimes::read(&[nobody]).unwrap_err().to_string();
        assert!(error.contains("--pid") && error.contains("4294967295"), "{error}");
    }
}
