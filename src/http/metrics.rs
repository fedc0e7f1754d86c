//! `GET /metrics`: what is counted, in Prometheus's text format.

use super::{caller, off};
use crate::{services::OptionalService, telemetry::Metrics};
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::Semaphore, task, time};

/// The media type, with the version of the format. Who can read others can read this one.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How many may be written at a time. Where there are many rules, each takes some megabytes and a core for a
/// while; more would only slow each other, and the decisions.
const AT_A_TIME: usize = 1;

/// The most that wait for that.
const MOST_WAITING: usize = 8;

/// How long one may wait for it. Prometheus gives up after 10 s, unless told otherwise.
const LONGEST_WAIT: Duration = Duration::from_secs(8);

/// Writes the metrics, one at a time, whatever doors they are asked for at.
#[derive(Clone)]
pub struct Scrapes {
    metrics: Arc<Metrics>,
    writers: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Scrapes {
    /// Of these metrics.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        let writers = Arc::new(Semaphore::new(AT_A_TIME));
        let waiting = Arc::new(Semaphore::new(AT_A_TIME + MOST_WAITING));
        Self { metrics, writers, waiting }
    }

    /// The route to them. Where certificates are asked for, only those get them who have shown one.
    pub fn route(self, asks_certificates: bool) -> Router {
        let mut show = get(show).with_state(self);
        if asks_certificates {
            show = show.layer(middleware::from_fn(caller::known_only));
        }
        Router::new().route("/metrics", show)
    }

    /// What stands in the place of the route where it is switched off.
    pub fn switched_off() -> Router {
        Router::new().route("/metrics", get(|| off("GET /metrics", OptionalService::Metrics)))
    }

    /// All metrics, or why not; `None` where too many others ask.
    async fn write(self) -> Option<Result<String, String>> {
        let Self { metrics, writers, waiting } = self;
        let _place = waiting.try_acquire().ok()?;
        let turn = time::timeout(LONGEST_WAIT, writers.acquire_owned()).await.ok()?.ok()?;
        // It would hold up the decisions that have the same thread. Who leaves meanwhile does not free the
        // turn: the work goes on.
        let written = task::spawn_blocking(move || {
            let text = metrics.text();
            drop(turn);
            text
        });
        Some(match written.await {
            Ok(text) => text.map_err(|error| error.to_string()),
            Err(_) => Err("this is a bug of tollgate: its log says where".to_owned()),
        })
    }
}

async fn show(State(scrapes): State<Scrapes>) -> Response {
    match scrapes.write().await {
        Some(Ok(text)) => ([(header::CONTENT_TYPE, TEXT)], text).into_response(),
        Some(Err(why)) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{why}\n")).into_response(),
        None => {
            let why = "too many ask for metrics at a time: scrape less often\n";
            (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
        }
    }
}
