//! The token of the admin port: a secret that whoever asks there must know.

#[cfg(test)]
mod tests;

use crate::task;
use axum::http::{HeaderMap, HeaderValue, header};
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use subtle::ConstantTimeEq as _;
use tokio::{
    sync::watch,
    time::{self, MissedTickBehavior},
};

/// The fewest characters of a token: fewer can be guessed.
const SHORTEST: usize = 16;

/// How often its file is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Where a token comes from.
#[derive(Clone)]
pub enum TokenSource {
    /// From a file, which may change.
    File(PathBuf),
    /// From the environment.
    Environment(String),
}

/// Nothing of a secret is shown.
impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Environment(_) => f.write_str("Environment"),
        }
    }
}

/// Why something is no token.
#[derive(Debug, thiserror::Error)]
pub enum InvalidToken {
    /// The file cannot be read.
    #[error("--admin-token-file {}: {why}", path.display())]
    Unreadable {
        /// Where it should be.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// It can be guessed, or not be sent.
    #[error(
        "{place}: a token has at least {SHORTEST} characters, which are letters, digits and punctuation: make one with `openssl rand -hex 32`"
    )]
    Weak {
        /// Where it was found.
        place: String,
    },
}

/// A token, as it is at any time. Clones are the same.
#[derive(Clone)]
pub struct Token {
    source: TokenSource,
    secret: Arc<watch::Sender<String>>,
}

impl Token {
    /// The token that is there.
    ///
    /// # Errors
    ///
    /// Where there is none, or one that is worth nothing.
    pub fn open(source: TokenSource) -> Result<Self, InvalidToken> {
        let secret = Arc::new(watch::Sender::new(source.read()?));
        Ok(Self { source, secret })
    }

    /// Whether these headers bring it. How long that takes says nothing of how much of it is right.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let value =
            headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        let Some((scheme, given)) = value.split_at_checked(b"Bearer ".len()) else { return false };
        let is_right = given.trim_ascii().ct_eq(self.secret.borrow().as_bytes());
        scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(is_right)
    }

    /// The header that brings it.
    pub fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", *self.secret.borrow())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Looks after its file for ever, where it has one: what stands there is the token within seconds, and
    /// what is none is logged, while the old one stays.
    pub async fn keep_current(&self) {
        let TokenSource::File(_) = self.source else { return };
        let mut ticks = time::interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = None;
        loop {
            ticks.tick().await;
            let source = self.source.clone();
            let Some(read) = task::blocking(move || source.read()).await else { return };
            let error = match read {
                Ok(secret) => {
                    let is_new = self.secret.send_if_modified(|current| {
                        let is_new = *current != secret;
                        *current = secret;
                        is_new
                    });
                    if is_new {
                        tracing::info!("a new admin token is in force");
                    }
                    None
                }
                Err(error) => Some(error.to_string()),
            };
            if let Some(error) = error.as_ref().filter(|_| error != told) {
                tracing::error!("the admin token stays as it was: {error}");
            }
            told = error;
        }
    }
}

impl TokenSource {
    fn read(&self) -> Result<String, InvalidToken> {
        match self {
            Self::File(path) => {
                let read = fs::read(path);
                let unreadable = |why| InvalidToken::Unreadable { path: path.clone(), why };
                check(&read.map_err(unreadable)?, || place(path))
            }
            Self::Environment(text) => check(text.as_bytes(), || "TOLLGATE_ADMIN_TOKEN".to_owned()),
        }
    }
}

fn place(path: &Path) -> String {
    format!("--admin-token-file {}", path.display())
}

/// Space around it is not part of it: files end with a newline.
fn check(text: &[u8], place: impl Fn() -> String) -> Result<String, InvalidToken> {
    let text = text.trim_ascii();
    let is_good = text.len() >= SHORTEST && text.iter().all(u8::is_ascii_graphic);
    let token = String::from_utf8(text.to_vec()).ok().filter(|_| is_good);
    token.ok_or_else(|| InvalidToken::Weak { place: place() })
}
