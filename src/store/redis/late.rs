//! What came too late: its caller had been answered by the failure policy, or had left, and it was decided all the same.
//! The rates get back what they were charged. (What is held under a lease is given back by `decider/taken.rs`.)
//!
//! How much has been refilled since the charge, and is not given back as well, the script itself says at the moment at
//! which it gives back, by Redis's clock (`limiter/token_bucket/ledger.rs`). That is right only for the rate, the burst
//! and the unit of the charge: so nothing is given back once this process follows other rules, nor where the state says
//! that its unit has changed or the clock was set back.
//!
//! It is given back over the connection on which the answer came, though that may have been replaced meanwhile because it
//! was slow: this is the Redis that charged it. Behind the same name there may be another by now, which may not know of it.

use super::{
    connection::Connection,
    round::{self, Late, LateAnswer},
    script::{self, Call},
    way::Way,
};
use crate::{
    clock::Timestamp,
    grant::{Ask, Granted},
    key::Key,
    limiter::token_bucket::{Claim, Returned},
    store::{StoreError, draw},
    verdict::{Charge, Question},
};
use std::{num::NonZeroU64, sync::Arc, time::Duration};
use tokio::{runtime::Handle, time};

/// How long a late answer is listened for.
pub(super) const LONGEST_LATE: Duration = Duration::from_secs(30);

/// What a request was charged for nothing: its keys, and what each is to get back.
#[derive(Debug)]
struct Refund {
    keys: Vec<Key>,
    asks: Vec<Ask>,
}

impl Way {
    /// Does what is to be done about an answer for which nobody waits any more.
    pub(super) fn hear_late(self: &Arc<Self>, late: Late, answer: Result<LateAnswer, StoreError>) {
        match answer {
            Ok(answer) => {
                // Where the runtime is gone, so is the process.
                let Ok(runtime) = Handle::try_current() else { return };
                let way = Arc::clone(self);
                runtime.spawn(async move { way.give_back(&late, answer).await });
            }
            // It was not decided.
            Err(StoreError::Refused(_) | StoreError::Unreadable | StoreError::Unreachable) => {}
            // Nobody will ever know.
            Err(_) => self.condition.count_late_charge(false),
        }
    }

    /// Gives back what a question was charged by an answer that came too late.
    async fn give_back(self: &Arc<Self>, late: &Late, answer: LateAnswer) {
        let LateAnswer { answer, decided, connection } = answer;
        let charges = late.question.charged(answer);
        let Some(refund) = Refund::of(&late.question, charges, decided) else { return };
        let is_in_force = self.generation() == late.question.generation;
        // Once: twice would be once too often.
        let is_given_back = is_in_force && self.refund(&refund, connection).await.unwrap_or(false);
        self.condition.count_late_charge(is_given_back);
    }

    /// Has something given back. Whether all of it was, but for what has been refilled. No request waits for it, so it
    /// may take as long as a slow Redis takes, also while that is not asked by those who do.
    async fn refund(&self, refund: &Refund, connection: Connection) -> Result<bool, StoreError> {
        let Refund { keys, asks } = refund;
        let call = Call::grant(keys.iter().collect(), &asks.iter().collect::<Vec<_>>());
        let coming = self.send(connection, &call).ok_or(StoreError::Unreachable)?;
        let reply = time::timeout(LONGEST_LATE, coming).await;
        keys.iter().for_each(|key| self.denials.open(key));
        let reply = reply.unwrap_or(Err(StoreError::Late))?;
        let granted = round::done(script::read_granted(&reply, asks.len()))?;
        Ok(granted.iter().all(|Granted { void, .. }| *void == 0))
    }
}

impl Refund {
    /// What gives back these charges of a question, which was decided at that instant by Redis's clock; `None` where
    /// there are none.
    fn of(question: &Question, charges: Vec<Charge>, decided: Timestamp) -> Option<Self> {
        let mut refund = Self { keys: Vec::new(), asks: Vec::<Ask>::new() };
        // No ledger begins by a refund.
        let drawn = draw().ok().and_then(NonZeroU64::new).unwrap_or(NonZeroU64::MIN);
        for Charge { slot, limit, tokens } in charges {
            let key = question.keys.get(slot)?;
            let returned = Returned { tokens, claim: Claim::At(decided) };
            let known = refund.keys.iter().position(|known| known == key);
            match known.and_then(|place| refund.asks.get_mut(place)) {
                Some(ask) if ask.limit == limit => ask.returned.push(returned),
                // Two limits on one state: the unit of the first is not that of the state any more.
                Some(_) => {}
                None => {
                    refund.keys.push(key.clone());
                    refund.asks.push(Ask { limit, returned: vec![returned], wanted: 0, drawn });
                }
            }
        }
        (!refund.asks.is_empty()).then_some(refund)
    }
}
