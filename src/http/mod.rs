//! The HTTP doors: `/json`, the probes and the metrics for everybody; for the operator the rules, the pools and what
//! rules in shadow would refuse.

mod caller;
mod host;
mod json;
mod metrics;
mod orders;
mod pools;
mod shadow_report;
mod token;

pub use caller::Caller;
pub use json::Json;
pub use metrics::Scrapes;
pub use token::{InvalidToken, Token, TokenSource};

use crate::{
    budget::Budget,
    decider::{Decider, switch_in_words},
    grpc::Service,
    reload::Reloads,
    rules::{self, NotMeant},
    services::OptionalService,
    store::Condition,
    unit::count,
};
use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::Value;
use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tonic::Status;

/// The media type of JSON.
const JSON: &str = "application/json";

/// Whether this process should be sent requests: it has its rules and listens, and it is not about to
/// leave. Nothing else ever makes it unready.
#[derive(Debug, Clone)]
pub struct Readiness {
    is_draining: Arc<AtomicBool>,
    reloads: Arc<Reloads>,
}

impl Readiness {
    /// Ready, and telling of rules that cannot be loaded.
    pub fn new(reloads: Arc<Reloads>) -> Self {
        Self { is_draining: Arc::default(), reloads }
    }

    /// No more requests, please.
    pub fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    fn is_ready(&self) -> bool {
        !self.is_draining.load(Ordering::Relaxed)
    }
}

/// The door for everybody; but where certificates are asked for, only those may ask for a decision who have
/// shown one. Probes have none.
pub fn public(
    service: Service,
    json: Json,
    readiness: Readiness,
    decider: Arc<Decider>,
    budget: Budget,
    asks_certificates: bool,
    serves_json: bool,
) -> Router {
    let mut decide = if serves_json {
        post(json::should_rate_limit).with_state((service, json, budget))
    } else {
        post(|| off("POST /json", OptionalService::Json))
    };
    if asks_certificates {
        decide = decide.layer(middleware::from_fn(caller::known_only));
    }
    Router::new()
        .route("/json", decide)
        .route("/healthcheck", get(|| async { "OK" }))
        .route("/ready", get(ready).with_state((readiness, decider)))
}

/// What is answered in the place of something that is switched off.
async fn off(what: &'static str, which: OptionalService) -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, format!("{}\n", which.switched_off(what)))
}

/// Who may ask at the door for the operator. All that is said here is demanded.
#[derive(Clone, Default)]
pub struct AdminAccess {
    /// The door is on loopback, and is to be called so.
    pub is_loopback: bool,
    /// A certificate is to be shown, with a name that may ask.
    pub asks_certificates: bool,
    /// This token is to be brought.
    pub token: Option<Token>,
}

/// The door for the operator. What else is found there is protected in the same way.
pub fn admin(decider: Arc<Decider>, access: AdminAccess, more: Router) -> Router {
    let mut router = Router::new()
        .route("/rlconfig", get(rules_in_force))
        .route("/pools", get(pools::show))
        .merge(orders::router())
        .route("/shadow-report", get(shadow_report::show))
        .with_state(decider)
        .merge(more);
    // The last is asked first.
    if let Some(token) = access.token {
        router = router.layer(middleware::from_fn_with_state(token, with_token));
    }
    if access.asks_certificates {
        router = router.layer(middleware::from_fn(caller::known_only));
    }
    if access.is_loopback {
        router = router.layer(middleware::from_fn(host::loopback_only));
    }
    router
}

/// Lets those ask who bring the token.
async fn with_token(State(token): State<Token>, request: Request, next: Next) -> Response {
    if token.is_in(request.headers()) {
        return next.run(request).await;
    }
    let why = "this port wants its token: send `authorization: Bearer <token>`; the command takes it from --admin-token-file, or from TOLLGATE_ADMIN_TOKEN\n";
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], why).into_response()
}

/// A store that cannot be used, and rules that cannot be loaded, are told, but are no reason to be sent no
/// requests: other replicas have the same, and the rules in force are good ones.
async fn ready(
    State((readiness, decider)): State<(Readiness, Arc<Decider>)>,
) -> (StatusCode, String) {
    let (code, mut body) = if readiness.is_ready() {
        (StatusCode::OK, "ready\n".to_owned())
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned())
    };
    let Condition { down, refusing, .. } = decider.store().condition();
    if let Some(reason) = down {
        let _ = writeln!(body, "the store cannot be used: {reason}");
    } else if let Some(reason) = refusing {
        let _ = writeln!(body, "the store refuses requests: {reason}");
    }
    if let Some(words) = readiness.reloads.in_words() {
        body.push_str(&words);
    }
    (code, body)
}

/// The rules, as a tree for people or, asked for `application/json`, as JSON.
async fn rules_in_force(State(decider): State<Arc<Decider>>, headers: HeaderMap) -> Response {
    let rules_in_force = decider.rules();
    let (domains, orders) = (rules_in_force.domains(), rules_in_force.orders());
    if wants_json(&headers) {
        let rules = serde_json::json!({
            "domains": rules::describe::domains_json(domains),
            "rules": rules::describe::json(domains),
            "switches": orders.switches,
            "limits_set": orders.limits.len(),
        });
        axum::Json(rules).into_response()
    } else {
        let mut text = rules::describe::tree(domains);
        for (path, switch) in &orders.switches {
            let _ = writeln!(text, "at run time {path} was switched {}", switch_in_words(*switch));
        }
        if !orders.limits.is_empty() {
            let set = count(orders.limits.len() as u64, "limit");
            let _ = writeln!(text, "{set} set at run time: see /limits");
        }
        text.into_response()
    }
}

/// Whether a program asks, and not a person at a terminal.
fn wants_json(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accepts.is_some_and(|accepts| accepts.contains(JSON))
}

/// What the operator is answered, in the form that is asked for: a value for programs, a text for people; or why
/// not.
fn answer(headers: &HeaderMap, answer: Result<(Value, String), Status>) -> Response {
    let wants_json = wants_json(headers);
    match answer {
        Ok((value, _)) if wants_json => axum::Json(value).into_response(),
        Ok((_, text)) => text.into_response(),
        Err(status) if wants_json => json::refuse(&status),
        Err(status) => {
            (json::http_code(&status), format!("{}\n", status.message())).into_response()
        }
    }
}

/// What an operator reads whose words mean nothing that there is, or several things.
fn not_meant(error: &NotMeant) -> Status {
    match error {
        NotMeant::Nothing { .. } => Status::not_found(error.to_string()),
        _ => Status::invalid_argument(error.to_string()),
    }
}
