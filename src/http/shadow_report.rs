//! `GET /shadow-report`: what rules in shadow would have refused, a few lines for each, or as JSON.
//!
//! Asked for with `rule=RULE`, of one rule or domain; with `window=minute`, `hour` or `day`, in this window alone; with
//! `top=N`, with so many keys. It is the only place that shows what callers sent.

use super::{answer, not_meant};
use crate::{
    decider::{Decider, NoShadowReport, ShadowReport, ShadowView},
    shadow::Window,
};
use axum::{
    extract::{RawQuery, State},
    http::HeaderMap,
    response::Response,
};
use serde_json::{Value, json};
use std::sync::Arc;
use tonic::Status;

/// How many keys are shown of a rule, unless it is said; and at most.
const USUAL_KEYS: usize = 10;
const MOST_KEYS: usize = 1000;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    rule: Option<String>,
    window: Option<Window>,
    top: usize,
}

impl Asked {
    /// Reads a query; an error says what is wrong with it.
    fn read(query: &str) -> Result<Self, String> {
        let mut asked = Self { rule: None, window: None, top: USUAL_KEYS };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "rule" => asked.rule = Some(value.into_owned()),
                "window" => match Window::named(&value) {
                    Some(window) => asked.window = Some(window),
                    None => return Err("`window` is minute, hour or day".to_owned()),
                },
                "top" => match value.parse() {
                    Ok(top) if top <= MOST_KEYS => asked.top = top,
                    _ => return Err(format!("`top` is a number from 0 to {MOST_KEYS}")),
                },
                _ => return Err("only `rule`, `window` and `top` can be asked for".to_owned()),
            }
        }
        Ok(asked)
    }
}

/// Shows it; 404 where there is neither the rule nor anything that it did, 503 where the store that knows cannot
/// be asked.
pub(super) async fn show(
    State(decider): State<Arc<Decider>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let shown = report(&decider, query.as_deref().unwrap_or_default()).await;
    let shown = shown.map(|(report, asked)| {
        (report_json(&report, &asked), report.text(asked.window, asked.top))
    });
    answer(&headers, shown)
}

async fn report(decider: &Arc<Decider>, query: &str) -> Result<(ShadowReport, Asked), Status> {
    let asked = Asked::read(query).map_err(Status::invalid_argument)?;
    let report = decider.shadow_report(asked.rule.as_deref()).await;
    let report = report.map_err(|error| match error {
        NoShadowReport::NotMeant(error) => not_meant(&error),
        NoShadowReport::Store(error) => Status::unavailable(decider.in_words(&error)),
    })?;
    Ok((report, asked))
}

/// The report as JSON. Shares are numbers of which 1 is all.
fn report_json(report: &ShadowReport, asked: &Asked) -> Value {
    let windows = asked.window.as_ref().map_or(&Window::ALL[..], std::slice::from_ref);
    let rule = |view: &ShadowView| {
        let windows = windows.iter().map(|window| window_json(view, *window, asked.top));
        json!({
            "rule": view.rule,
            "standing": view.standing.name(),
            "windows": windows.collect::<Vec<_>>(),
        })
    };
    json!({
        "rules": report.rules.iter().map(rule).collect::<Vec<_>>(),
        "rules_left_out": report.left_out,
        "untold": report.untold,
    })
}

fn window_json(view: &ShadowView, window: Window, top: usize) -> Value {
    let (counts, keys) = view.over(window);
    let keys = keys.iter().take(top);
    let keys = keys.map(|(key, count)| json!({ "key": key, "would_refuse": count }));
    json!({
        "window": window.name(),
        "requests": counts.decided(),
        "would_refuse": counts.would_refuse,
        "degraded": counts.degraded,
        "share": counts.share(),
        "top": keys.collect::<Vec<_>>(),
    })
}
