//! The verdict: whether a request passes all the limits it meets, and what each of them is left with.
//!
//! All or nothing. The checks run in order on working copies, so that two on one state see each other;
//! then one rule settles the whole:
//!
//! - refused, when an enforced limit is over, or when there are quota limits and all of them are over;
//! - refused, nothing is written but what is settled regardless: refunds, and costs known afterwards;
//! - admitted, every limit that is not over is charged.
//!
//! A limit in shadow mode is checked and charged like any other, but is never the reason of a refusal.
//!
//! A store runs [`settle`] as one atomic step: in memory under its locks, in Redis as `lua/request.lua`,
//! which is the same in Lua. What needs no state is said of its outcomes afterwards, by [`Verdict::of`].

#[cfg(test)]
mod tests;

use crate::{
    clock::Timestamp,
    limiter::{Cost, Limit, State, Wait},
};

/// One limit to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// Which of the request's states it is about.
    pub slot: usize,
    /// The limit.
    pub limit: Limit,
    /// What the request wants of it.
    pub cost: Cost,
    /// Whether it is checked and charged but never refuses.
    pub shadow_mode: bool,
    /// Whether it refuses only together with all other quota limits of the request.
    pub quota_mode: bool,
}

/// What became of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// When its cost would pass; `None` where it does.
    pub over: Option<Wait>,
    /// What is left: after this check where the request is admitted, in the store where it is refused,
    /// and 0 where the limit is over.
    pub remaining: u64,
    /// Microseconds until the limit is whole again.
    pub full_in_us: u64,
}

/// What became of the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// One for each check, in order.
    pub outcomes: Vec<Outcome>,
    /// Why it is refused; `None` where it is admitted.
    pub refusal: Option<Refusal>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The first check that refuses it.
    pub first: usize,
    /// When it would be admitted, if nobody else takes what it waits for.
    pub wait: Wait,
    /// Whether its quota limits refuse it: all of them are over.
    pub by_quotas: bool,
}

/// A state to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Which of the request's states.
    pub slot: usize,
    /// What to keep; `None` to forget it now.
    pub kept: Option<Kept>,
}

/// A state, and how long it is worth keeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// The state.
    pub state: State,
    /// When it will equal one never used.
    pub fresh_at: Timestamp,
    /// Microseconds in which all that its limit allows would come back: measured by this, the time to
    /// `fresh_at` says how much of the limit is used.
    pub refill_us: u64,
}

/// The atomic step: checks, against states as they are stored. Returns what became of each check, and
/// what to write.
pub fn settle(
    checks: &[Check],
    stored: &[Option<State>],
    now: Timestamp,
) -> (Vec<Outcome>, Vec<Write>) {
    // Written whatever becomes of the request: it is no charge, and a state far ahead would else stay so.
    let before: Vec<Option<State>> =
        stored.iter().map(|state| state.map(|state| state.pulled_back(now))).collect();
    let mut states = before.clone();
    let mut outcomes = run(checks, &mut states, now);
    if refusal(checks, &outcomes).is_some() {
        states = before;
        let settled = checks.iter().filter(|check| check.limit.is_settled_regardless(check.cost));
        for check in settled {
            check_one(check, &mut states, now);
        }
        for (check, outcome) in checks.iter().zip(&mut outcomes) {
            if outcome.over.is_none() {
                *outcome = left(check, &states, now);
            }
        }
    }
    let writes = writes(checks, stored, &states);
    (outcomes, writes)
}

impl Verdict {
    /// What the outcomes of checks amount to.
    pub fn of(checks: &[Check], mut outcomes: Vec<Outcome>) -> Self {
        for (place, outcome) in outcomes.iter_mut().enumerate() {
            if outcome.over.is_some() && never_passes(checks, place) {
                outcome.over = Some(Wait::Never);
            }
        }
        let refusal = refusal(checks, &outcomes);
        Self { outcomes, refusal }
    }
}

/// Who refuses, if anybody does: the one rule for verdicts.
fn refusal(checks: &[Check], outcomes: &[Outcome]) -> Option<Refusal> {
    let mut enforced: Option<Refusal> = None;
    let mut quota: Option<Refusal> = None;
    let mut quota_passes = false;
    for (place, (check, outcome)) in checks.iter().zip(outcomes).enumerate() {
        let over = outcome.over.filter(|_| !check.shadow_mode);
        match (check.quota_mode, over) {
            // Giving back says nothing about what is left.
            _ if matches!(check.cost, Cost::Refund(_)) => {}
            (false, None) => {}
            (true, None) => quota_passes = true,
            (false, Some(wait)) => {
                let so_far =
                    enforced.get_or_insert(Refusal { first: place, wait, by_quotas: false });
                so_far.wait = so_far.wait.max(wait);
            }
            // One quota that has room again is enough.
            (true, Some(wait)) => {
                let so_far = quota.get_or_insert(Refusal { first: place, wait, by_quotas: true });
                so_far.wait = so_far.wait.min(wait);
            }
        }
    }
    match (enforced, quota.filter(|_| !quota_passes)) {
        (Some(a), Some(b)) => {
            Some(Refusal { first: a.first.min(b.first), wait: a.wait.max(b.wait), by_quotas: true })
        }
        (a, b) => a.or(b),
    }
}

/// Runs every check in order, on states that change as they go.
fn run(checks: &[Check], states: &mut [Option<State>], now: Timestamp) -> Vec<Outcome> {
    checks
        .iter()
        .map(|check| {
            let over = check_one(check, states, now);
            let outcome = left(check, states, now);
            match over {
                None => outcome,
                Some(_) => Outcome { over, remaining: 0, ..outcome },
            }
        })
        .collect()
}

fn check_one(check: &Check, states: &mut [Option<State>], now: Timestamp) -> Option<Wait> {
    let state = states.get_mut(check.slot)?;
    let checked = check.limit.check(*state, now, check.cost);
    if checked.state.is_some() {
        *state = checked.state;
    }
    checked.over
}

fn left(check: &Check, states: &[Option<State>], now: Timestamp) -> Outcome {
    let state = states.get(check.slot).copied().flatten();
    Outcome {
        over: None,
        remaining: check.limit.remaining(state, now),
        full_in_us: check.limit.full_in_us(state, now),
    }
}

/// Whether a check would be over even on a state never used: because of its own cost, or because of
/// what the checks before it take from the same state.
fn never_passes(checks: &[Check], place: usize) -> bool {
    // A state never used is the same at any time.
    let now = Timestamp::default();
    let Some(this) = checks.get(place) else { return false };
    let mut unused = [None];
    let mut over = None;
    for check in checks.iter().take(place + 1).filter(|check| check.slot == this.slot) {
        over = check_one(&Check { slot: 0, ..*check }, &mut unused, now);
    }
    over.is_some()
}

/// What has changed, and until when it is worth keeping: as long as any limit of the request tells it
/// from a state never used.
fn writes(checks: &[Check], stored: &[Option<State>], states: &[Option<State>]) -> Vec<Write> {
    let changed = stored.iter().zip(states).enumerate().filter(|(_, (old, new))| old != new);
    changed
        .map(|(slot, (_, state))| {
            let kept = state.and_then(|state| {
                let limits = checks.iter().filter(|check| check.slot == slot);
                let kept = limits.filter_map(|Check { limit, .. }| {
                    let fresh_at = limit.fresh_at(&state)?;
                    Some(Kept { state, fresh_at, refill_us: limit.refill_us() })
                });
                kept.max_by_key(|kept| kept.fresh_at)
            });
            Write { slot, kept }
        })
        .collect()
}
