//! What came too late: its caller had been answered by the failure policy, or had left, and it was decided all the same.
//! The rates get back what they were charged. (What is held under a lease is given back by `decider/taken.rs`.)
//!
//! How much has been refilled since the charge, and is not given back as well, the script itself says at the moment at
//! which it gives back, by Redis's clock (`refund.rs`). That is right only for the rate, the burst
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
    key::Key,
    refund::Refund,
    store::StoreError,
    verdict::{Charge, Question},
};
use std::{sync::Arc, time::Duration};
use tokio::{runtime::Handle, time};

/// How long a late answer is listened for.
pub(super) const LONGEST_LATE: Duration = Duration::from_secs(30);

/// What a request was charged for nothing: its keys, and what each is to get back.
#[derive(Debug)]
struct Refunds {
    keys: Vec<Key>,
    refunds: Vec<Refund>,
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
        let Some(refunds) = Refunds::of(&late.question, charges, decided) else { return };
        let is_in_force = self.generation() == late.question.generation;
        // Once: twice would be once too often.
        let is_given_back = is_in_force && self.refund(&refunds, connection).await.unwrap_or(false);
        self.condition.count_late_charge(is_given_back);
    }

    /// Has something given back. Whether all of it was, but for what has been refilled. No request waits for it, so it
    /// may take as long as a slow Redis takes, also while that is not asked by those who do.
    async fn refund(&self, refunds: &Refunds, connection: Connection) -> Result<bool, StoreError> {
        let Refunds { keys, refunds } = refunds;
        let call = Call::refund(keys, refunds);
        let coming = self.send(connection, &call).ok_or(StoreError::Unreachable)?;
        let reply = time::timeout(LONGEST_LATE, coming).await;
        keys.iter().for_each(|key| self.denials.open(key));
        let reply = reply.unwrap_or(Err(StoreError::Late))?;
        let void = round::done(script::read_refunded(&reply, refunds.len()))?;
        Ok(void.iter().all(|charges| *charges == 0))
    }
}

impl Refunds {
    /// What gives back these charges of a question, which was decided at that instant by Redis's clock; `None` where
    /// there are none.
    fn of(question: &Question, charges: Vec<Charge>, decided: Timestamp) -> Option<Self> {
        let mut refunds = Self { keys: Vec::new(), refunds: Vec::<Refund>::new() };
        for Charge { slot, limit, amount } in charges {
            let key = question.keys.get(slot)?;
            let charge = (amount, decided);
            let known = refunds.keys.iter().position(|known| known == key);
            match known.and_then(|place| refunds.refunds.get_mut(place)) {
                Some(refund) if refund.limit == limit => refund.charges.push(charge),
                // Two limits on one state: the unit of the first is not that of the state any more.
                Some(_) => {}
                None => {
                    refunds.keys.push(key.clone());
                    refunds.refunds.push(Refund { limit, charges: vec![charge] });
                }
            }
        }
        (!refunds.keys.is_empty()).then_some(refunds)
    }
}
