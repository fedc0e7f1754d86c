//! What is answered when the store did not decide, or a bug of ours kept it from being asked: what each rule
//! wants done then.
//!
//! A check of a rule that allows passes; one of a rule that denies is over; and one of a rule that limits
//! locally is decided by this process's own memory, at the limit's share of one replica. What that amounts to
//! for the request is said by the same rule as ever (`verdict.rs`), so shadow mode, quotas and all-or-nothing
//! hold as usual. Nothing is held: there is nobody to hold it.

#[cfg(test)]
mod tests;

use super::{Asked, Decider};
use crate::{
    decision::{Code, Decision, Status},
    lease::Leased,
    limiter::{Cost, Wait},
    request::Request,
    rules::{OnStoreFailure, Resolution, Rules},
    verdict::{Answer, Check, Outcome, Question, Sum, Verdict},
};
use serde_json::Map;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
};

/// How soon to ask again whom a rule denied for want of a store, in microseconds.
const ASK_AGAIN_US: u64 = 1_000_000;

/// Of a check that passes because its rule allows; nobody knows what is left.
const ALLOWED: Outcome = Outcome::passes(0, 0);

/// Of a check that its rule denies.
const DENIED: Outcome = Outcome::over_for(Wait::Micros(ASK_AGAIN_US), ASK_AGAIN_US);

/// Requests that were answered without the store, since the process began. Each only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DegradedCounts {
    /// Those that were let pass.
    pub allowed: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Those of both that met a bug of ours.
    pub bugs: u64,
}

/// What counts them.
#[derive(Debug, Default)]
pub(super) struct Degraded {
    allowed: AtomicU64,
    refused: AtomicU64,
    bugs: AtomicU64,
}

impl Degraded {
    pub(super) fn counts(&self) -> DegradedCounts {
        DegradedCounts {
            allowed: self.allowed.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            bugs: self.bugs.load(Ordering::Relaxed),
        }
    }

    /// Counts a decision, if it was made without the store.
    pub(super) fn count(&self, decision: &Decision) {
        if decision.degraded {
            let is_allowed = decision.code == Code::Ok;
            let counter = if is_allowed { &self.allowed } else { &self.refused };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Decider {
    /// What the rules that a request meets want done without the store.
    pub(super) fn by_policy(
        &self,
        rules: &Rules,
        request: &Request,
        resolution: &Resolution<'_>,
    ) -> Asked {
        let checks = &resolution.question.checks;
        let default = rules.on_store_failure(&request.domain);
        let policies = policies(default.unwrap_or(self.modes.on_store_failure), resolution);
        let outcomes = checks.iter().zip(&policies).map(|(check, policy)| {
            match (policy, check.cost) {
                // To give back is never refused.
                (OnStoreFailure::Deny, Cost::Take(_) | Cost::Peek) => DENIED,
                _ => ALLOWED,
            }
        });
        let mut answer = Answer { outcomes: outcomes.collect(), leased: Leased::Nothing };
        self.limit_locally(&resolution.question, &policies, &mut answer);
        Asked { verdict: Verdict::of(checks, answer), taken: None, policies: Some(policies) }
    }

    /// Has the checks of rules that limit locally decided by this process's own memory. It is charged only
    /// where the request as a whole passes.
    fn limit_locally(&self, question: &Question, policies: &[OnStoreFailure], answer: &mut Answer) {
        let is_local = |policy: &OnStoreFailure| *policy == OnStoreFailure::Local;
        if !policies.iter().any(is_local) {
            return;
        }
        let others = question.checks.iter().zip(policies).zip(&answer.outcomes);
        let others = others.filter(|((_, policy), _)| !is_local(policy));
        let others = Sum::of(others.map(|((check, _), outcome)| (check, outcome)));
        let all = Sum::of(question.checks.iter().zip(&answer.outcomes));
        let is_refused = all.refusal().is_some();
        let replicas = self.modes.replicas.or_else(|| self.store.replicas()).unwrap_or(1);
        let local = |check: &Check| Check {
            limit: check.limit.shared_by(replicas),
            cost: match check.cost {
                Cost::Take(_) if is_refused && !check.limit.is_applied_if_refused(check.cost) => {
                    Cost::Peek
                }
                cost => cost,
            },
            // Where another quota is left, those that are over here are not the reason of a refusal.
            shadow_mode: check.shadow_mode || (check.quota_mode && others.a_quota_passes),
            ..*check
        };
        let checks = question.checks.iter().zip(policies).filter(|(_, policy)| is_local(policy));
        let checks = checks.map(|(check, _)| local(check)).collect();
        let local = Question::new(question.keys.clone(), checks);
        let decided = self.local.decide(self.clock.now(), &local).outcomes;
        let places = answer.outcomes.iter_mut().zip(policies);
        let places = places.filter(|(_, policy)| is_local(policy)).map(|(outcome, _)| outcome);
        for (outcome, decided) in places.zip(decided) {
            // What a share never lets pass, the whole may.
            let over = decided.over.map(|wait| match wait {
                Wait::Never => Wait::Micros(ASK_AGAIN_US),
                wait => wait,
            });
            *outcome = Outcome { over, ..decided };
        }
    }

    /// What is answered where a bug of ours kept a request from being decided.
    pub(super) fn despite_a_bug(&self, request: &Request) -> Decision {
        self.degraded.bugs.fetch_add(1, Ordering::Relaxed);
        let by_policy = || {
            let rules = self.rules();
            let resolution = rules.resolve(request, self.modes.quota);
            let asked = self.by_policy(&rules, request, &resolution);
            self.fold(&rules, request, &resolution, &asked)
        };
        // The bug may be in there as well.
        catch_unwind(AssertUnwindSafe(by_policy)).unwrap_or_else(|_| self.bare(request))
    }

    /// What is answered where not even the rules can be asked: what the process wants done.
    fn bare(&self, request: &Request) -> Decision {
        let is_refused = self.modes.on_store_failure == OnStoreFailure::Deny && !self.modes.shadow;
        let code = if is_refused { Code::OverLimit } else { Code::Ok };
        let status = Status { code, limit: None, remaining: 0, reset_s: None };
        Decision {
            code,
            delay_us: 0,
            statuses: vec![status; request.descriptors.len()],
            enforced_over: None,
            standings: Vec::new(),
            refused: is_refused.then(super::fold::refused_for_want_of_a_store),
            lease: None,
            metadata: Map::new(),
            degraded: true,
            limit_matched: false,
        }
    }
}

/// What each check's rule wants done.
fn policies(default: OnStoreFailure, resolution: &Resolution<'_>) -> Vec<OnStoreFailure> {
    let checks = resolution.question.checks.iter().zip(&resolution.rules);
    let policies = checks.map(|(check, placed)| {
        let said = placed.and_then(|placed| placed.rule.on_store_failure);
        said.unwrap_or_else(|| default.of_all(&check.limit))
    });
    policies.collect()
}
