//! What tests need of each limiter: any limit of it, any state, and bytes that are no state. The list asks every limiter
//! for them, so a limiter without samples does not compile in tests. The property tests in `tests.rs`, and the twins in
//! `store/redis/twins.rs`, run on the samples of all limiters.

use super::{Limit, Limiter, RateLimit, Shedder, SlotLimit, State, Stored};
use crate::{
    clock::Timestamp,
    lease::{Bucket, InFlight, Slots},
    worker::{
        self, Counts, LONGEST_REPORT_TTL_US, LONGEST_SHEDDING_US, MOST_WORKERS, Workers,
        samples::any_load,
    },
};
use proptest::prelude::*;

/// What tests need of a limit on a rate.
pub(crate) trait SampledRate: RateLimit {
    /// How much longer than necessary a wait may be that a refusal states, in microseconds, of a limit that is whole
    /// again within 70 years.
    const WAIT_IS_LONGER_BY_US: u64 = 0;

    /// Any limit, small ones and such as meet others' edges oftener than others.
    fn any() -> BoxedStrategy<Self>;

    /// Any state that may stand under a key, whatever limit wrote it.
    fn any_state() -> BoxedStrategy<Self::State>;

    /// The bytes of a state, as the script writes them.
    fn write(state: &Self::State) -> Vec<u8>;

    /// Bytes that are no state, most of them nearly one.
    fn any_broken() -> BoxedStrategy<Vec<u8>>;
}

/// What tests need of a limit on slots. All have the same states.
pub(crate) trait SampledSlots: SlotLimit {
    /// Any limit, small ones oftener than others.
    fn any() -> BoxedStrategy<Self>;
}

/// What tests need of a load shedder. All have the same states.
pub(crate) trait SampledShedder: Shedder {
    /// Any limit.
    fn any() -> BoxedStrategy<Self>;
}

/// The samples of one limiter.
#[derive(Debug, Clone)]
pub(crate) struct Samples {
    /// The limiter.
    pub(crate) name: &'static str,
    /// Any limit.
    pub(crate) limits: BoxedStrategy<Limit>,
    /// Any state.
    pub(crate) states: BoxedStrategy<State>,
    /// Bytes that are no state.
    pub(crate) broken: BoxedStrategy<Vec<u8>>,
    /// How much longer than necessary a wait may be.
    pub(crate) wait_is_longer_by_us: u64,
}

impl Samples {
    /// Those of all limiters.
    pub(crate) fn of_all() -> Vec<Self> {
        [Self::of_rates(), Self::of_slots(), Self::of_shedders()].concat()
    }

    pub(super) fn of_rate<L: SampledRate + 'static>(limit: fn(L) -> Limit) -> Self
    where
        L::State: std::fmt::Debug,
    {
        Self {
            wait_is_longer_by_us: L::WAIT_IS_LONGER_BY_US,
            ..Self::of(L::any(), limit, L::any_state(), L::any_broken())
        }
    }

    pub(super) fn of_slot_limit<L: SampledSlots + 'static>(limit: fn(L) -> Limit) -> Self {
        Self::of(L::any(), limit, any_in_flight(), any_broken_in_flight())
    }

    pub(super) fn of_shedder<L: SampledShedder + 'static>(limit: fn(L) -> Limit) -> Self {
        Self::of(L::any(), limit, any_workers(), any_broken_workers())
    }

    fn of<L: Limiter + 'static, S: Stored + std::fmt::Debug + 'static>(
        limits: BoxedStrategy<L>,
        limit: fn(L) -> Limit,
        states: BoxedStrategy<S>,
        broken: BoxedStrategy<Vec<u8>>,
    ) -> Self {
        Self {
            name: L::NAME,
            limits: limits.prop_map(limit).boxed(),
            states: states.prop_map(Stored::into_state).boxed(),
            broken,
            wait_is_longer_by_us: 0,
        }
    }
}

/// Any limit of these limiters, each as often as any other.
pub(crate) fn any_limit(samples: &[Samples]) -> BoxedStrategy<Limit> {
    let limits = samples.iter().map(|samples| samples.limits.clone());
    prop::strategy::Union::new(limits).boxed()
}

/// Numbers as Lua packs them.
pub(crate) fn doubles(numbers: impl IntoIterator<Item = f64>) -> Vec<u8> {
    numbers.into_iter().flat_map(f64::to_le_bytes).collect()
}

/// The same of whole numbers, which are at most 2^53.
pub(crate) fn counts(numbers: &[u64]) -> Vec<u8> {
    doubles(numbers.iter().map(|number| *number as f64))
}

/// The longest delay that a caller accepts, in microseconds.
pub(crate) fn any_delay_us() -> BoxedStrategy<u64> {
    prop_oneof![Just(0), 1..=1000_u64, 1..=100_000_000_u64, Just(u64::MAX)].boxed()
}

/// A count that a state may hold.
pub(crate) fn any_count() -> BoxedStrategy<u64> {
    prop_oneof![0..=10_u64, 0..=1_u64 << 32, 0..=1_u64 << 53, Just(1_u64 << 53)].boxed()
}

/// An instant that a state may hold, in microseconds: any, or one near the beginning of a history.
pub(crate) fn any_instant_us() -> BoxedStrategy<u64> {
    prop_oneof![any_count(), 1_799_999_000_000_000..=1_800_000_100_000_000_u64].boxed()
}

/// A number that is no count.
pub(crate) fn any_broken_count() -> BoxedStrategy<f64> {
    prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), Just(0.5), Just(1e17)].boxed()
}

/// What may be in flight.
fn any_in_flight() -> BoxedStrategy<InFlight> {
    let slots =
        (any_count(), any_count()).prop_map(|(critical, others)| Slots { critical, others });
    let some = slots.prop_filter("some", |slots| slots.total() > 0);
    let buckets = prop::collection::btree_map(any_instant_us(), some, 1..5);
    let in_flight = (any_instant_us(), buckets).prop_map(|(since, buckets)| {
        let bucket =
            |(deadline, slots)| Bucket { deadline: Timestamp::from_micros(deadline), slots };
        let buckets = buckets.into_iter().map(bucket).collect();
        InFlight { since: Timestamp::from_micros(since), buckets }
    });
    in_flight.boxed()
}

/// The bytes of what is in flight.
pub(super) fn write_in_flight(state: &InFlight) -> Vec<u8> {
    let mut bytes = counts(&[state.since.as_micros()]);
    for Bucket { deadline, slots } in &state.buckets {
        bytes.extend(counts(&[deadline.as_micros(), slots.critical, slots.others]));
    }
    bytes
}

/// Bytes that are nothing in flight, most of them nearly.
fn any_broken_in_flight() -> BoxedStrategy<Vec<u8>> {
    let instant = 1_800_000_000_000_000_f64;
    let good = vec![instant, instant + 1.0, 1.0, 2.0, instant + 2.0, 0.0, 1.0];
    let one_bad = (any_broken_count(), 0..good.len()).prop_map({
        let good = good.clone();
        move |(bad, place)| {
            let mut numbers = good.clone();
            numbers[place] = bad;
            numbers
        }
    });
    let out_of_order = [vec![instant, 9.0, 1.0, 0.0, 8.0, 1.0, 0.0], vec![instant, 9.0, 0.0, 0.0]];
    let numbers = prop_oneof![
        4 => one_bad,
        1 => prop::sample::select(out_of_order.to_vec()),
        1 => (0..good.len()).prop_filter("the length of a state", |length| length % 3 != 1)
            .prop_map(move |length| good[..length].to_vec()),
    ];
    numbers.prop_map(doubles).boxed()
}

/// What may be known of the workers of a pool.
fn any_workers() -> BoxedStrategy<Workers> {
    let pressure = prop_oneof![-1_800_000_000_000_000..=1_800_000_000_000_000_i64, -100..=100_i64];
    let counts = (1..MOST_WORKERS / 4, any_load()).prop_map(|(workers, load)| {
        let Counts { slots, load, .. } = Counts::of(load);
        Counts { workers, slots: slots * workers, load: load * workers }
    });
    // After the last report came, none is fresh for longer than twice the longest time.
    let buckets = prop::collection::btree_map(0..=2 * LONGEST_REPORT_TTL_US, counts, 1..5);
    let times = (any_instant_us(), any_instant_us(), any_instant_us());
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
            Workers { since, updated, pressure, shed_all_after_us, held, held_until, buckets }
        },
    );
    workers.boxed()
}

/// The bytes of what is known of the workers of a pool.
pub(super) fn write_workers(state: &Workers) -> Vec<u8> {
    let mut bytes = counts(&[state.since.as_micros(), state.updated.as_micros()]);
    bytes.extend((state.pressure as f64).to_le_bytes());
    let Counts { workers, slots, load } = state.counts();
    let first = state.buckets[0].deadline.as_micros();
    bytes.extend(counts(&[state.shed_all_after_us, workers, slots, load, first]));
    bytes.extend(counts(&[state.held, state.held_until.as_micros()]));
    for bucket in &state.buckets {
        let Counts { workers, slots, load } = bucket.counts;
        bytes.extend(counts(&[bucket.deadline.as_micros(), workers, slots, load]));
    }
    bytes
}

/// Two workers of three slots, one report fresh for longer than the other.
pub(crate) const WORKERS: &[f64] = &[
    1.7e15,
    1.8e15,
    5.0,
    1e8,
    2.0,
    3.0,
    2e6,
    1.800_000_1e15,
    7.0,
    1.9e15, // all
    1.800_000_1e15,
    1.0,
    1.0,
    1e6, // the first
    1.800_000_2e15,
    1.0,
    2.0,
    1e6, // the second
];

/// Bytes that are no workers of a pool, most of them nearly.
fn any_broken_workers() -> BoxedStrategy<Vec<u8>> {
    any_broken_of(WORKERS)
}

/// Numbers that are the workers of a pool, or what one of them said, but for one that is none.
pub(crate) fn any_broken_of(good: &'static [f64]) -> BoxedStrategy<Vec<u8>> {
    let one_bad = (any_broken_count(), 0..good.len()).prop_map(|(bad, place)| {
        let mut numbers = good.to_vec();
        // Pressure alone may be negative.
        numbers[place] = if place == 2 && bad == -1.0 { -0.5 } else { bad };
        numbers
    });
    let cut_off = (0..good.len()).prop_map(|length| good[..length].to_vec());
    prop_oneof![4 => one_bad, 1 => cut_off].prop_map(doubles).boxed()
}
