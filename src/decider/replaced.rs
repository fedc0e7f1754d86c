//! Rules that are not in force any more. Whoever has begun with them goes on with them, and to free many of them
//! takes a while: so they are kept until nobody uses them, and freed where no request waits for it.

use crate::rules::Rules;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task;

/// Rules that were replaced, until nobody uses them any more.
#[derive(Debug, Default)]
pub struct Replaced(Mutex<Vec<Arc<Rules>>>);

impl Replaced {
    /// Keeps what was in force until now.
    pub fn keep(&self, rules: Arc<Rules>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(rules);
    }

    /// Frees what nobody uses any more.
    pub async fn free(&self) {
        let unused: Vec<_> = {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extract_if(.., |rules| Arc::strong_count(rules) == 1).collect()
        };
        if !unused.is_empty() {
            // There is nothing to be told.
            let _ = task::spawn_blocking(move || drop(unused)).await;
        }
    }
}
