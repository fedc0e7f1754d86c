//! What was taken for a request, until its caller has been told.

use super::Decider;
use crate::lease::{Attempt, LeaseId};
use std::{fmt, sync::Arc};

/// Something may be held under a lease of which the caller does not know yet. Dropped, it is given back:
/// the request was cancelled, or is too late, and nobody else ever will.
#[must_use]
pub struct Taken {
    decider: Arc<Decider>,
    /// `None` where it is kept.
    what: Option<(LeaseId, Attempt)>,
}

impl Taken {
    pub(super) fn new(decider: &Arc<Decider>, id: &LeaseId, attempt: Attempt) -> Self {
        Self { decider: Arc::clone(decider), what: Some((id.clone(), attempt)) }
    }

    /// The attempt by which it was taken.
    pub fn attempt(&self) -> Option<Attempt> {
        self.what.as_ref().map(|(_, attempt)| *attempt)
    }

    /// The stream that held it has ended. Where it `may_come`, for nobody knows what became of the last
    /// renewal, it is given back also if it is taken only then.
    pub async fn end(mut self, may_come: bool) {
        if let Some((id, attempt)) = self.what.take() {
            self.decider.end(&id, attempt).await;
            if may_come {
                self.decider.give_back(id, attempt);
            }
        }
    }

    /// The caller has been told.
    pub fn keep(mut self) {
        self.what = None;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some((id, attempt)) = self.what.take() {
            self.decider.give_back(id, attempt);
        }
    }
}

impl fmt::Debug for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taken").finish_non_exhaustive()
    }
}
