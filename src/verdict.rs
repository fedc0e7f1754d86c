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
//! A store runs [`settle`] as one atomic step: in memory under its locks, in Redis as `lua/settle.lua`,
//! which is the same in Lua. What needs no state is said of its outcomes afterwards, by [`Verdict::of`].

#[cfg(test)]
mod tests;

use crate::{
    clock::Timestamp,
    key::Key,
    lease::{
        Attempt, By, Fingerprint, Found, Hold, InFlight, LeaseId, Leased, Record, Taking, Term,
    },
    limiter::{Checked, Cost, Limit, State, Wait},
    worker::{Settings, Worker, Workers},
};
use smallvec::SmallVec;
use std::borrow::Cow;

/// As many as a request usually has of something: so many stand where they are used, and cost no allocation.
pub type Few<T> = SmallVec<[T; 4]>;

/// What a request asks of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// The states that it is about, none twice; last the record of its lease, where it takes one.
    pub keys: Vec<Key>,
    /// The limits to check, in order.
    pub checks: Vec<Check>,
    /// The lease under which it takes what it takes; there wherever a check takes slots.
    pub taking: Option<Taking>,
    /// The generation of the rules that it follows.
    pub generation: u64,
}

/// What a rate was charged by a request that did not get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// Which of the request's states.
    pub slot: usize,
    /// The limit by which it was charged.
    pub limit: Limit,
    /// How much.
    pub amount: u64,
}

impl Question {
    /// A question that takes no lease.
    pub fn new(keys: Vec<Key>, checks: Vec<Check>) -> Self {
        Self { keys, checks, ..Self::default() }
    }

    /// Whether it takes slots, if it is admitted.
    pub fn takes_slots(&self) -> bool {
        self.checks.iter().any(|check| check.limit.slots(check.cost).is_some())
    }

    /// Whether any of it is settled even if it is refused.
    pub fn settles_regardless(&self) -> bool {
        self.checks.iter().any(|check| check.limit.is_applied_if_refused(check.cost))
    }

    /// Whether any of it depends on chance.
    pub fn draws(&self) -> bool {
        self.checks.iter().any(|check| check.limit.draws())
    }

    /// Has a number drawn for the request.
    pub fn draw(&mut self, number: u32) {
        for check in &mut self.checks {
            check.limit = check.limit.drawing(number);
        }
    }

    /// Has it refused where a limit would delay it for longer than so many microseconds; where it takes slots, also for
    /// longer than half of what their lease lasts, so that the rest is there when it goes on.
    pub fn delay_at_most(&mut self, most_us: u64) {
        let taking = self.taking.as_ref().filter(|_| self.takes_slots());
        let half_us = taking.map_or(u64::MAX, |taking| taking.term.as_micros() / 2);
        for check in &mut self.checks {
            check.limit = check.limit.within(most_us.min(half_us));
        }
    }

    /// How many checks would give back to limits on slots, which do not take hits back.
    pub fn refunds_of_slots(&self) -> u64 {
        let refunds = self
            .checks
            .iter()
            .filter(|check| check.limit.term().is_some() && matches!(check.cost, Cost::Refund(_)));
        refunds.count() as u64
    }

    /// Whether it is charged anything that can be given back to rates.
    pub fn charges(&self) -> bool {
        self.checks.iter().any(Check::is_charge)
    }

    /// What rates were charged that can be given back, where this is the answer. What is settled regardless was spent
    /// in any case, and what is held is given back by its lease.
    pub fn charged(&self, answer: Answer) -> Vec<Charge> {
        if matches!(answer.leased, Leased::Again { .. } | Leased::Conflict) {
            return Vec::new();
        }
        let Verdict { findings, refusal, .. } = Verdict::of(&self.checks, answer);
        if refusal.is_some() {
            return Vec::new();
        }
        let charges = self.checks.iter().zip(findings).filter_map(|(check, finding)| {
            let Cost::Take(amount) = check.cost else { return None };
            let is_charged = check.is_charge() && finding == Finding::Passed;
            is_charged.then_some(Charge { slot: check.slot, limit: check.limit, amount })
        });
        charges.collect()
    }

    /// Has it take what it takes under a lease, which lasts as long as every limit allows whose slots it
    /// takes, and no longer than `term`.
    pub fn take_under(
        &mut self,
        id: &LeaseId,
        (by, attempt): (By, Attempt),
        term: Option<Term>,
        fingerprint: Option<Fingerprint>,
    ) {
        let slot = self.keys.len();
        self.keys.push(id.key().clone());
        let takes = |check: &&mut Check| check.limit.slots(check.cost).is_some();
        let terms = self.checks.iter_mut().filter(takes).filter_map(|check| check.limit.term());
        let term = terms.chain(term).min().unwrap_or_default();
        for check in self.checks.iter_mut().filter(takes) {
            check.limit = check.limit.with_term(term);
        }
        self.taking = Some(Taking { slot, by, attempt, term, fingerprint });
    }
}

/// One limit to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// Which of the request's states it is about.
    pub slot: usize,
    /// The limit.
    pub limit: Limit,
    /// What the request wants of it.
    pub cost: Cost,
    /// Which of the request's keys tells the limit what the workers of its pool report, where it takes that.
    pub told_by: Option<usize>,
    /// Whether it is checked and charged but never refuses.
    pub shadow_mode: bool,
    /// Whether it refuses only together with all other quota limits of the request.
    pub quota_mode: bool,
}

impl Check {
    /// A check of a limit that is enforced by itself, and is told nothing.
    pub const fn of(slot: usize, limit: Limit, cost: Cost) -> Self {
        Self { slot, limit, cost, told_by: None, shadow_mode: false, quota_mode: false }
    }

    /// Whether it refuses by itself, where it is over.
    pub const fn is_enforced(&self) -> bool {
        !self.shadow_mode && !self.quota_mode
    }

    /// Whether it charges a rate what can be given back.
    pub fn is_charge(&self) -> bool {
        let takes = matches!(self.cost, Cost::Take(_));
        takes && self.limit.is_rate_limit() && !self.limit.is_applied_if_refused(self.cost)
    }

    /// When to ask again after a wait of this limit's. It says when a slot comes back by itself; but most
    /// are given back before.
    pub fn ask_again(&self, wait: Wait) -> Wait {
        match wait {
            Wait::Micros(micros) if self.limit.term().is_some() => {
                Wait::Micros(micros.min(ASK_AGAIN_US))
            }
            wait => wait,
        }
    }
}

/// What became of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// When its cost would pass; `None` where it does.
    pub over: Option<Wait>,
    /// Where it passes, after how many microseconds the request is to go on; 0 for at once.
    pub delay_us: u64,
    /// What is left: after this check where the request is admitted, in the store where it is refused,
    /// and 0 where the limit is over.
    pub remaining: u64,
    /// Microseconds until the limit is whole again.
    pub full_in_us: u64,
}

impl Outcome {
    /// Of a check that passes, and delays nothing.
    pub const fn passes(remaining: u64, full_in_us: u64) -> Self {
        Self { over: None, delay_us: 0, remaining, full_in_us }
    }

    /// Of a check whose limit is over for so long.
    pub const fn over_for(wait: Wait, full_in_us: u64) -> Self {
        Self { over: Some(wait), delay_us: 0, remaining: 0, full_in_us }
    }
}

/// What the atomic step found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// One for each check, in order.
    pub outcomes: Vec<Outcome>,
    /// What became of the lease.
    pub leased: Leased,
}

/// What became of the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// One for each check, in order.
    pub outcomes: Vec<Outcome>,
    /// What each check did to the request, in order.
    pub findings: Findings,
    /// What became of the lease.
    pub leased: Leased,
    /// Why it is refused; `None` where it is admitted.
    pub refusal: Option<Refusal>,
    /// Where it is admitted, after how many microseconds it is to go on; 0 for at once.
    pub delay_us: u64,
}

/// What one check did to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// It passed. Where the request is admitted, its limit is charged.
    Passed,
    /// Its limit is over, and the request is refused for it.
    Refused,
    /// Its limit is over and in shadow mode: the request would be refused for it.
    WouldRefuse,
    /// Its limit is over, and it is a quota, but another quota of the request passes. (A quota in shadow mode passes for
    /// an enforced one, but not for another one in shadow mode, unless it has room.)
    StoodAside,
    /// It gives back, which says nothing about what is left.
    GaveBack,
}

/// One for each check of a request.
pub type Findings = SmallVec<[Finding; 16]>;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The first check that refuses it.
    pub first: usize,
    /// When to ask again: when it would be admitted, if nobody else takes what it waits for; where it waits
    /// for a slot, which may come back at any moment, in a second.
    pub wait: Wait,
    /// Whether its quota limits refuse it: all of them are over.
    pub by_quotas: bool,
}

/// A state to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Which of the request's keys.
    pub slot: usize,
    /// What to keep; `None` to forget it now.
    pub kept: Option<Kept>,
    /// Whether the state is as it was, and only kept for longer, where it would be forgotten before.
    pub is_extension: bool,
}

/// A state, and how long it is worth keeping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The state.
    pub state: State,
    /// When it will equal one never used.
    pub fresh_at: Timestamp,
    /// Microseconds in which all that its limit allows would come back: measured by this, the time to
    /// `fresh_at` says how much of the limit is used.
    pub refill_us: u64,
}

impl Write {
    /// What to write of the record of a lease, if it has changed.
    pub fn of_record(slot: usize, before: Option<&Record>, record: Record) -> Option<Self> {
        if before.map_or(record.entries.is_empty(), |before| *before == record) {
            return None;
        }
        let fresh_at = record.fresh_at();
        Some(Self::of(slot, State::Lease(record.into()), fresh_at))
    }

    /// What to write of a state of slots.
    pub fn of_slots(slot: usize, state: InFlight) -> Self {
        let fresh_at = state.empty_at();
        Self::of(slot, State::InFlight(state.into()), fresh_at)
    }

    /// What to write of the workers of a pool.
    pub fn of_workers(slot: usize, state: Workers, settings: &Settings) -> Self {
        let fresh_at = state.fresh_at(settings);
        Self::of(slot, State::Workers(state.into()), fresh_at)
    }

    /// What to write of one of them.
    pub fn of_worker(slot: usize, state: Worker) -> Self {
        Self::of(slot, State::Worker(state), Some(state.deadline))
    }

    fn of(slot: usize, state: State, fresh_at: Option<Timestamp>) -> Self {
        let kept = fresh_at.map(|fresh_at| Kept { refill_us: refill_us(&state), state, fresh_at });
        Self { slot, kept, is_extension: false }
    }
}

/// What has a full store forget marks first, which do the least harm, and what is in flight last: without it a
/// limit on slots would begin anew.
fn refill_us(state: &State) -> u64 {
    match state.record() {
        Some(record) if record.holds_any() => 1_000,
        Some(_) => u64::MAX,
        None if state.is_of_rate() => u64::MAX,
        None => 1,
    }
}

/// How soon to ask again for slots, in microseconds.
const ASK_AGAIN_US: u64 = 1_000_000;

/// The atomic step, against states as they are stored, one for each key. Returns what it found, and what
/// to write.
pub fn settle(
    question: &Question,
    stored: &[Option<State>],
    now: Timestamp,
) -> (Answer, Few<Write>) {
    let Question { keys, checks, taking, .. } = question;
    let checks = &told(checks, stored, now);
    let mut states = Working::new(checks, stored, now);
    let mut record = taking.as_ref().map(|taking| {
        let stored = stored.get(taking.slot).and_then(Option::as_ref);
        Record::current(stored.and_then(State::record), now)
    });
    let found = match (taking, &record) {
        (Some(taking), Some(record)) => record.find(taking, now),
        _ => Found::Nothing,
    };
    let repeated = match found {
        Found::Same { deadline } => Some(Leased::Again { left_us: deadline - now }),
        Found::Other => Some(Leased::Conflict),
        Found::Nothing | Found::Early => None,
    };
    if let Some(leased) = repeated {
        // It was decided before.
        let outcomes = checks.iter().map(|check| left(check, &states, now)).collect();
        let repeats = taking.as_ref().zip(record).filter(|_| leased != Leased::Conflict);
        let write = repeats.and_then(|(taking, mut record)| {
            record.repeat(taking, now);
            let before = stored.get(taking.slot).and_then(Option::as_ref).and_then(State::record);
            Write::of_record(taking.slot, before, record)
        });
        return (Answer { outcomes, leased }, write.into_iter().collect());
    }
    let mut outcomes = run(checks, &mut states, now);
    let is_refused = Sum::of(checks.iter().zip(&outcomes)).refusal().is_some();
    if is_refused {
        states.begin_again(|_| true);
        let settled = checks.iter().filter(|check| check.limit.is_applied_if_refused(check.cost));
        for check in settled {
            check_one(check, &mut states, now);
        }
        for (check, outcome) in checks.iter().zip(&mut outcomes) {
            if outcome.over.is_none() {
                *outcome = left(check, &states, now);
            }
        }
    }
    let mut leased = Leased::Nothing;
    if let (Some(taking), Some(record)) = (taking, &mut record) {
        if found == Found::Early {
            states.begin_again(|limit| limit.term().is_some());
            record.take_early(taking);
        } else if is_refused {
            record.take_nothing(taking, now);
        } else {
            let taken = checks.iter().zip(&outcomes).filter(|(_, outcome)| outcome.over.is_none());
            let holds = taken.filter_map(|(check, _)| states.hold(check, keys)).collect();
            leased = record.take(taking, holds, now);
        }
    }
    let mut writes = states.writes(now);
    if let (Some(Taking { slot, .. }), Some(record)) = (taking, record) {
        let before = stored.get(*slot).and_then(Option::as_ref).and_then(State::record);
        writes.extend(Write::of_record(*slot, before, record));
    }
    (Answer { outcomes, leased }, writes)
}

/// The checks, once their limits know what workers report.
fn told<'a>(checks: &'a [Check], stored: &[Option<State>], now: Timestamp) -> Cow<'a, [Check]> {
    let mut checks = Cow::Borrowed(checks);
    if checks.iter().any(|check| check.told_by.is_some()) {
        for check in checks.to_mut() {
            let Some(slot) = check.told_by else { continue };
            check.limit = check.limit.told(stored.get(slot).and_then(Option::as_ref), now);
        }
    }
    checks
}

/// The states as a request changes them.
struct Working<'a> {
    checks: &'a [Check],
    stored: &'a [Option<State>],
    /// What is written whatever becomes of the request, by slot: states that lay too far ahead of the clock
    /// to be true, and would else stay so.
    pulled_back: Few<Option<State>>,
    /// What has become of them, by slot; `None` where nothing has.
    changed: Few<Option<State>>,
}

impl<'a> Working<'a> {
    fn new(checks: &'a [Check], stored: &'a [Option<State>], now: Timestamp) -> Self {
        let pulled_back = stored.iter().enumerate().map(|(slot, state)| {
            let Check { limit, .. } = checks.iter().find(|check| check.slot == slot)?;
            limit.clamped_to_now(state.as_ref()?, now)
        });
        let pulled_back: Few<_> = pulled_back.collect();
        Self { checks, stored, changed: pulled_back.clone(), pulled_back }
    }

    fn get(&self, slot: usize) -> Option<&State> {
        let changed = self.changed.get(slot).and_then(Option::as_ref);
        changed.or_else(|| self.stored.get(slot).and_then(Option::as_ref))
    }

    fn set(&mut self, slot: usize, state: State) {
        if let Some(changed) = self.changed.get_mut(slot) {
            *changed = Some(state);
        }
    }

    /// Undoes what was done to the states of some limits.
    fn begin_again(&mut self, of: impl Fn(&Limit) -> bool) {
        for check in self.checks.iter().filter(|check| of(&check.limit)) {
            let before = self.pulled_back.get(check.slot).cloned().flatten();
            if let Some(changed) = self.changed.get_mut(check.slot) {
                *changed = before;
            }
        }
    }

    /// What a check that passed has taken, if it took slots.
    fn hold(&self, check: &Check, keys: &[Key]) -> Option<Hold> {
        let slots = check.limit.slots(check.cost)?;
        let since = self.get(check.slot)?.in_flight()?.since;
        Some(Hold { key: keys.get(check.slot)?.clone(), since, slots })
    }

    /// What has changed, and until when it is worth keeping: as long as any limit of the request tells it
    /// from a state never used. What has not changed is kept as long as well: another limit may have stored it, and have
    /// needed less.
    fn writes(mut self, now: Timestamp) -> Few<Write> {
        let changed = std::mem::take(&mut self.changed).into_iter().zip(self.stored).enumerate();
        let writes = changed.filter_map(|(slot, (state, old))| match (state, old) {
            (Some(state), old) if old.as_ref() != Some(&state) => {
                let write = self.write(slot, state);
                // To forget what was never stored is to do nothing.
                (write.kept.is_some() || old.is_some()).then_some(write)
            }
            (_, Some(old)) if old.is_of_rate() => self.extension(slot, old.clone(), now),
            _ => None,
        });
        writes.collect()
    }

    fn limits(&self, slot: usize) -> impl Iterator<Item = &Limit> {
        let checks = self.checks.iter().filter(move |check| check.slot == slot);
        checks.map(|check| &check.limit)
    }

    fn write(&self, slot: usize, state: State) -> Write {
        let fresh = self
            .limits(slot)
            .filter_map(|limit| Some((limit.expires_at(&state)?, limit.refill_us_of(&state))));
        let kept = fresh.max_by_key(|(fresh_at, _)| *fresh_at);
        match kept {
            Some((fresh_at, refill_us)) if state.is_of_rate() => {
                let kept = Some(Kept { state, fresh_at, refill_us });
                Write { slot, kept, is_extension: false }
            }
            kept => Write::of(slot, state, kept.map(|(fresh_at, _)| fresh_at)),
        }
    }

    fn extension(&self, slot: usize, state: State, now: Timestamp) -> Option<Write> {
        let full = self
            .limits(slot)
            .map(|limit| (limit.full_in_us(Some(&state), now), limit.refill_us_of(&state)));
        let (full_in_us, refill_us) = full.max_by_key(|(full_in_us, _)| *full_in_us)?;
        let kept = Some(Kept { state, fresh_at: now + full_in_us, refill_us });
        (full_in_us > 0).then_some(Write { slot, kept, is_extension: true })
    }
}

impl Verdict {
    /// What the outcomes of checks amount to.
    pub fn of(checks: &[Check], answer: Answer) -> Self {
        let Answer { mut outcomes, leased } = answer;
        for (place, outcome) in outcomes.iter_mut().enumerate() {
            if outcome.over.is_some() && never_passes(checks, place) {
                outcome.over = Some(Wait::Never);
            }
        }
        let sum = Sum::of(checks.iter().zip(&outcomes));
        let found = checks.iter().zip(&outcomes);
        let findings: Findings =
            found.map(|(check, outcome)| sum.finding(check, outcome)).collect();
        let refusal = sum.refusal();
        let found = checks.iter().zip(&outcomes).zip(&findings);
        let delays = found.filter(|((check, _), finding)| {
            refusal.is_none() && !check.shadow_mode && **finding == Finding::Passed
        });
        let delay_us = delays.map(|((_, outcome), _)| outcome.delay_us).max().unwrap_or_default();
        Self { outcomes, findings, leased, refusal, delay_us }
    }

    /// The places of the keys whose slots it takes for the request to be admitted, where slots alone refuse
    /// it, and microseconds until they come back if nobody gives any back.
    pub fn waits_for(&self, checks: &[Check]) -> Option<(Vec<usize>, u64)> {
        let (mut slots, mut longest_us) = (Vec::new(), 0);
        let refused = checks.iter().zip(&self.outcomes).zip(&self.findings);
        for ((check, outcome), _) in refused.filter(|(_, found)| **found == Finding::Refused) {
            match outcome.over {
                Some(Wait::Micros(wait_us)) if check.limit.term().is_some() => {
                    slots.push(check.slot);
                    longest_us = longest_us.max(wait_us);
                }
                None | Some(_) => return None,
            }
        }
        self.refusal.map(|_| (slots, longest_us))
    }
}

/// What some checks of a request amount to. It is the one rule for verdicts.
#[derive(Debug, Default)]
pub struct Sum {
    /// Why they refuse the request by themselves.
    enforced: Option<Refusal>,
    /// Why quotas refuse it, unless one passes.
    quotas: Option<Refusal>,
    /// Whether a quota passes: it has room, or it is in shadow mode.
    pub a_quota_passes: bool,
    /// Whether a quota has room.
    a_quota_has_room: bool,
}

impl Sum {
    /// The sum of these checks, which are all of a request or some of them.
    pub fn of<'a>(checks: impl Iterator<Item = (&'a Check, &'a Outcome)>) -> Self {
        let mut sum = Self::default();
        for (place, (check, outcome)) in checks.enumerate() {
            // Giving back says nothing about what is left.
            if matches!(check.cost, Cost::Refund(_)) {
                continue;
            }
            let by_quotas = check.quota_mode;
            sum.a_quota_has_room |= by_quotas && outcome.over.is_none();
            let Some(wait) = outcome.over.filter(|_| !check.shadow_mode) else {
                sum.a_quota_passes |= by_quotas;
                continue;
            };
            let wait = check.ask_again(wait);
            let so_far = if by_quotas { &mut sum.quotas } else { &mut sum.enforced };
            let so_far = so_far.get_or_insert(Refusal { first: place, wait, by_quotas });
            // One quota that has room again is enough.
            so_far.wait = if by_quotas { so_far.wait.min(wait) } else { so_far.wait.max(wait) };
        }
        sum
    }

    /// Why the request is refused, if it is.
    pub fn refusal(&self) -> Option<Refusal> {
        match (self.enforced, self.quotas.filter(|_| !self.a_quota_passes)) {
            (Some(a), Some(b)) => {
                let (first, wait) = (a.first.min(b.first), a.wait.max(b.wait));
                Some(Refusal { first, wait, by_quotas: true })
            }
            (a, b) => a.or(b),
        }
    }

    /// What one of them did to the request.
    const fn finding(&self, check: &Check, outcome: &Outcome) -> Finding {
        let is_aside = check.quota_mode
            && if check.shadow_mode { self.a_quota_has_room } else { self.a_quota_passes };
        match outcome.over {
            _ if matches!(check.cost, Cost::Refund(_)) => Finding::GaveBack,
            None => Finding::Passed,
            Some(_) if is_aside => Finding::StoodAside,
            Some(_) if check.shadow_mode => Finding::WouldRefuse,
            Some(_) => Finding::Refused,
        }
    }
}

/// Runs every check in order, on states that change as they go.
fn run(checks: &[Check], states: &mut Working<'_>, now: Timestamp) -> Vec<Outcome> {
    checks
        .iter()
        .map(|check| {
            let (over, delay_us) = check_one(check, states, now);
            let outcome = left(check, states, now);
            match over {
                None => Outcome { delay_us, ..outcome },
                Some(wait) => Outcome::over_for(wait, outcome.full_in_us),
            }
        })
        .collect()
}

/// Runs a check. Returns when it would pass, and for how long it delays the request where it does.
fn check_one(check: &Check, states: &mut Working<'_>, now: Timestamp) -> (Option<Wait>, u64) {
    let Checked { state, over, delay_us } =
        check.limit.check(states.get(check.slot), now, check.cost);
    if let Some(state) = state {
        states.set(check.slot, state);
    }
    (over, delay_us)
}

fn left(check: &Check, states: &Working<'_>, now: Timestamp) -> Outcome {
    let state = states.get(check.slot);
    Outcome::passes(check.limit.remaining(state, now), check.limit.full_in_us(state, now))
}

/// Whether a check would be over even on a state never used: because of its own cost, or because of
/// what the checks before it take from the same state.
fn never_passes(checks: &[Check], place: usize) -> bool {
    // A state never used is the same at any time.
    let now = Timestamp::default();
    let Some(this) = checks.get(place) else { return false };
    let mut state: Option<State> = None;
    let mut over = None;
    for check in checks.iter().take(place + 1).filter(|check| check.slot == this.slot) {
        // How long the caller would wait for a delay is another matter.
        let checked = check.limit.within(u64::MAX).check(state.as_ref(), now, check.cost);
        state = checked.state.or(state);
        over = checked.over;
    }
    over.is_some()
}
