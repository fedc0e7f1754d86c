//! Promises of leases, held against a model that knows who holds what: on the memory store, whose steps are
//! those of the scripts.

use super::*;
use crate::{
    clock::Timestamp,
    key::{Key, Path},
    limiter::{Cost, Limit, concurrency, fleet},
    store::Memory,
    verdict::{Check, Question},
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Something that holders of leases do. Those who crash do nothing.
#[derive(Debug, Clone)]
enum Act {
    Acquire { id: usize, slots: u64, critical: bool },
    Release { id: usize },
    Renew { id: usize, term_us: Option<u64> },
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..30_usize, 1..4_u64, any::<bool>())
            .prop_map(|(id, slots, critical)| Act::Acquire { id, slots, critical }),
        2 => (0..30_usize).prop_map(|id| Act::Release { id }),
        1 => (0..30_usize, prop::option::of(1..5_000_000_u64))
            .prop_map(|(id, term_us)| Act::Renew { id, term_us }),
    ]
}

/// Acts, and how long before each nothing happened: up to a few times the term of a lease.
fn any_acts() -> impl Strategy<Value = Vec<(u64, Act)>> {
    let pause = prop_oneof![3 => Just(0), 3 => 0..200_000_u64, 1 => 0..4_000_000_u64];
    prop::collection::vec((pause, any_act()), 1..80)
}

/// Who holds how many slots, and until when; whether they are critical.
type Holders = BTreeMap<usize, (Timestamp, u64, bool)>;

struct Pool {
    store: Memory,
    limit: fn(bool) -> Limit,
    holders: Holders,
}

const TERM_US: u64 = 1_000_000;

const LAST: Release = Release::Last { marks: false };
const ONE: Attempt = Attempt::of(1 << 11);
const TWO: Attempt = Attempt::of(2 << 11);

fn ten_in_flight(_: bool) -> Limit {
    let term = Term::of_micros(TERM_US);
    Limit::Concurrency(concurrency::Limit { max: 10, term, weighs_hits: true })
}

fn ten_with_a_reserve(critical: bool) -> Limit {
    let term = Term::of_micros(TERM_US);
    let (capacity, reserved_parts) = (fleet::Capacity::Slots(10), 250_000);
    Limit::Fleet(fleet::Limit { capacity, reserved_parts, critical, term, weighs_hits: true })
}

impl Pool {
    fn new(limit: fn(bool) -> Limit) -> Self {
        Self { store: Memory::new(1000), limit, holders: Holders::new() }
    }

    fn in_flight(&self, now: Timestamp, critical: bool) -> u64 {
        let live = self.holders.values().filter(|(until, _, is)| *until > now && *is == critical);
        live.map(|(_, slots, _)| slots).sum()
    }

    fn act(&mut self, now: Timestamp, act: &Act) -> Result<(), TestCaseError> {
        let name = |id: usize| LeaseId::chosen(&id.to_string()).unwrap();
        match *act {
            Act::Acquire { id, .. } if self.is_live(id, now) => {}
            Act::Acquire { id, slots, critical } => {
                let mut path = Path::of_domain(b"test");
                path.push_key(b"all");
                let limit = (self.limit)(critical);
                let cost = Cost::Take(slots);
                let check = Check::of(0, limit, cost);
                let key = Key::new(limit.limiter(), &path);
                let mut question = Question::new(vec![key], vec![check]);
                question.take_under(&name(id), (By::Caller, ONE), None, Some(Fingerprint([0; 16])));
                let (others, critical_now) =
                    (self.in_flight(now, false), self.in_flight(now, true));
                let verdict = self.store.decide(now, &question);
                let has_room = match limit {
                    Limit::Fleet(_) => critical || others + slots <= 10 - critical_now.clamp(2, 10),
                    _ => others + critical_now + slots <= 10,
                };
                prop_assert_eq!(verdict.refusal.is_none(), has_room);
                if let Leased::For { left_us } = verdict.leased {
                    prop_assert!((TERM_US..=TERM_US + TERM_US / 32).contains(&left_us));
                    self.holders.insert(id, (now + left_us, slots, critical));
                }
            }
            Act::Release { id } => {
                let was_live = self.is_live(id, now);
                let released = self.store.release(now, &name(id), LAST);
                prop_assert_eq!(released == Released::Live, was_live);
                self.holders.remove(&id);
            }
            Act::Renew { id, term_us } => {
                let renewed = self.store.renew(now, &name(id), term_us.map(Term::of_micros));
                prop_assert_eq!(matches!(renewed, Renewed::Live { .. }), self.is_live(id, now));
                if let (Renewed::Live { left_us }, Some(held)) =
                    (renewed, self.holders.get_mut(&id))
                {
                    prop_assert!(now + left_us >= held.0, "it never ends sooner");
                    prop_assert!(left_us <= TERM_US + TERM_US / 32, "nor later than a new one");
                    held.0 = now + left_us;
                }
            }
        }
        Ok(())
    }

    fn is_live(&self, id: usize, now: Timestamp) -> bool {
        self.holders.get(&id).is_some_and(|(until, ..)| *until > now)
    }
}

fn holds_for(limit: fn(bool) -> Limit, acts: &[(u64, Act)]) -> Result<(), TestCaseError> {
    let mut pool = Pool::new(limit);
    let mut now = Timestamp::from_micros(1_000_000);
    for (pause_us, act) in acts {
        now = now + *pause_us;
        pool.act(now, act)?;
    }
    // All who crashed are forgotten in the end.
    now = now + TERM_US + TERM_US / 32;
    let free = Act::Acquire { id: 1000, slots: 10, critical: true };
    pool.holders.clear();
    pool.act(now, &free)
}

proptest! {
    #[test]
    fn who_holds_slots_is_counted_exactly(acts in any_acts()) {
        holds_for(ten_in_flight, &acts)?;
    }

    #[test]
    fn the_reserve_of_a_pool_is_kept_exactly(acts in any_acts()) {
        holds_for(ten_with_a_reserve, &acts)?;
    }
}

fn question(by: By, id: &LeaseId, fingerprint: Option<u8>) -> Question {
    let limit = ten_in_flight(false);
    let check = Check::of(0, limit, Cost::Take(4));
    let mut question = Question::new(vec![Key::read("tg1:concurrency:test")], vec![check]);
    question.take_under(id, (by, ONE), None, fingerprint.map(|byte| Fingerprint([byte; 16])));
    question
}

/// Slots that are free.
fn free(store: &Memory, now: Timestamp) -> u64 {
    let limit = ten_in_flight(false);
    let check = Check { shadow_mode: true, ..Check::of(0, limit, Cost::Peek) };
    let question = Question::new(vec![Key::read("tg1:concurrency:test")], vec![check]);
    store.decide(now, &question).outcomes[0].remaining
}

const NOW: Timestamp = Timestamp::from_micros(5_000_000);

#[test]
fn a_caller_who_asks_again_finds_his_lease_and_takes_nothing_more() {
    let (store, id) = (Memory::new(1000), LeaseId::chosen("job").unwrap());
    let first = store.decide(NOW, &question(By::Caller, &id, Some(1))).leased;
    assert!(matches!(first, Leased::For { .. }));
    let again = store.decide(NOW, &question(By::Caller, &id, Some(1))).leased;
    assert!(matches!(again, Leased::Again { .. }));
    assert_eq!(again.left_us(), first.left_us());
    assert_eq!(store.decide(NOW, &question(By::Caller, &id, Some(2))).leased, Leased::Conflict);
    assert_eq!(free(&store, NOW), 6);
}

#[test]
fn requests_that_share_a_name_each_take_and_each_give_back() {
    let (store, id) = (Memory::new(1000), LeaseId::of_request(b"edge", b"7"));
    for left in [6, 2] {
        store.decide(NOW, &question(By::Request, &id, None));
        assert_eq!(free(&store, NOW), left);
    }
    // The third is refused, and its release gives back nothing of the others'.
    assert!(store.decide(NOW, &question(By::Request, &id, None)).refusal.is_some());
    assert_eq!(store.release(NOW, &id, Release::Last { marks: true }), Released::AlreadyGone);
    assert_eq!(free(&store, NOW), 2);
    for left in [6, 10] {
        assert_eq!(store.release(NOW, &id, Release::Last { marks: true }), Released::Live);
        assert_eq!(free(&store, NOW), left);
    }
    assert_eq!(store.release(NOW, &id, LAST), Released::AlreadyGone);
}

#[test]
fn a_release_that_overtakes_its_acquire_is_remembered_for_a_while() {
    let (store, id) = (Memory::new(1000), LeaseId::of_request(b"edge", b"7"));
    assert_eq!(store.release(NOW, &id, Release::Last { marks: true }), Released::AlreadyGone);
    let verdict = store.decide(NOW + 1000, &question(By::Request, &id, None));
    assert_eq!((verdict.refusal, verdict.leased), (None, Leased::Nothing));
    assert_eq!(free(&store, NOW + 1000), 10);
    store.decide(NOW + 2000, &question(By::Request, &id, None));
    assert_eq!(free(&store, NOW + 2000), 6, "one release is for one acquire");
    assert_eq!(store.release(NOW + 3000, &id, Release::Last { marks: true }), Released::Live);

    assert_eq!(store.release(NOW, &id, Release::Last { marks: true }), Released::AlreadyGone);
    let later = NOW + MARK_US;
    store.decide(later, &question(By::Request, &id, None));
    assert_eq!(free(&store, later), 6, "by then it is another request");
}

#[test]
fn a_renewal_that_comes_after_the_release_takes_nothing_again() {
    let (store, id) = (Memory::new(1000), LeaseId::draw().unwrap().0);
    store.decide(NOW, &question(By::Server, &id, Some(1)));
    assert_eq!(store.release(NOW, &id, LAST), Released::Live);
    assert_eq!(store.renew(NOW, &id, None), Renewed::AlreadyGone);
    assert_eq!(store.release(NOW, &id, LAST), Released::AlreadyGone);
    assert_eq!(free(&store, NOW), 10);
}

#[test]
fn a_lease_whose_time_is_over_is_told_from_one_that_never_was() {
    let (store, id) = (Memory::new(1000), LeaseId::draw().unwrap().0);
    store.decide(NOW, &question(By::Server, &id, None));
    let later = NOW + 2 * TERM_US;
    assert_eq!(store.renew(later, &id, None), Renewed::Expired);
    assert_eq!(store.release(later, &id, LAST), Released::Expired);
    assert_eq!(store.renew(later, &id, None), Renewed::Lost);
    assert_eq!(store.release(later, &id, LAST), Released::AlreadyGone);
}

#[test]
fn where_too_many_share_a_name_the_oldest_lease_is_left_to_its_deadline() {
    let (store, id) = (Memory::new(1000), LeaseId::of_request(b"edge", b"7"));
    let term = Term::of_micros(TERM_US);
    let most = MOST_ENTRIES as u32 + 1;
    let limit = Limit::Concurrency(concurrency::Limit { max: most, term, weighs_hits: false });
    let check = Check::of(0, limit, Cost::Take(1));
    let mut question = Question::new(vec![Key::read("tg1:concurrency:test")], vec![check]);
    question.take_under(&id, (By::Request, ONE), None, None);
    for _ in 0..most {
        assert!(matches!(store.decide(NOW, &question).leased, Leased::For { .. }));
    }
    for _ in 0..MOST_ENTRIES {
        assert_eq!(store.release(NOW, &id, LAST), Released::Live);
    }
    assert_eq!(store.release(NOW, &id, LAST), Released::AlreadyGone);
    assert_eq!(store.decide(NOW, &question).outcomes[0].remaining, u64::from(most) - 2);
    assert_eq!(free(&store, NOW + 2 * TERM_US), 10, "it ends by itself");
}

fn by(attempt: Attempt, id: &LeaseId) -> Question {
    let mut asked = question(By::Caller, id, Some(1));
    if let Some(taking) = &mut asked.taking {
        taking.attempt = attempt;
    }
    asked
}

#[test]
fn what_nobody_was_told_of_is_given_back_and_nothing_else() {
    let (store, id) = (Memory::new(1000), LeaseId::chosen("job").unwrap());
    store.decide(NOW, &by(ONE, &id));
    assert_eq!(store.release(NOW, &id, Release::Untold(TWO)), Released::AlreadyGone);
    assert_eq!(free(&store, NOW), 6, "it is another's");
    assert_eq!(store.release(NOW, &id, Release::Untold(ONE)), Released::Live);
    assert_eq!(free(&store, NOW), 10);
}

#[test]
fn an_attempt_that_is_given_back_before_it_comes_takes_nothing() {
    let (store, id) = (Memory::new(1000), LeaseId::chosen("job").unwrap());
    assert_eq!(store.release(NOW, &id, Release::Untold(ONE)), Released::AlreadyGone);
    let retried = store.decide(NOW, &by(TWO, &id)).leased;
    assert!(matches!(retried, Leased::For { .. }), "another attempt is another");
    assert_eq!(store.decide(NOW, &by(ONE, &id)).leased, Leased::Nothing);
    assert_eq!(free(&store, NOW), 6, "and is not taken for a repetition");
    assert_eq!(store.release(NOW, &id, Release::Untold(TWO)), Released::Live);
}

#[test]
fn a_lease_that_was_told_is_not_taken_away_by_a_repetition_that_was_not() {
    let (store, id) = (Memory::new(1000), LeaseId::chosen("job").unwrap());
    store.decide(NOW, &by(ONE, &id));
    store.decide(NOW, &by(TWO, &id));
    for attempt in [ONE, TWO] {
        store.release(NOW, &id, Release::Untold(attempt));
        assert_eq!(free(&store, NOW), 6);
    }
    assert_eq!(store.release(NOW, &id, LAST), Released::Live);
}

#[test]
fn the_end_of_a_stream_releases_what_no_later_one_holds() {
    let (store, id) = (Memory::new(1000), LeaseId::chosen("job").unwrap());
    store.decide(NOW, &by(ONE, &id));
    store.decide(NOW, &by(TWO, &id));
    assert_eq!(store.release(NOW, &id, Release::Ended(ONE)), Released::AlreadyGone);
    assert_eq!(free(&store, NOW), 6);
    assert_eq!(store.release(NOW, &id, Release::Ended(TWO)), Released::Live);
    assert_eq!(free(&store, NOW), 10);
}
