//! What the limits have in common that count requests in flight: a request takes slots, or is refused while
//! too few are free, and gives them back when it ends. What is free is what tells them apart.

use crate::{
    clock::Timestamp,
    lease::{Bucket, InFlight, Slots, Term},
    limiter::{Algorithm, Checked, Cost, Limiter, Numbers, Wait},
    worker::Workers,
};

/// A limit on slots. Its [`Algorithm`] follows from these.
pub trait SlotLimit: Limiter {
    /// How long a lease lasts unless it is renewed.
    fn term(&self) -> Term;

    /// The same limit with leases of another term.
    #[must_use]
    fn with_term(self, term: Term) -> Self;

    /// Whether a request takes as many slots as it has hits, and not one.
    fn weighs_hits(&self) -> bool;

    /// How many slots are free for the requests that meet this limit, where so many are taken.
    fn free(&self, taken: Slots) -> u64;

    /// Whether those requests are critical.
    fn is_critical(&self) -> bool {
        false
    }

    /// Whether they are counted and never refused.
    fn only_counts(&self) -> bool {
        false
    }

    /// Whether there are as many slots as the workers of its pool report.
    fn has_reported_capacity(&self) -> bool {
        false
    }

    /// The same limit, once it is known what the workers of its pool report.
    #[must_use]
    fn with_reported_capacity(self, _: Option<&Workers>, _: Timestamp) -> Self {
        self
    }

    /// When there may be more slots than there ever are now.
    fn wait_for_more(&self) -> Wait {
        Wait::Never
    }

    /// Until when so many slots are not free, if none are given back; `None` where they are.
    fn lacks(&self, live: &InFlight, now: Timestamp, slots: u64) -> Option<Wait> {
        if self.only_counts() || self.free(live.slots()) >= slots {
            return None;
        }
        let fits_at = live.fits_at(|left| self.free(left) >= slots);
        Some(fits_at.map_or(self.wait_for_more(), |instant| Wait::Micros(instant - now)))
    }
}

impl<L: SlotLimit> Algorithm for L {
    type State = InFlight;

    /// To give back takes the lease, so a refund does nothing here.
    fn check(&self, state: Option<&InFlight>, now: Timestamp, cost: Cost) -> Checked<InFlight> {
        let mut live = InFlight::live(state, now);
        match cost {
            Cost::Peek => Checked::undelayed(None, self.lacks(&live, now, 1)),
            Cost::Refund(_) => Checked::undelayed(None, None),
            Cost::Take(slots) => match self.lacks(&live, now, slots) {
                None => {
                    live.add(self.term().deadline(now), Slots::of(slots, self.is_critical()));
                    Checked::undelayed(Some(live), None)
                }
                over => Checked::undelayed(None, over),
            },
        }
    }

    fn remaining(&self, state: Option<&InFlight>, now: Timestamp) -> u64 {
        self.free(InFlight::live(state, now).slots())
    }

    fn full_in_us(&self, state: Option<&InFlight>, now: Timestamp) -> u64 {
        InFlight::live(state, now).empty_at().map_or(0, |instant| instant - now)
    }

    fn refill_us(&self) -> u64 {
        self.term().as_micros()
    }

    fn expires_at(&self, state: &InFlight) -> Option<Timestamp> {
        state.empty_at()
    }

    fn clamped_to_now(&self, state: &InFlight, now: Timestamp) -> Option<InFlight> {
        state.pulled_back(self.term(), now)
    }

    fn read_state(numbers: &mut Numbers<'_>) -> Option<InFlight> {
        let (since, mut buckets) = (numbers.instant()?, Vec::new());
        while !numbers.are_over() {
            let deadline = numbers.instant()?;
            let slots = Slots { critical: numbers.count()?, others: numbers.count()? };
            buckets.push(Bucket { deadline, slots });
        }
        Some(InFlight { since, buckets })
    }
}
