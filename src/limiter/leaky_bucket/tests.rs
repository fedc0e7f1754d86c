use super::*;
use crate::{config::domains_of, rules::Kind};
use proptest::prelude::*;

const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
const SECOND: u64 = 1_000_000;

fn limit(rate: u32, queue: u32) -> Limit {
    Limit::new(Rate::per(rate, Unit::Second), queue)
}

/// The state that a limit leaves.
#[derive(Default)]
struct Queue(Option<State>);

impl Queue {
    /// After which delay a hit goes on, or when one would be taken.
    fn hit(&mut self, limit: &Limit, now: Timestamp) -> Result<u64, Wait> {
        let checked = limit.check(self.0.as_ref(), now, Cost::Take(1));
        self.0 = checked.state.or(self.0);
        checked.over.map_or(Ok(checked.delay_us), Err)
    }
}

#[test]
fn hits_are_spaced_and_so_many_wait() {
    let (limit, mut queue) = (limit(10, 2), Queue::default());
    let hits: Vec<_> = (0..4).map(|_| queue.hit(&limit, NOW)).collect();
    assert_eq!(hits, [Ok(0), Ok(100_000), Ok(200_000), Err(Wait::Micros(100_000))]);
    assert_eq!(queue.hit(&limit, NOW + 100_000), Ok(200_000));
    assert_eq!(queue.hit(&limit, NOW + SECOND), Ok(0), "nothing waits any more");
}

#[test]
fn without_a_queue_what_comes_too_early_is_refused() {
    let (limit, mut queue) = (limit(10, 0), Queue::default());
    assert_eq!(queue.hit(&limit, NOW), Ok(0));
    assert_eq!(queue.hit(&limit, NOW + 40_000), Err(Wait::Micros(60_000)));
    assert_eq!(queue.hit(&limit, NOW + 100_000), Ok(0));
}

#[test]
fn a_delay_that_is_too_long_is_refused_and_charges_nothing() {
    let (limit, mut queue) = (limit(10, 20), Queue::default());
    let patient = limit.within(150_000);
    assert_eq!(queue.hit(&patient, NOW), Ok(0));
    assert_eq!(queue.hit(&patient, NOW), Ok(100_000));
    assert_eq!(queue.hit(&patient, NOW), Err(Wait::Micros(50_000)));
    assert_eq!(queue.hit(&limit, NOW), Ok(200_000), "the refused one is not there");
    assert_eq!(patient.remaining(queue.0.as_ref(), NOW), 18);
}

#[test]
fn a_peek_says_whether_a_hit_would_be_taken() {
    let (limit, mut queue) = (limit(10, 1), Queue::default());
    let peek = |queue: &Queue| limit.check(queue.0.as_ref(), NOW, Cost::Peek);
    assert_eq!(queue.hit(&limit, NOW), Ok(0));
    assert_eq!(peek(&queue), Checked::undelayed(None, None), "it delays nothing itself");
    assert_eq!(queue.hit(&limit, NOW), Ok(100_000));
    assert_eq!(peek(&queue).over, Some(Wait::Micros(100_000)));
}

proptest! {
    /// Those that are admitted go on at least as far apart as the rate says, whenever they come.
    #[test]
    fn what_goes_on_is_spaced(
        (rate, queue) in (1..20_u32, 0..10_u32),
        steps in prop::collection::vec(0..300_000_u64, 1..80),
    ) {
        let (limit, mut hits) = (limit(rate, queue), Queue::default());
        let (mut now, mut last) = (NOW, None::<Timestamp>);
        for step in steps {
            now = now + step;
            let Ok(delay_us) = hits.hit(&limit, now) else { continue };
            let goes_on = now + delay_us;
            if let Some(last) = last {
                // Rounded to whole microseconds twice.
                prop_assert!((goes_on - last + 1) * u64::from(rate) >= SECOND);
            }
            prop_assert!(delay_us * u64::from(rate) <= u64::from(queue) * SECOND + u64::from(rate));
            last = Some(goes_on);
        }
    }
}

#[test]
fn it_is_read_from_a_rule_file() {
    let kind = |inside: &str| {
        let text = format!("domain: a\ndescriptors: [{{key: b, leaky_bucket: {inside}}}]\n");
        domains_of(&text)[0].descriptors[0].limits[0].kind
    };
    assert_eq!(
        kind("{rate: 10/s, queue: 20}"),
        Kind::Limit(crate::limiter::Limit::LeakyBucket(limit(10, 20)))
    );
    assert_eq!(kind("{rate: 10/s}"), Kind::Limit(crate::limiter::Limit::LeakyBucket(limit(10, 0))));
    assert_eq!(limit(10, 20).in_words(), "10 per second, up to 20 waiting");
}

/// Two hits of one request on one queue, of which the second waits for longer than the caller does, are refused for a
/// while and not for ever.
#[test]
fn what_a_caller_does_not_wait_for_is_not_refused_for_ever() {
    use crate::{
        key::{Key, Path},
        verdict::{Check, Question, Verdict, settle},
    };
    let patient = crate::limiter::Limit::LeakyBucket(limit(10, 5).within(50_000));
    let key = Key::new("leaky_bucket", &Path::of_domain(b"test"));
    let question = Question::new(vec![key], vec![Check::of(0, patient, Cost::Take(1)); 2]);
    let (answer, _) = settle(&question, &[None], NOW);
    let refusal = Verdict::of(&question.checks, answer).refusal.unwrap();
    assert_eq!(refusal.wait, Wait::Micros(50_000));
}

#[test]
fn a_queue_outlives_a_rate_of_0() {
    let closed = limit(0, 20);
    assert_eq!(closed.in_words(), "0 per second, up to 20 waiting");
    let rate = Some(Rate::per(10, Unit::Second));
    let open = closed.set(Setting { rate, ..Setting::default() });
    assert_eq!(open, Some(limit(10, 20)));
}

#[test]
fn overdraw_beside_it_is_an_error() {
    let text = "domain: a\ndescriptors: [{key: b, leaky_bucket: {rate: 1/s}, overdraw: true}]\n";
    let source = crate::config::Source { name: "a.yaml".into(), text: text.into() };
    let loaded = crate::config::parse(vec![source], &crate::config::Options::default());
    let message = &loaded.diagnostics[0].message;
    assert!(message.starts_with("`overdraw` beside `leaky_bucket`"), "{message}");
}
