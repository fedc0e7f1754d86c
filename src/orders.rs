//! `tollgate rule`, `limit` and `key`: what an operator says to a running server, and asks of single counters.

use crate::{
    arguments::{
        Asking, Clearing, Counter, KeyCommand, LimitCommand, RuleCommand, Setting, Switching,
    },
    ask::{Format, NotShown, Question, show},
};
use http::Method;
use serde_json::{Value, json};
use tollgate::order::EVERYTHING;

/// Shows rules, or switches them.
pub(crate) async fn rule(command: &RuleCommand) -> Result<(), NotShown> {
    let (position, switching) = match command {
        RuleCommand::List(asking) => return get(asking, "/rules").await,
        RuleCommand::Off(switching) => ("off", switching),
        RuleCommand::On(switching) => ("on", switching),
        RuleCommand::Shadow(switching) => ("shadow", switching),
        RuleCommand::Enforce(switching) => ("enforce", switching),
        RuleCommand::Clear(switching) => ("clear", switching),
    };
    let Switching { rule, asking, .. } = switching;
    let body = json!({ "rule": or_everything(rule.as_ref()) });
    post(asking, &format!("/rules/{position}"), &body).await
}

/// Shows limits that are set at run time, sets them, or takes them back.
pub(crate) async fn limit(command: &LimitCommand) -> Result<(), NotShown> {
    match command {
        LimitCommand::List(asking) => get(asking, "/limits").await,
        LimitCommand::Set(Setting { counter, rate, burst, max, duration }) => {
            let Counter { rule, values, asking } = counter;
            let body = json!({
                "rule": rule,
                "values": values,
                "rate": rate,
                "burst": burst,
                "max": max,
                "for": duration,
            });
            post(asking, "/limits/set", &body).await
        }
        LimitCommand::Clear(Clearing { rule, values, asking, .. }) => {
            let body = json!({ "rule": or_everything(rule.as_ref()), "values": values });
            post(asking, "/limits/clear", &body).await
        }
    }
}

/// Shows a counter, or has it begin anew.
pub(crate) async fn key(command: &KeyCommand) -> Result<(), NotShown> {
    let (path, Counter { rule, values, asking }) = match command {
        KeyCommand::Show(counter) => ("/keys/show", counter),
        KeyCommand::Reset(counter) => ("/keys/reset", counter),
    };
    post(asking, path, &json!({ "rule": rule, "values": values })).await
}

/// Without a rule, everything is meant: the command line wants one of the two.
fn or_everything(rule: Option<&String>) -> &str {
    rule.map_or(EVERYTHING, String::as_str)
}

async fn get(asking: &Asking, path: &str) -> Result<(), NotShown> {
    ask(asking, Method::GET, path, String::new()).await
}

async fn post(asking: &Asking, path: &str, body: &Value) -> Result<(), NotShown> {
    ask(asking, Method::POST, path, body.to_string()).await
}

async fn ask(asking: &Asking, method: Method, path: &str, body: String) -> Result<(), NotShown> {
    let Asking { admin, json } = asking;
    let format = if *json { Format::Json } else { Format::Text };
    show(admin, &Question { method, path: path.to_owned(), format, body }).await
}
