//! What was taken for a request, until its caller has been told.

use super::Decider;
use crate::lease::LeaseId;
use std::{fmt, sync::Arc};

/// Something may be held under a lease of which the caller does not know yet. Dropped, it is given back:
/// the request was cancelled, or is too late, and nobody else ever will.
#[must_use]
pub struct Taken {
    decider: Arc<Decider>,
    /// `None` where it is kept.
    id: Option<LeaseId>,
}

impl Taken {
    pub(super) fn new(decider: &Arc<Decider>, id: &LeaseId) -> Self {
        Self { decider: Arc::clone(decider), id: Some(id.clone()) }
    }

    /// The caller has been told.
    pub fn keep(mut self) {
        self.id = None;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.decider.give_back(id);
        }
    }
}

impl fmt::Debug for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taken").finish_non_exhaustive()
    }
}
