//! Random histories: requests of all kinds of limits, under leases of all kinds, releases and renewals, and
//! what befalls a store: clocks set back, states lost.

use crate::{
    clock::Timestamp,
    key::{Key, Path},
    lease::{
        Attempt, By, Entry, Fingerprint, Hold, Kind, LeaseId, MOST_ENTRIES, Record, Release, Slots,
        Term,
        samples::{EXACT_US, any_term_us},
    },
    limiter::{
        self, Cost, Limit, State,
        samples::{Samples, any_delay_us, any_instant_us, any_limit},
    },
    verdict::{Check, Question},
    worker::{
        Report, Worker,
        samples::{any_instant, any_load, any_report},
    },
};
use proptest::{prelude::*, strategy::Union};

pub(super) const SECOND: i64 = 1_000_000;
pub(super) const YEAR: i64 = 365 * 86_400 * SECOND;

/// Something that happens, and how much time has passed before it.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) step_us: i64,
    pub(super) what: What,
}

#[derive(Debug, Clone)]
pub(super) enum What {
    Ask(Vec<Asking>, Option<Taking>),
    Release {
        id: usize,
        what: Release,
    },
    Renew {
        id: usize,
        term_us: Option<u64>,
    },
    Report {
        name: usize,
        worker: usize,
        report: Report,
    },
    /// A state is lost, as when somebody deletes it.
    Lose(usize),
}

/// A check of one of a few states.
#[derive(Debug, Clone)]
pub(super) struct Asking {
    pub(super) name: usize,
    limit: Limit,
    cost: Cost,
    /// The longest delay that the caller accepts, in microseconds.
    most_delay_us: Option<u64>,
    shadow_mode: bool,
    quota_mode: bool,
}

impl Asking {
    /// Whether it takes something, and not nothing or back.
    pub(super) fn takes(&self) -> bool {
        matches!(self.cost, Cost::Take(_))
    }
}

/// A lease under one of a few ids.
#[derive(Debug, Clone)]
pub(super) struct Taking {
    id: usize,
    by: By,
    attempt: Attempt,
    term_us: Option<u64>,
    fingerprint: Option<u8>,
}

/// How many states of each limiter there are, and how many leases.
const NAMES: usize = 2;
const IDS: usize = 4;

/// How many workers each pool has.
const WORKERS: usize = 3;

/// What the key of a pool's workers has in the place of a limiter.
const POOL: &str = "utilization";

pub(super) fn key(limiter: &str, name: usize) -> Key {
    let mut path = Path::of_domain(b"twins");
    path.push_value(b"key", name.to_string().as_bytes());
    Key::new(limiter, &path)
}

/// The keys of a report: those of the pool's workers, and of the worker.
pub(super) fn report_keys(name: usize, worker: usize) -> [Key; 2] {
    [key(POOL, name), key("worker", 10 * name + worker)]
}

pub(super) fn id(number: usize) -> LeaseId {
    LeaseId::chosen(&number.to_string()).unwrap()
}

/// All keys that a history may touch.
pub(super) fn keys() -> Vec<Key> {
    let states =
        limiter::NAMES.iter().flat_map(|limiter| (0..NAMES).map(|name| key(limiter, name)));
    let workers = (0..NAMES).flat_map(|name| {
        (0..WORKERS).map(move |worker| {
            let [_, worker] = report_keys(name, worker);
            worker
        })
    });
    states.chain(workers).chain((0..IDS).map(|number| id(number).key().clone())).collect()
}

/// The state that is lost by this number.
pub(super) fn lost(number: usize) -> Key {
    keys()[number % keys().len()].clone()
}

impl What {
    /// The question that is asked, where one is.
    pub(super) fn question(&self) -> Option<Question> {
        let Self::Ask(asked, taking) = self else { return None };
        let mut question = Question::default();
        for asking in asked.iter().cloned() {
            let Asking { name, limit, cost, most_delay_us, shadow_mode, quota_mode } = asking;
            let limit = most_delay_us.map_or(limit, |most_us| limit.within(most_us));
            let mut slot = |limiter: &str| {
                let key = key(limiter, name);
                let found = question.keys.iter().position(|known| *known == key);
                found.unwrap_or_else(|| {
                    question.keys.push(key);
                    question.keys.len() - 1
                })
            };
            let told_by = limit.is_told().then(|| slot(POOL));
            let slot = slot(limit.limiter());
            let cost = limit.charge(cost);
            question.checks.push(Check { slot, limit, cost, shadow_mode, quota_mode, told_by });
        }
        // Who takes slots takes a lease.
        let (by, attempt) = (By::Server, Attempt::NONE);
        let usual = Taking { id: 0, by, attempt, term_us: None, fingerprint: None };
        let taking = taking.clone().or_else(|| question.takes_slots().then_some(usual));
        if let Some(taking) = taking {
            let fingerprint = taking.fingerprint.map(|byte| Fingerprint([byte; 16]));
            let term = taking.term_us.map(Term::of_micros);
            let by = (taking.by, taking.attempt);
            question.take_under(&id(taking.id), by, term, fingerprint);
        }
        Some(question)
    }
}

/// Costs from nothing to far above what a limit holds.
fn any_cost(amount: u32) -> impl Strategy<Value = Cost> {
    let most = u64::from(amount).max(1);
    let amount = prop_oneof![
        4 => 1..=3_u64,
        4 => 1..=most,
        1 => most..=most.saturating_mul(3),
        1 => 1..=u64::MAX,
    ];
    (amount, 0..10_u8).prop_map(|(amount, kind)| match kind {
        0 => Cost::Peek,
        1 | 2 => Cost::Refund(amount),
        _ => Cost::Take(amount),
    })
}

pub(super) fn any_check(limits: impl Strategy<Value = Limit>) -> impl Strategy<Value = Asking> {
    limits.prop_flat_map(|limit| {
        let modes = (prop::bool::weighted(0.2), prop::bool::weighted(0.3));
        let most_delay_us = prop::option::weighted(0.3, any_delay_us());
        (0..NAMES, any_cost(limit.amount().unwrap_or(10)), modes, most_delay_us).prop_map(
            move |(name, cost, modes, most_delay_us)| Asking {
                name,
                limit,
                cost,
                most_delay_us,
                shadow_mode: modes.0,
                quota_mode: modes.1,
            },
        )
    })
}

/// One of few, so that what is asked for is met.
fn any_attempt() -> impl Strategy<Value = Attempt> {
    (0..4_u64).prop_map(|number| Attempt::of(number << 11))
}

fn any_release() -> impl Strategy<Value = Release> {
    prop_oneof![
        any::<bool>().prop_map(|marks| Release::Last { marks }),
        any_attempt().prop_map(Release::Untold),
        any_attempt().prop_map(Release::Ended),
    ]
}

fn any_taking() -> impl Strategy<Value = Taking> {
    let by = prop::sample::select(vec![By::Server, By::Caller, By::Request]);
    let term_us = prop::option::weighted(0.3, any_term_us());
    // A caller's id comes with what was asked for.
    (0..IDS, by, any_attempt(), term_us, 0..3_u8).prop_map(|(id, by, attempt, term_us, byte)| {
        let fingerprint = (by == By::Caller || byte == 0).then_some(byte);
        let fingerprint = fingerprint.filter(|_| by != By::Request);
        Taking { id, by, attempt, term_us, fingerprint }
    })
}

/// Mostly short times and a few long ones, and now and then a clock that is set back.
pub(super) fn any_step() -> impl Strategy<Value = i64> {
    prop_oneof![
        2 => Just(0),
        2 => Just(EXACT_US as i64),
        2 => 0..=2000_i64,
        4 => 0..=SECOND,
        4 => 0..=100 * SECOND,
        2 => 0..=YEAR,
        1 => -59 * SECOND..=0,
        1 => -3600 * SECOND..=-60 * SECOND,
        1 => -YEAR..=0,
    ]
}

pub(super) fn any_history() -> impl Strategy<Value = Vec<Event>> {
    // Few limits, so that a key is met by several of them, as when rules change.
    let limits = (
        prop::collection::vec(any_limit(&Samples::of_rates()), 1..3),
        prop::collection::vec(any_limit(&Samples::of_slots()), 1..4),
        prop::collection::vec(any_limit(&Samples::of_shedders()), 1..3),
        0..4_u8,
    );
    limits.prop_flat_map(|(rates, slots, shedders, kind)| {
        let limits = match kind {
            0 => rates,
            1 => slots,
            2 => [slots, shedders].concat(),
            _ => [rates, slots, shedders].concat(),
        };
        let asked = prop::collection::vec(any_check(prop::sample::select(limits)), 0..5);
        let taking = prop::option::weighted(0.8, any_taking());
        let what = prop_oneof![
            8 => (asked, taking).prop_map(|(asked, taking)| What::Ask(asked, taking)),
            4 => (0..IDS, any_release()).prop_map(|(id, what)| What::Release { id, what }),
            3 => (0..IDS, prop::option::of(any_term_us()))
                .prop_map(|(id, term_us)| What::Renew { id, term_us }),
            4 => (0..NAMES, 0..WORKERS, any_report())
                .prop_map(|(name, worker, report)| What::Report { name, worker, report }),
            1 => any::<usize>().prop_map(What::Lose),
        ];
        let event = (any_step(), what).prop_map(|(step_us, what)| Event { step_us, what });
        prop::collection::vec(event, 1..30)
    })
}

/// The record of a lease, with few entries, or with as many as there may be.
pub(super) fn any_record() -> impl Strategy<Value = State> {
    let soon =
        || (1_799_999_995_000_000..=1_800_000_100_000_000_u64).prop_map(Timestamp::from_micros);
    let kind = prop::sample::select(vec![Kind::Held, Kind::Nothing, Kind::Early, Kind::Released]);
    let slots = (0..=3_u64, 0..=3_u64);
    let limiters: Vec<_> = Samples::of_slots().iter().map(|samples| samples.name).collect();
    let limiter = prop::sample::select(limiters);
    let hold = (limiter, 0..NAMES, soon(), slots).prop_map(|(limiter, name, since, slots)| {
        let slots = Slots { critical: slots.0, others: slots.1 };
        Hold { key: key(limiter, name), since, slots }
    });
    let holds = prop::collection::vec(hold, 0..3);
    let fingerprint = prop::option::of(0..3_u8);
    let whose = (any_attempt(), any::<bool>());
    let entry = (kind, soon(), whose, any_term_us(), fingerprint, holds).prop_map(
        |(kind, deadline, (attempt, is_repeated), term_us, byte, holds)| Entry {
            kind,
            deadline,
            attempt,
            is_repeated,
            term: Term::of_micros(term_us),
            fingerprint: byte.map(|byte| Fingerprint([byte; 16])),
            holds,
        },
    );
    let entry = entry.boxed();
    let count = prop_oneof![1..4_usize, MOST_ENTRIES - 1..=MOST_ENTRIES];
    count
        .prop_flat_map(move |count| prop::collection::vec(entry.clone(), count))
        .prop_map(|entries| State::Lease(Box::new(Record { entries })))
}

/// Any state that may stand under a key, whoever put it there.
pub(super) fn any_state() -> impl Strategy<Value = (Key, State)> {
    let of_limits = Samples::of_all().into_iter().map(|Samples { name, states, .. }| {
        (2, states.prop_map(move |state| (key(name, 0), state)).boxed())
    });
    let worker = (any_instant_us(), any_instant_us(), any_load(), any_instant()).prop_map(
        |(since, deadline, load, measured)| {
            let (since, deadline) =
                (Timestamp::from_micros(since), Timestamp::from_micros(deadline));
            State::Worker(Worker { since, deadline, load, measured })
        },
    );
    let worker = worker.prop_map(|state| (report_keys(0, 0)[1].clone(), state));
    let record = any_record().prop_map(|state| (id(0).key().clone(), state));
    Union::new_weighted(of_limits.chain([(1, worker.boxed()), (1, record.boxed())]).collect())
}
