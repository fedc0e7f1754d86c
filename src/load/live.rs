//! How it goes, in a line on the terminal that is written anew every second.

use super::{
    summary::{grouped, share, time},
    tally::Tally,
};
use hdrhistogram::CreationError;
use std::io::{IsTerminal as _, Write as _, stderr};

/// Goes back to the beginning of the line, and clears it.
const ANEW: &str = "\r\x1b[K";

/// The line. Where stderr is no terminal there is none.
pub(super) struct Live {
    is_shown: bool,
    name: String,
    threads: u32,
    /// How many threads have told of this second.
    told: u32,
    second: Tally,
    seconds: u64,
}

impl Live {
    /// A line about what is asked under this name by so many threads.
    pub(super) fn new(name: &str, threads: u32) -> Result<Self, CreationError> {
        let (is_shown, second) = (stderr().is_terminal(), Tally::new()?);
        Ok(Self { is_shown, name: name.to_owned(), threads, told: 0, second, seconds: 0 })
    }

    /// A thread tells of its last second.
    pub(super) fn tell(&mut self, tally: &Tally) {
        if !self.is_shown {
            return;
        }
        self.second.add(tally);
        self.told += 1;
        if self.told < self.threads {
            return;
        }
        let line = match (self.second.requests(), self.seconds) {
            (0, 0) => "warming up".to_owned(),
            (0, _) => "no answers".to_owned(),
            _ => {
                self.seconds += 1;
                self.line()
            }
        };
        show(&format!("{ANEW}{}: {line}", self.name));
        self.told = 0;
        self.second.clear();
    }

    fn line(&self) -> String {
        let Tally { latencies, over_limit, .. } = &self.second;
        let requests = self.second.requests();
        let mut latency = String::new();
        if self.second.answered() > 0 {
            let at = |quantile| time(latencies.value_at_quantile(quantile));
            latency = format!("p50 {}, p99 {}, ", at(0.5), at(0.99));
        }
        format!(
            "{} s, {}/s, {latency}OVER_LIMIT {}, errors {}",
            self.seconds,
            grouped(self.second.answered()),
            share(*over_limit, requests),
            share(self.second.failed(), requests),
        )
    }

    /// What comes next stands in its place.
    pub(super) fn end(&self) {
        if self.is_shown {
            show(ANEW);
        }
    }
}

fn show(text: &str) {
    // Where stderr is gone there is nobody left to tell.
    let _ = stderr().write_all(text.as_bytes());
}
