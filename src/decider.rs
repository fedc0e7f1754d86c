//! One request, one decision: the clock once, the rules, the store once, the fold.

mod fold;
#[cfg(test)]
mod tests;

use crate::{
    clock::Clock,
    decision::Decision,
    request::Request,
    rules::Rules,
    store::{Store, StoreError},
    verdict::Verdict,
};

/// How a whole process decides, beside what its rules say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    /// Nobody is refused: everything is decided and charged as if it were enforced, and answered OK.
    pub shadow: bool,
    /// Every limit is a quota limit.
    pub quota: bool,
    /// Answers carry the metadata of the rules.
    pub metadata: bool,
}

/// Decides requests.
#[derive(Debug)]
pub struct Decider {
    rules: Rules,
    store: Store,
    clock: Clock,
    modes: Modes,
}

impl Decider {
    /// A decider over these rules, with states kept in this store.
    pub const fn new(rules: Rules, store: Store, clock: Clock, modes: Modes) -> Self {
        Self { rules, store, clock, modes }
    }

    /// The rules in force.
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// How it decides, beside what the rules say.
    pub const fn modes(&self) -> Modes {
        self.modes
    }

    /// Where it keeps its states.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Decides a request.
    ///
    /// # Errors
    ///
    /// Where the store did not decide.
    pub async fn decide(&self, request: &Request) -> Result<Decision, StoreError> {
        let now = self.clock.now();
        let resolution = self.rules.resolve(request, self.modes.quota);
        let verdict = match self.store.decide(now, &resolution.keys, &resolution.checks).await {
            Ok(verdict) => verdict,
            Err(error) => on_store_failure(error)?,
        };
        let mut decision = fold::fold(&resolution, &verdict, self.modes.shadow);
        if self.modes.metadata {
            decision.metadata = fold::metadata(&resolution, &decision.statuses);
        }
        Ok(decision)
    }
}

/// The one place that says what to answer when the store did not decide: that it did not, whatever the
/// rules want done then.
const fn on_store_failure(error: StoreError) -> Result<Verdict, StoreError> {
    Err(error)
}
