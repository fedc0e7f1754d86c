//! Measures a server and the one that always gives the same answer in turn, so that whatever else the machine does
//! befalls both.

use super::{
    Plan, measure,
    measure::NotMeasured,
    null::NullServer,
    summary::{Summary, grouped, rounded},
};
use crate::arguments::{Load, Process};
use serde_json::{Value, json};
use std::io;

/// What the null server is called.
const NULL: &str = "null";

/// The name of the process that is compared.
const SERVER: &str = "server";

/// Why there is nothing to compare.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotCompared {
    #[error(transparent)]
    NotMeasured(#[from] NotMeasured),
    #[error("the server that always gives the same answer does not start: {0}")]
    NoNull(io::Error),
    #[error("this target cannot be asked: {0}")]
    Target(#[from] http::Error),
}

/// Both, round by round.
#[derive(Debug)]
pub(super) struct Comparison {
    rounds: Vec<[Summary; 2]>,
    /// Whether Ctrl-C ended it before its time. What is left are the rounds that were whole by then.
    pub(super) is_interrupted: bool,
}

/// Measures both, as often as wanted.
pub(super) async fn run(arguments: &Load) -> Result<Comparison, NotCompared> {
    let null = NullServer::start(arguments.null_threads).await.map_err(NotCompared::NoNull)?;
    let process = Process { name: SERVER.to_owned(), id: null.id };
    let mut rounds = Vec::new();
    for _ in 0..arguments.rounds {
        let plan = Plan::new(arguments, arguments.target.clone())?;
        let target = measure::run(plan, &arguments.processes, &arguments.target).await?;
        if target.is_interrupted {
            return Ok(Comparison { rounds, is_interrupted: true });
        }
        let plan = Plan::new(arguments, null.address.clone())?;
        let null = measure::run(plan, std::slice::from_ref(&process), NULL).await?;
        if null.is_interrupted {
            return Ok(Comparison { rounds, is_interrupted: true });
        }
        rounds.push([target.summary, null.summary]);
    }
    Ok(Comparison { rounds, is_interrupted: false })
}

impl Comparison {
    /// Whether the target answered anything at all.
    pub(super) fn is_answered(&self) -> bool {
        self.rounds.iter().any(|[target, _]| target.is_answered())
    }

    /// As it is printed.
    pub(super) fn written(&self, as_json: bool) -> String {
        if as_json { format!("{:#}\n", self.json()) } else { self.text() }
    }

    /// Of the target, of the null server, and of the one divided by the other round by round: the medians.
    fn medians(&self, figure: impl Fn(&Summary) -> Option<f64>) -> Option<[f64; 3]> {
        let both = self.rounds.iter().map(|[target, null]| Some([figure(target)?, figure(null)?]));
        let both = both.collect::<Option<Vec<_>>>().filter(|both| !both.is_empty())?;
        Some([
            median(both.iter().map(|[target, _]| *target).collect()),
            median(both.iter().map(|[_, null]| *null).collect()),
            median(both.iter().map(|[target, null]| target / null).collect()),
        ])
    }

    fn rate(&self) -> Option<[f64; 3]> {
        self.medians(|summary| Some(summary.per_second()))
    }

    fn cpu(&self) -> Option<[f64; 3]> {
        self.medians(|summary| summary.cpu_us(SERVER))
    }

    fn text(&self) -> String {
        let rounds = self.rounds.len();
        let Some([target, _]) = self.rounds.last() else {
            return "No round was whole when it was interrupted.\n".to_owned();
        };
        let mut text = format!("The last of {rounds} rounds:\n\n{}\n", target.text());
        text += &format!(
            "Beside a server that always gives the same answer, in turn, medians:\n\n{:12} {:>12} {:>12} {:>8}\n",
            "", "target", "null", "ratio"
        );
        if let Some([target, null, ratio]) = self.rate() {
            let [target, null] =
                [target, null].map(|rate| format!("{}/s", grouped(rate.round() as u64)));
            text += &format!("{:12} {target:>12} {null:>12} {ratio:>8.2}\n", "rate");
        }
        match self.cpu() {
            Some([target, null, ratio]) => {
                let [target, null] = [target, null].map(|us| format!("{us:.1} µs"));
                text += &format!("{:12} {target:>12} {null:>12} {ratio:>8.2}\n", "CPU");
            }
            None => {
                text += "\nSay with --pid which process the server is, and CPU time is compared as well.\n"
            }
        }
        text
    }

    fn json(&self) -> Value {
        let figures = |medians: Option<[f64; 3]>| {
            medians.map(|medians| {
                let [target, constant, ratio] = medians.map(rounded);
                json!({ "target": target, "null": constant, "ratio": ratio })
            })
        };
        json!({
            "per_second": figures(self.rate()),
            "cpu_us": figures(self.cpu()),
            "rounds": self.rounds.iter().map(|[target, constant]| json!({
                "target": target.json(),
                "null": constant.json(),
            })).collect::<Vec<_>>(),
        })
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}
