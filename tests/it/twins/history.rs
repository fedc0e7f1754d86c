//! Random histories: requests of all kinds of limits, under leases of all kinds, releases and renewals, and
//! what befalls a store: clocks set back, states lost.

use proptest::prelude::*;
use std::num::NonZeroU64;
use tollgate::{
    clock::Timestamp,
    key::{Key, Path},
    lease::{
        Attempt, Bucket, By, Entry, Fingerprint, Hold, InFlight, Kind, LONGEST_TERM_US, LeaseId,
        MOST_ENTRIES, Record, Release, Slots, Term,
    },
    limiter::{
        Cost, Limit, State, concurrency, fleet, token_bucket,
        utilization::{self, Draw},
    },
    unit::{Unit, WHOLE_PARTS},
    verdict::{Check, Question},
    worker::{
        self, Counts, Instant, LONGEST_REPORT_TTL_US, LONGEST_SHEDDING_US, Load, MOST_WORKERS,
        Report, Settings, Worker, Workers,
    },
};

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

/// The limiters whose states are lost.
const LIMITERS: [&str; 4] = ["token_bucket", "concurrency", "fleet", "utilization"];

pub(super) fn key(limiter: &str, name: usize) -> Key {
    let mut path = Path::of_domain(b"twins");
    path.push_value(b"key", name.to_string().as_bytes());
    Key::new(limiter, &path)
}

/// The keys of a report: those of the pool's workers, and of the worker.
pub(super) fn report_keys(name: usize, worker: usize) -> [Key; 2] {
    [key("utilization", name), key("worker", 10 * name + worker)]
}

pub(super) fn id(number: usize) -> LeaseId {
    LeaseId::chosen(&number.to_string()).unwrap()
}

/// All keys that a history may touch.
pub(super) fn keys() -> Vec<Key> {
    let states = LIMITERS.iter().flat_map(|limiter| (0..NAMES).map(|name| key(limiter, name)));
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
        for Asking { name, limit, cost, shadow_mode, quota_mode } in asked.iter().cloned() {
            let mut slot = |limiter: &str| {
                let key = key(limiter, name);
                let found = question.keys.iter().position(|known| *known == key);
                found.unwrap_or_else(|| {
                    question.keys.push(key);
                    question.keys.len() - 1
                })
            };
            let told_by = limit.is_told().then(|| slot("utilization"));
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

pub(super) fn any_rate() -> impl Strategy<Value = Limit> {
    let tokens = prop_oneof![0_u32..=10, 1_u32..=100_000, any::<u32>(), Just(u32::MAX)];
    let burst = prop_oneof![Just(1_u32), 0_u32..=10, 1_u32..=1000, any::<u32>(), Just(u32::MAX)];
    let unit = prop::sample::select(Unit::ALL.to_vec());
    (tokens, unit, burst, any::<bool>()).prop_map(|(tokens, unit, burst, overdraw)| {
        let limit = token_bucket::Limit::new(token_bucket::Rate::per(tokens, unit), burst);
        Limit::TokenBucket(if overdraw { limit.with_overdraw() } else { limit })
    })
}

/// A term whose leases end exactly so much later, on a step of a microsecond: so that something happens at
/// the very instant at which a lease ends.
const EXACT_US: i64 = 32;

fn any_term_us() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(EXACT_US.unsigned_abs()),
        1..=100_u64,
        1..=10_000_000_u64,
        Just(60_000_000),
        1..=LONGEST_TERM_US
    ]
}

fn any_slots() -> impl Strategy<Value = Limit> {
    let count = prop_oneof![0..=5_u32, 0..=100_u32, any::<u32>(), Just(u32::MAX)];
    let reserved = prop_oneof![Just(0), Just(200_000), Just(WHOLE_PARTS), 0..=1_000_000_u32];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (count, reserved, any_term_us(), flags).prop_map(
        |(count, reserved_parts, term_us, (critical, weighs_hits, is_fleet))| {
            let term = Term::of_micros(term_us);
            if is_fleet {
                let report_ttl = Term::of_micros(term_us.min(LONGEST_REPORT_TTL_US));
                let capacity = match count % 3 {
                    0 => fleet::Capacity::Reported { report_ttl, slots: None },
                    _ => fleet::Capacity::Slots(count),
                };
                Limit::Fleet(fleet::Limit { capacity, reserved_parts, critical, term, weighs_hits })
            } else {
                Limit::Concurrency(concurrency::Limit { max: count, term, weighs_hits })
            }
        },
    )
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let span = || prop_oneof![1..=100_u64, 1..=60_000_000_u64, 1..=LONGEST_SHEDDING_US];
    let ttl =
        prop_oneof![Just(EXACT_US.unsigned_abs()), 1..=60_000_000_u64, 1..=LONGEST_REPORT_TTL_US];
    let any = ((1..=999_999_u32, 1..=999_999_u32), (span(), span()), ttl).prop_map(
        |((a, b), (hold_off_us, shed_all_after_us), ttl_us)| Settings {
            good_below_parts: a.min(b),
            bad_above_parts: a.max(b),
            hold_off_us: hold_off_us - 1,
            shed_all_after_us,
            report_ttl: Term::of_micros(ttl_us),
        },
    );
    prop_oneof![Just(Settings::default()), any]
}

fn any_shedder() -> impl Strategy<Value = Limit> {
    let draw = prop_oneof![
        any::<u32>().prop_map(Draw::Request),
        (any::<u32>(), 0..utilization::TURN_US)
            .prop_map(|(number, turns_us)| Draw::Caller { number, turns_us }),
    ];
    (any_settings(), 1..=32_u32, any::<u32>(), draw).prop_map(|(settings, classes, class, draw)| {
        let class = class % classes;
        Limit::Utilization(utilization::Limit { settings, classes, class, draw })
    })
}

fn any_load() -> impl Strategy<Value = Load> {
    let slots = prop_oneof![Just(1), 1..=10_u32, 1..=worker::MOST_SLOTS];
    let ratio = prop_oneof![0.0..=1.3_f64, 0.6..=1.0_f64, 0.0..=10.0_f64];
    (ratio, slots).prop_map(|(ratio, slots)| Load::of_ratio(ratio, slots, "ratio").unwrap())
}

fn any_instant() -> impl Strategy<Value = Instant> {
    prop_oneof![1..=5_u64, 1..=1_u64 << 53].prop_map(Instant::of_micros)
}

fn any_report() -> impl Strategy<Value = Report> {
    let load = prop::option::weighted(0.9, any_load());
    let measured = prop::option::weighted(0.3, any_instant());
    (any_settings(), load, measured).prop_map(|(settings, load, measured)| Report {
        settings,
        load,
        measured,
    })
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

pub(super) fn any_check(limits: Vec<Limit>) -> impl Strategy<Value = Asking> {
    let limit = prop::sample::select(limits);
    limit.prop_flat_map(|limit| {
        let modes = (prop::bool::weighted(0.2), prop::bool::weighted(0.3));
        (0..NAMES, any_cost(limit.amount().unwrap_or(10)), modes).prop_map(
            move |(name, cost, modes)| Asking {
                name,
                limit,
                cost,
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
        2 => Just(EXACT_US),
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
        prop::collection::vec(any_rate(), 1..3),
        prop::collection::vec(any_slots(), 1..4),
        prop::collection::vec(any_shedder(), 1..3),
        0..4_u8,
    );
    limits.prop_flat_map(|(rates, slots, shedders, kind)| {
        let limits = match kind {
            0 => rates,
            1 => slots,
            2 => [slots, shedders].concat(),
            _ => [rates, slots, shedders].concat(),
        };
        let asked = prop::collection::vec(any_check(limits), 0..5);
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
    let hold = (1..3_usize, 0..NAMES, soon(), slots).prop_map(|(place, name, since, slots)| {
        let slots = Slots { critical: slots.0, others: slots.1 };
        Hold { key: key(LIMITERS[place], name), since, slots }
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
    let count = || prop_oneof![0..=10_u64, 0..=1_u64 << 32, 0..=1_u64 << 53, Just(1_u64 << 53)];
    let instant =
        || prop_oneof![count(), 1_799_999_000_000_000..=1_800_000_100_000_000_u64].boxed();
    let ledger = prop::option::of((count(), count())).prop_map(|ledger| {
        let since = |since: u64| NonZeroU64::new(since).unwrap_or(NonZeroU64::MIN);
        ledger.map(|(it, charged)| token_bucket::Ledger { since: since(it), charged })
    });
    let bucket = (count(), instant(), count(), ledger).prop_map(
        |(used, updated, grains_per_token, ledger)| {
            let updated = Timestamp::from_micros(updated);
            let grains_per_token = grains_per_token.max(1);
            State::TokenBucket(token_bucket::State { used, updated, grains_per_token, ledger })
        },
    );
    let slots = (count(), count()).prop_map(|(critical, others)| Slots { critical, others });
    let some = slots.prop_filter("some", |slots| slots.total() > 0);
    let buckets = prop::collection::btree_map(instant(), some, 1..5);
    let in_flight = (instant(), buckets).prop_map(|(since, buckets)| {
        let bucket =
            |(deadline, slots)| Bucket { deadline: Timestamp::from_micros(deadline), slots };
        let buckets = buckets.into_iter().map(bucket).collect();
        State::InFlight(Box::new(InFlight { since: Timestamp::from_micros(since), buckets }))
    });
    let pressure = prop_oneof![-1_800_000_000_000_000..=1_800_000_000_000_000_i64, -100..=100_i64];
    let counts = (1..MOST_WORKERS / 4, any_load()).prop_map(|(workers, load)| {
        let Counts { slots, load, .. } = Counts::of(load);
        Counts { workers, slots: slots * workers, load: load * workers }
    });
    // After the last report came, none is fresh for longer than twice the longest time.
    let buckets = prop::collection::btree_map(0..=2 * LONGEST_REPORT_TTL_US, counts, 1..5);
    let times = (instant(), instant(), instant());
    let spans = (1..=LONGEST_SHEDDING_US, 0..=500_000_000_u64);
    let workers = (times, pressure, spans, buckets).prop_map(
        |((since, updated, until), pressure, (shed_all_after_us, held), buckets)| {
            let updated = updated.min((1 << 53) - 2 * LONGEST_REPORT_TTL_US);
            let bucket = |(later_us, counts)| worker::Bucket {
                deadline: Timestamp::from_micros(updated + later_us),
                counts,
            };
            let buckets = buckets.into_iter().map(bucket).collect();
            let (since, updated) = (Timestamp::from_micros(since), Timestamp::from_micros(updated));
            let held_until = Timestamp::from_micros(until);
            let state =
                Workers { since, updated, pressure, shed_all_after_us, held, held_until, buckets };
            State::Workers(Box::new(state))
        },
    );
    let worker = (instant(), instant(), any_load(), any_instant()).prop_map(
        |(since, deadline, load, measured)| {
            let (since, deadline) =
                (Timestamp::from_micros(since), Timestamp::from_micros(deadline));
            State::Worker(Worker { since, deadline, load, measured })
        },
    );
    prop_oneof![
        2 => workers.prop_map(|state| (key("utilization", 0), state)),
        1 => worker.prop_map(|state| (report_keys(0, 0)[1].clone(), state)),
        2 => bucket.prop_map(|state| (key(LIMITERS[0], 0), state)),
        2 => (1..3_usize, in_flight).prop_map(|(place, state)| (key(LIMITERS[place], 0), state)),
        1 => any_record().prop_map(|state| (id(0).key().clone(), state)),
    ]
}
