//! What the limits have in common that count requests in flight: a request takes slots, or is refused while
//! too few are free, and gives them back when it ends. What is free is what tells them apart.

use crate::{
    clock::Timestamp,
    lease::{InFlight, Slots, Term},
    limiter::{Checked, Cost, Wait},
};

/// A limit on slots.
pub trait SlotLimit {
    /// How long a lease lasts unless it is renewed.
    fn term(&self) -> Term;

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

    /// When there may be more slots than there ever are now.
    fn wait_for_more(&self) -> Wait {
        Wait::Never
    }

    /// Checks a cost against a state, and gives the state it leaves. To give back takes the lease, so a
    /// refund does nothing here.
    fn check(&self, state: Option<&InFlight>, now: Timestamp, cost: Cost) -> Checked<InFlight> {
        let mut live = InFlight::live(state, now);
        match cost {
            Cost::Peek => Checked { state: None, over: self.lacks(&live, now, 1) },
            Cost::Refund(_) => Checked { state: None, over: None },
            Cost::Take(slots) => match self.lacks(&live, now, slots) {
                None => {
                    live.add(self.term().deadline(now), Slots::of(slots, self.is_critical()));
                    Checked { state: Some(live), over: None }
                }
                over => Checked { state: None, over },
            },
        }
    }

    /// Slots that are free.
    fn remaining(&self, state: Option<&InFlight>, now: Timestamp) -> u64 {
        self.free(InFlight::live(state, now).slots())
    }

    /// Until when so many slots are not free, if nobody gives any back; `None` where they are.
    fn lacks(&self, live: &InFlight, now: Timestamp, slots: u64) -> Option<Wait> {
        if self.only_counts() || self.free(live.slots()) >= slots {
            return None;
        }
        let fits_at = live.fits_at(|left| self.free(left) >= slots);
        Some(fits_at.map_or(self.wait_for_more(), |instant| Wait::Micros(instant - now)))
    }
}
