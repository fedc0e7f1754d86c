//! Connections to Redis, as the pool manages them.
//!
//! A connection carries many calls at a time: each is written as it comes, and answers come back in
//! order. It is taken from the pool only to be copied. Whether it works is not asked at that moment: it is broken when it
//! was lost, which its reader notices by itself, and when it was tried in vain, which the keeper does.

use super::{
    Scripts,
    condition::Condition,
    fault,
    incarnation::{Generations, Incarnation},
    script::{Call, Script},
    survey,
};
use crate::{
    key::{Key, Path},
    verdict::Question,
};
use bb8_redis::bb8::ManageConnection;
use redis::{
    AsyncConnectionConfig, Client, PushInfo, PushKind, RedisError, Value,
    aio::{MultiplexedConnection, SendError},
};
use std::{fmt, sync::Arc, time::Duration};
use tokio::time;
use tokio_util::sync::CancellationToken;

/// How long it may take to connect: less than a second, so that a Redis that comes back is found within
/// one, even by an attempt that began in vain.
pub(super) const LONGEST_CONNECT: Duration = Duration::from_millis(500);

/// A connection. Clones share it.
#[derive(Clone)]
pub(super) struct Connection {
    /// The way to Redis.
    pub(super) redis: MultiplexedConnection,
    /// What Redis calls the scripts, each at its place.
    pub(super) shas: Arc<[String]>,
    /// Which Redis it leads to.
    pub(super) incarnation: Incarnation,
    broken: Broken,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("incarnation", &self.incarnation).finish_non_exhaustive()
    }
}

/// Whether a connection is broken.
#[derive(Clone)]
struct Broken {
    token: CancellationToken,
    generations: Arc<Generations>,
}

impl Broken {
    /// It is, if it was not before.
    fn set(&self) {
        if !self.token.is_cancelled() {
            self.generations.raise();
        }
        self.token.cancel();
    }
}

impl Connection {
    /// Has the pool replace it.
    pub(super) fn set_broken(&self) {
        self.broken.set();
    }

    fn is_broken(&self) -> bool {
        self.broken.token.is_cancelled()
    }

    /// Completes when it is known to be broken.
    pub(super) async fn until_broken(&self) {
        self.broken.token.cancelled().await;
    }

    /// Calls the script about a state that is nobody's, with nothing to check. So whoever may not call it is
    /// told when connecting.
    pub(super) async fn try_script(&mut self) -> Result<(), RedisError> {
        let question = Question { keys: vec![nobodys()], ..Question::default() };
        let call = Call::request(&question);
        if let Some(sha) = self.shas.get(Script::Request.place()) {
            call.by_name(sha).query_async::<Value>(&mut self.redis).await?;
        }
        Ok(())
    }

    /// Does what the scripts will do with states. Whoever may do only half of it would leave half a request.
    async fn try_commands(&mut self) -> Result<(), RedisError> {
        let nobodys = nobodys();
        let nobodys = nobodys.as_str();
        let mut pipe = redis::pipe();
        pipe.cmd("GET").arg(nobodys).cmd("SET").arg(nobodys).arg("").arg("PX").arg(1);
        match pipe.cmd("UNLINK").arg(nobodys).exec_async(&mut self.redis).await {
            Err(error) if fault::code(&error) == Some("NOPERM") => Err(error),
            // Whatever else it has to say, it will say to whoever asks.
            _ => Ok(()),
        }
    }
}

/// The key of a state of nobody's, for no domain has no name.
fn nobodys() -> Key {
    Key::new("", &Path::of_domain(b""))
}

/// Makes connections that are fit to decide.
#[derive(Clone)]
pub(super) struct Manager {
    client: Client,
    /// Tells apart what silence and a lost connection may mean.
    is_tls: bool,
    scripts: Arc<Scripts>,
    condition: Arc<Condition>,
    generations: Arc<Generations>,
}

/// There is no connection, or it is broken; the condition says why.
#[derive(Debug)]
pub(super) struct NoConnection;

impl Manager {
    pub(super) fn new(
        client: Client,
        is_tls: bool,
        scripts: Arc<Scripts>,
        condition: Arc<Condition>,
    ) -> Self {
        Self { client, is_tls, scripts, condition, generations: Arc::default() }
    }

    /// How often connections were found broken.
    pub(super) fn generations(&self) -> Arc<Generations> {
        Arc::clone(&self.generations)
    }

    /// Opens a connection. An error says what is wrong, and what to do.
    async fn open(&self) -> Result<Connection, String> {
        let (token, generations) = (CancellationToken::new(), self.generations());
        let broken = Broken { token, generations };
        let config = AsyncConnectionConfig::new()
            // Whoever asks has a timeout of his own.
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_push_sender(when_lost(broken.clone()));
        let redis = self.client.get_multiplexed_async_connection_with_config(&config);
        let mut redis = redis.await.map_err(|error| fault::of_connecting(&error, self.is_tls))?;
        let (mut cautions, run_id) = survey::survey(&mut redis).await?;
        cautions.extend(survey::may_announce(&mut redis).await);
        self.condition.set_cautions(cautions);
        let shas =
            load(&mut redis, &self.scripts).await.map_err(|error| fault::in_words(&error))?;
        // Last, so that it is no older than a break meanwhile.
        let incarnation = self.generations.of(run_id.as_deref());
        let mut connection = Connection { redis, shas: shas.into(), incarnation, broken };
        connection.try_script().await.map_err(|error| fault::in_words(&error))?;
        connection.try_commands().await.map_err(|error| fault::in_words(&error))?;
        Ok(connection)
    }
}

/// What is called with all that Redis says unasked, and marks the connection when it is lost.
fn when_lost(broken: Broken) -> impl Fn(PushInfo) -> Result<(), SendError> {
    move |push| {
        if push.kind == PushKind::Disconnection {
            broken.set();
        }
        Ok(())
    }
}

/// Has Redis keep the scripts. Returns what Redis calls them.
async fn load(
    redis: &mut MultiplexedConnection,
    scripts: &Scripts,
) -> Result<Vec<String>, RedisError> {
    let mut pipe = redis::pipe();
    for script in scripts {
        pipe.cmd("SCRIPT").arg("LOAD").arg(script);
    }
    pipe.query_async(redis).await
}

impl ManageConnection for Manager {
    type Connection = Connection;
    type Error = NoConnection;

    async fn connect(&self) -> Result<Connection, NoConnection> {
        let opened = time::timeout(LONGEST_CONNECT, self.open()).await;
        let opened = opened.unwrap_or_else(|_| Err(fault::of_silence(self.is_tls).to_owned()));
        self.condition.set_down(opened.as_ref().err().cloned());
        opened.map_err(|_| NoConnection)
    }

    async fn is_valid(&self, connection: &mut Connection) -> Result<(), NoConnection> {
        if connection.is_broken() { Err(NoConnection) } else { Ok(()) }
    }

    fn has_broken(&self, connection: &mut Connection) -> bool {
        connection.is_broken()
    }
}
