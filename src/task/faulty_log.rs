//! A log that panics, by which tests have real background tasks panic.

use std::{
    fmt::{self, Write as _},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};

/// The lines that were logged on this thread. The first that contains certain words panics where it is logged.
pub(crate) struct FaultyLog {
    lines: Arc<Mutex<Vec<String>>>,
    _current: DefaultGuard,
}

impl FaultyLog {
    /// The log of this thread, until it is dropped.
    pub(crate) fn panics_at(words: &'static str) -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let faulty =
            Faulty { words, has_panicked: AtomicBool::new(false), lines: Arc::clone(&lines) };
        Self { lines, _current: tracing::subscriber::set_default(faulty) }
    }

    /// How many lines contain these words.
    pub(crate) fn count(&self, words: &str) -> usize {
        self.lines.lock().unwrap().iter().filter(|line| line.contains(words)).count()
    }
}

struct Faulty {
    words: &'static str,
    has_panicked: AtomicBool,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Subscriber for Faulty {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        struct Line(String);
        impl Visit for Line {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                write!(self.0, "{}={value:?} ", field.name()).unwrap();
            }
        }
        let mut line = Line(String::new());
        event.record(&mut line);
        let is_bad = line.0.contains(self.words);
        self.lines.lock().unwrap().push(line.0);
        let panics = is_bad && !self.has_panicked.swap(true, Ordering::Relaxed);
        assert!(!panics, "the log is faulty, as the test wants it");
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
