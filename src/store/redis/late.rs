//! What came too late: its caller had been answered by the failure policy, or had left, and it was decided all the same.
//! The rates get back what they were charged. (What is held under a lease is given back by `decider/taken.rs`.)

use super::{
    round::{self, Late},
    script::{self, Call},
    way::Way,
};
use crate::{
    store::StoreError,
    verdict::{Answer, Question},
};
use std::{sync::Arc, time::Duration};
use tokio::{runtime::Handle, time};

/// How long a late answer is listened for.
pub(super) const LONGEST_LATE: Duration = Duration::from_secs(30);

/// How often what came too late is tried to be given back, and how long after another.
const MOST_TRIES: usize = 20;
const TRY_EVERY: Duration = Duration::from_millis(100);

impl Way {
    /// Does what is to be done about an answer for which nobody waits any more.
    pub(super) fn hear_late(self: &Arc<Self>, late: Late, answer: Result<Answer, StoreError>) {
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
    async fn give_back(self: &Arc<Self>, late: &Late, answer: Answer) {
        for _ in 0..MOST_TRIES {
            let ago_us = self.clock.now() - late.began;
            let refund = late.question.giving_back(answer.clone(), ago_us);
            let Some(refund) = refund else { return };
            match self.refund(&refund).await {
                Ok(_) => return self.condition.count_late_charge(true),
                // Twice would be once too often.
                Err(error) if error.may_be_done() => break,
                Err(_) => time::sleep(TRY_EVERY).await,
            }
        }
        self.condition.count_late_charge(false);
    }

    /// Has something given back. Nobody waits for it, so it may take as long as a slow Redis takes, also
    /// while that is not asked by those who do.
    async fn refund(&self, refund: &Question) -> Result<Answer, StoreError> {
        let connection = self.lanes.here().connection().await.ok_or(StoreError::Unreachable)?;
        let coming = self.send(connection, &Call::request(refund));
        let coming = coming.ok_or(StoreError::Unreachable)?;
        let reply = time::timeout(LONGEST_LATE, coming).await;
        self.denials.open_all(refund);
        let reply = reply.unwrap_or(Err(StoreError::Late))?;
        round::done(script::read_answer(&reply, refund))
    }
}
