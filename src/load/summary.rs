//! What was measured, for people and for programs.

use super::{process::SELF, tally::Tally};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Write as _};
use tollgate::unit::percent;

/// The quantiles that are told, and what JSON calls them.
const QUANTILES: [(f64, &str, &str); 5] = [
    (0.5, "p50", "p50"),
    (0.9, "p90", "p90"),
    (0.99, "p99", "p99"),
    (0.999, "p99.9", "p99_9"),
    (1.0, "max", "max"),
];

/// How a server answered.
#[derive(Debug, Clone)]
pub(super) struct Summary {
    seconds: f64,
    requests: u64,
    answered: u64,
    unanswered: u64,
    ok: u64,
    over_limit: u64,
    errors: BTreeMap<&'static str, u64>,
    /// Of answers, by the places of `QUANTILES`, in microseconds. `None` where there was none.
    latencies_us: Option<[u64; 5]>,
    /// CPU time for each answer, in microseconds, by the names of processes.
    cpu_us: BTreeMap<String, f64>,
}

impl Summary {
    /// Of so many microseconds, in which processes have taken so much CPU time.
    pub(super) fn new(tally: &Tally, elapsed_us: u64, cpu_us: BTreeMap<String, f64>) -> Self {
        let answered = tally.answered();
        let each = cpu_us.into_iter().map(|(name, us)| (name, us / answered.max(1) as f64));
        Self {
            seconds: elapsed_us as f64 / 1e6,
            requests: tally.requests(),
            answered,
            unanswered: tally.unanswered,
            ok: tally.ok,
            over_limit: tally.over_limit,
            errors: tally.errors.clone(),
            latencies_us: (answered > 0).then(|| {
                QUANTILES.map(|(quantile, ..)| tally.latencies.value_at_quantile(quantile))
            }),
            cpu_us: each.collect(),
        }
    }

    /// Whether anything was answered at all.
    pub(super) const fn is_answered(&self) -> bool {
        self.answered > 0
    }

    /// Answers per second.
    pub(super) fn per_second(&self) -> f64 {
        self.answered as f64 / self.seconds.max(1e-6)
    }

    /// What an answer cost a process, in microseconds of CPU time.
    pub(super) fn cpu_us(&self, process: &str) -> Option<f64> {
        self.cpu_us.get(process).copied()
    }

    /// As it is printed.
    pub(super) fn written(&self, as_json: bool) -> String {
        if as_json { format!("{:#}\n", self.json()) } else { self.text() }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "rate         {}/s, {} answers in {:.1} s",
            grouped(self.per_second().round() as u64),
            grouped(self.answered),
            self.seconds
        );
        if let Some(latencies_us) = self.latencies_us {
            let latencies = QUANTILES.iter().zip(latencies_us);
            let latencies: Vec<_> =
                latencies.map(|((_, name, _), us)| format!("{name} {}", time(us))).collect();
            let _ = writeln!(text, "latency      {}", latencies.join("   "));
        }
        let mut add = |name: &str, count: u64| {
            let share = share(count, self.requests);
            let _ = writeln!(text, "{name:<12} {share:<8} {}", grouped(count));
        };
        add("OK", self.ok);
        add("OVER_LIMIT", self.over_limit);
        add("errors", self.requests - self.ok - self.over_limit);
        for (what, count) in &self.errors {
            let _ = writeln!(text, "  {what:<24} {}", grouped(*count));
        }
        if self.unanswered > 0 {
            let without = grouped(self.unanswered);
            let _ = writeln!(
                text,
                "no answer    {without} of the errors, which the latency is without"
            );
        }
        let others = self.cpu_us.iter().filter(|(name, _)| *name != SELF);
        let mut cpu: Vec<_> = others.map(|(name, us)| format!("{name} {us:.1} µs")).collect();
        if let Some(us) = self.cpu_us(SELF) {
            cpu.push(format!("{us:.1} µs to ask"));
        }
        if !cpu.is_empty() {
            let _ = writeln!(text, "CPU          {} for each answer", cpu.join(", "));
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let latencies = self.latencies_us.map(|latencies_us| {
            let latencies = QUANTILES.iter().zip(latencies_us);
            let latencies = latencies.map(|((.., name), us)| ((*name).to_owned(), us.into()));
            latencies.collect::<serde_json::Map<_, _>>()
        });
        json!({
            "seconds": rounded(self.seconds),
            "requests": self.requests,
            "answered": self.answered,
            "unanswered": self.unanswered,
            "per_second": rounded(self.per_second()),
            "latency_us": latencies,
            "ok": self.ok,
            "over_limit": self.over_limit,
            "errors": self.errors,
            "cpu_us": self.cpu_us.iter().map(|(name, us)| (name.clone(), rounded(*us).into()))
                .collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// To three places behind the point, and no more than was measured.
pub(super) fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

/// A number with commas between its thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time in microseconds, to three digits or so.
pub(super) fn time(us: u64) -> String {
    let number = us as f64;
    match us {
        0..1000 => format!("{us} µs"),
        1000..10_000 => format!("{:.2} ms", number / 1e3),
        10_000..100_000 => format!("{:.1} ms", number / 1e3),
        100_000..1_000_000 => format!("{:.0} ms", number / 1e3),
        _ => format!("{:.2} s", number / 1e6),
    }
}

/// A part of a whole, as a share.
pub(super) fn share(part: u64, whole: u64) -> String {
    percent(part as f64 / whole.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::tally::Outcome;

    fn summary() -> Summary {
        let mut tally = Tally::new().unwrap();
        for took_us in 1..=997 {
            tally.count(Outcome::Ok, took_us);
        }
        tally.count(Outcome::OverLimit, 1500);
        tally.count(Outcome::status(14), 1500);
        tally.count(Outcome::UNANSWERED, 2_000_000);
        let cpu = [("server".to_owned(), 4995.0), (SELF.to_owned(), 2997.0)];
        Summary::new(&tally, 500_000, cpu.into())
    }

    #[test]
    fn people_read_it() {
        insta::assert_snapshot!(summary().text(), @r"
        rate         1,998/s, 999 answers in 0.5 s
        latency      p50 500 µs   p90 900 µs   p99 990 µs   p99.9 1.50 ms   max 1.50 ms
        OK           99.7 %   997
        OVER_LIMIT   0.1 %    1
        errors       0.2 %    2
          UNAVAILABLE              1
          no answer until the end  1
        no answer    1 of the errors, which the latency is without
        CPU          server 5.0 µs, 3.0 µs to ask for each answer
        ");
    }

    #[test]
    fn programs_read_it() {
        insta::assert_snapshot!(format!("{:#}", summary().json()), @r#"
        {
          "seconds": 0.5,
          "requests": 1000,
          "answered": 999,
          "unanswered": 1,
          "per_second": 1998.0,
          "latency_us": {
            "p50": 500,
            "p90": 900,
            "p99": 990,
            "p99_9": 1500,
            "max": 1500
          },
          "ok": 997,
          "over_limit": 1,
          "errors": {
            "UNAVAILABLE": 1,
            "no answer until the end": 1
          },
          "cpu_us": {
            "load": 3.0,
            "server": 5.0
          }
        }
        "#);
    }

    #[test]
    fn numbers_are_written_for_people() {
        let numbers = [0, 999, 1000, 1_234_567];
        assert_eq!(numbers.map(grouped), ["0", "999", "1,000", "1,234,567"]);
        let times = [0, 999, 1000, 43_210, 432_100, 4_321_000].map(time);
        assert_eq!(times, ["0 µs", "999 µs", "1.00 ms", "43.2 ms", "432 ms", "4.32 s"]);
    }
}
