//! What goes on on a connection: whether calls are under way on it, and whether any has come of late. The connection's
//! calls note it, and the port that has to choose which connection to close looks at it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// What goes on on one connection.
#[derive(Debug, Default)]
pub struct Activity {
    /// Whether a call has come since this was last asked.
    has_called: AtomicBool,
    under_way: AtomicUsize,
}

impl Activity {
    /// A whole call has come, and is about to be answered.
    pub fn note(&self) {
        self.has_called.store(true, Ordering::Relaxed);
    }

    /// A whole call has come. It is under way until what this returns is dropped.
    pub fn begin(self: &Arc<Self>) -> Call {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.note();
        Call(Arc::clone(self))
    }

    /// Whether no call is under way.
    pub fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0
    }

    /// Whether a call has come since this was last asked.
    pub fn take_called(&self) -> bool {
        self.has_called.swap(false, Ordering::Relaxed)
    }
}

/// A call that is under way.
#[derive(Debug)]
#[must_use = "the call ends when it is dropped"]
pub struct Call(Arc<Activity>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}
