//! Hears of changes to files. What it hears says that it is time to look, and nothing else.

use notify::{ErrorKind, Event, RecommendedWatcher, RecursiveMode, Watcher as _};
use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::sync::Notify;

/// Hears of changes at some paths, beside them, and in the directories that they are.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    heard: Arc<Notify>,
    listening: Option<RecommendedWatcher>,
    /// Where it listens.
    places: Vec<Place>,
    has_complained: bool,
}

/// A directory. Another one under the same name is another place.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Watcher {
    /// Listens where these paths lead to now; they may be links, and lead elsewhere than before.
    pub(super) fn attend(&mut self, paths: &[PathBuf]) {
        let places = places(paths);
        if places == self.places {
            return;
        }
        // The old one goes when the new one listens, and nothing is missed.
        match self.listen(&places) {
            Ok(listening) => self.listening = Some(listening),
            // It was there a moment ago. Next time it is, again, or is not looked for.
            Err(error) if is_gone(&error) => return,
            Err(_) if self.has_complained => {}
            Err(error) => {
                self.has_complained = true;
                tracing::warn!(
                    "changes of rule files are seen up to half a second later, by looking: cannot watch them ({error}); on Linux, raise fs.inotify.max_user_watches or max_user_instances"
                );
            }
        }
        self.places = places;
    }

    fn listen(&self, places: &[Place]) -> notify::Result<RecommendedWatcher> {
        let heard = Arc::clone(&self.heard);
        let mut listening = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // That somebody reads is no change: we do.
            if event.map_or(true, |event| !event.kind.is_access()) {
                heard.notify_one();
            }
        })?;
        for place in places {
            listening.watch(&place.path, RecursiveMode::NonRecursive)?;
        }
        Ok(listening)
    }

    /// Completes when something has changed since it last did.
    pub(super) async fn heard(&self) {
        self.heard.notified().await;
    }
}

fn is_gone(error: &notify::Error) -> bool {
    match &error.kind {
        ErrorKind::PathNotFound => true,
        ErrorKind::Io(error) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// The directories in which something changes when what stands at these paths does: each path's own, so that
/// one that is replaced or made anew is heard of; itself, if it is one; and where it leads to, if it is a link.
fn places(paths: &[PathBuf]) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    let mut add = |path: &Path| {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        // What is not there is looked for.
        let Ok(metadata) = fs::metadata(path) else { return };
        let (device, inode) = (metadata.dev(), metadata.ino());
        let is_new = !places.iter().any(|it| (it.device, it.inode) == (device, inode));
        if metadata.is_dir() && is_new {
            places.push(Place { path: path.to_owned(), device, inode });
        }
    };
    for path in paths {
        path.parent().into_iter().for_each(&mut add);
        add(path);
        if let Ok(path) = fs::canonicalize(path) {
            path.parent().into_iter().for_each(&mut add);
        }
    }
    places
}
