//! What an operator says at run time, and asks of single counters: `/rules`, `/limits`, `/keys`.
//!
//! What changes something is a POST of JSON, and of nothing else: a page in a browser on the operator's machine can
//! have it post a form to whatever listens there, but not JSON.

mod words;

use super::{answer, not_meant};
use crate::{
    config,
    decider::{Decider, NotOrdered},
    limiter::{self, Limit},
    order::{EVERYTHING, Position},
};
use axum::{
    Router,
    extract::{DefaultBodyLimit, Path, State, rejection::JsonRejection},
    http::HeaderMap,
    response::Response,
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use tonic::Status;

/// The largest body, in bytes.
const LARGEST_BODY: usize = 64 << 10;

/// What is asked at these paths.
pub(super) fn router() -> Router<Arc<Decider>> {
    Router::new()
        .route("/rules", get(rules))
        .route("/rules/{position}", post(switch))
        .route("/limits", get(limits))
        .route("/limits/set", post(set))
        .route("/limits/clear", post(clear))
        .route("/keys/show", post(show))
        .route("/keys/reset", post(reset))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
}

/// What to switch: the path of a rule, a name that one rule has, a domain, or `*`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Switching {
    rule: String,
}

/// Which counter of which rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meant {
    rule: String,
    /// Each as `key=value`.
    #[serde(default)]
    values: Vec<String>,
}

/// The limit of which counter of which rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    rule: String,
    #[serde(default)]
    values: Vec<String>,
    rate: Option<String>,
    burst: Option<u32>,
    max: Option<u32>,
    #[serde(rename = "for")]
    duration: Option<String>,
}

type Sent<T> = Result<axum::Json<T>, JsonRejection>;

fn read<T>(sent: Sent<T>) -> Result<T, Status> {
    sent.map(|axum::Json(sent)| sent).map_err(|error| Status::invalid_argument(error.body_text()))
}

/// Why an order is not obeyed, or a counter not shown.
fn refused(decider: &Decider, error: NotOrdered) -> Status {
    match error {
        NotOrdered::NotMeant(error) => not_meant(&error),
        NotOrdered::Store(error) => Status::unavailable(decider.in_words(&error)),
        error => Status::invalid_argument(error.to_string()),
    }
}

async fn rules(State(decider): State<Arc<Decider>>, headers: HeaderMap) -> Response {
    answer(&headers, Ok((words::rules_json(&decider), words::rules(&decider))))
}

async fn switch(
    State(decider): State<Arc<Decider>>,
    Path(position): Path<String>,
    headers: HeaderMap,
    sent: Sent<Switching>,
) -> Response {
    let switching = async {
        let Switching { rule } = read(sent)?;
        let position = Position::named(&position).ok_or_else(|| {
            let names = Position::ALL.map(Position::name).join(", ");
            Status::invalid_argument(format!(
                "{position:?} is no position of a switch: use one of {names}"
            ))
        })?;
        let switched =
            decider.switch(&rule, position).await.map_err(|error| refused(&decider, error))?;
        Ok((words::switched_json(&decider, &switched), words::switched(&decider, &switched)))
    };
    answer(&headers, switching.await)
}

async fn limits(State(decider): State<Arc<Decider>>, headers: HeaderMap) -> Response {
    let limits = decider.limits_set();
    answer(&headers, Ok((words::limits_json(&limits), words::limits(&limits))))
}

async fn set(
    State(decider): State<Arc<Decider>>,
    headers: HeaderMap,
    sent: Sent<Setting>,
) -> Response {
    let setting = async {
        let setting = read(sent)?;
        let set_to = setting.setting()?;
        let for_us = match &setting.duration {
            None => None,
            Some(text) => match config::duration(text) {
                Ok(0) => return Err(Status::invalid_argument("`for` is no time at all")),
                Ok(micros) => Some(micros),
                Err(error) => return Err(Status::invalid_argument(format!("`for`: {error}"))),
            },
        };
        let Setting { rule, values, .. } = setting;
        let (counter, reach) = decider
            .set_limit(&rule, &values, Some((set_to, for_us)))
            .await
            .map_err(|error| refused(&decider, error))?;
        Ok((words::set_json(&counter, &reach), words::set(&counter, for_us, &reach)))
    };
    answer(&headers, setting.await)
}

async fn clear(
    State(decider): State<Arc<Decider>>,
    headers: HeaderMap,
    sent: Sent<Meant>,
) -> Response {
    let clearing = async {
        let Meant { rule, values } = read(sent)?;
        // All of them, or that of a counter by its path, as the list has it: its rule may be gone.
        let mut paths: Vec<String> = decider.limits_set().into_iter().map(|it| it.path).collect();
        if rule != EVERYTHING {
            paths.retain(|path| *path == rule && values.is_empty());
        }
        if rule == EVERYTHING || !paths.is_empty() {
            let reach =
                decider.clear_limits(&paths).await.map_err(|error| refused(&decider, error))?;
            return Ok((words::cleared_json(&paths, &reach), words::cleared(paths.len(), &reach)));
        }
        let (counter, reach) = decider
            .set_limit(&rule, &values, None)
            .await
            .map_err(|error| refused(&decider, error))?;
        Ok((words::set_json(&counter, &reach), words::set(&counter, None, &reach)))
    };
    answer(&headers, clearing.await)
}

async fn show(
    State(decider): State<Arc<Decider>>,
    headers: HeaderMap,
    sent: Sent<Meant>,
) -> Response {
    let showing = async {
        let Meant { rule, values } = read(sent)?;
        let view =
            decider.look_at(&rule, &values).await.map_err(|error| refused(&decider, error))?;
        Ok((words::counter_json(&view), words::counter(&view)))
    };
    answer(&headers, showing.await)
}

async fn reset(
    State(decider): State<Arc<Decider>>,
    headers: HeaderMap,
    sent: Sent<Meant>,
) -> Response {
    let resetting = async {
        let Meant { rule, values } = read(sent)?;
        let counter =
            decider.reset(&rule, &values).await.map_err(|error| refused(&decider, error))?;
        let text = format!("{} begins anew\n", counter.path);
        Ok((json!({ "counter": counter.path, "reset": true }), text))
    };
    answer(&headers, resetting.await)
}

impl Setting {
    fn setting(&self) -> Result<limiter::Setting, Status> {
        let invalid = |why: &str| Err(Status::invalid_argument(why));
        match (&self.rate, self.burst, self.max) {
            (Some(rate), burst, None) => {
                let rate = config::rate(rate).map_err(Status::invalid_argument)?;
                Ok(limiter::Setting { rate: Some(rate), burst, max: None })
            }
            (None, None, max @ Some(_)) => Ok(limiter::Setting { max, ..Default::default() }),
            (None, Some(_), _) => invalid("a burst wants a rate: say how fast it refills"),
            (Some(_), _, Some(_)) => invalid("a limit has a rate, or a `max`, but not both"),
            (None, None, None) => invalid("say how much: a rate such as 500/s, or a `max`"),
        }
    }
}

/// What a limit does, in a few words: `token_bucket 100 per second`.
fn what(limit: &Limit) -> String {
    format!("{} {}", limit.limiter(), limit.in_words())
}
