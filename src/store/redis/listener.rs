//! Hears of releases: one connection of its own, that subscribes to the states which somebody here waits for.
//!
//! A release is announced on a channel of the state's name by the script that makes it, so whoever waits
//! behind another replica hears of it too. Nobody relies on it alone: a line that hears nothing looks by
//! itself, now and then.

use super::connection::LONGEST_CONNECT;
use crate::{
    key::Key,
    store::Queues,
    task::{Task, supervise},
};
use redis::{
    AsyncConnectionConfig, Client, PushInfo, PushKind, RedisError, Value,
    aio::{MultiplexedConnection, SendError},
};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::AbortHandle,
    time,
};

/// How often a lost connection is tried anew, while somebody waits.
const TRY_EVERY: Duration = Duration::from_millis(250);

/// The listener. The connection is opened when somebody waits for the first time.
pub(super) struct Listener {
    queues: Arc<Queues>,
    orders: mpsc::UnboundedSender<Order>,
    task: AbortHandle,
}

/// Releases of some states are announced until this is dropped.
#[derive(Debug)]
pub struct Listening {
    keys: Vec<Key>,
    orders: mpsc::UnboundedSender<Order>,
}

#[derive(Debug)]
enum Order {
    Listen(Vec<Key>, oneshot::Sender<()>),
    Leave(Vec<Key>),
}

impl Listener {
    pub(super) fn new(client: Client) -> Self {
        let queues = Arc::<Queues>::default();
        let (orders, mut received) = mpsc::unbounded_channel();
        let mut hearing = Hearing {
            client,
            queues: Arc::clone(&queues),
            connection: None,
            is_lost: Arc::default(),
            listeners: HashMap::new(),
        };
        let hearing = async move || hearing.run(&mut received).await;
        let task = tokio::spawn(supervise(Task::RedisReleases, hearing)).abort_handle();
        Self { queues, orders, task }
    }

    pub(super) fn queues(&self) -> &Queues {
        &self.queues
    }

    /// Listens to these states. It comes when nothing is missed any more, or when that cannot be had.
    pub(super) async fn listen(&self, keys: &[Key]) -> Listening {
        let (done, is_done) = oneshot::channel();
        // Whoever goes away meanwhile has ordered to leave.
        let listening = Listening { keys: keys.to_vec(), orders: self.orders.clone() };
        let _ = self.orders.send(Order::Listen(keys.to_vec(), done));
        let _ = is_done.await;
        listening
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.orders.send(Order::Leave(std::mem::take(&mut self.keys)));
    }
}

/// What the listener's task knows.
struct Hearing {
    client: Client,
    queues: Arc<Queues>,
    connection: Option<MultiplexedConnection>,
    is_lost: Arc<Notify>,
    /// How many listen to a state.
    listeners: HashMap<Key, usize>,
}

impl Hearing {
    async fn run(&mut self, orders: &mut mpsc::UnboundedReceiver<Order>) {
        // After a panic it is not known what the connection listens to.
        self.connection = None;
        loop {
            let is_wanted = self.connection.is_none() && !self.listeners.is_empty();
            let is_lost = Arc::clone(&self.is_lost);
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Listen(keys, done)) => {
                        self.listen(keys).await;
                        let _ = done.send(());
                    }
                    Some(Order::Leave(keys)) => self.leave(keys).await,
                    None => return,
                },
                () = is_lost.notified() => self.connection = None,
                () = time::sleep(TRY_EVERY), if is_wanted => self.connect().await,
            }
        }
    }

    async fn listen(&mut self, keys: Vec<Key>) {
        let mut new = Vec::new();
        for key in keys {
            let listeners = self.listeners.entry(key.clone()).or_default();
            *listeners += 1;
            if *listeners == 1 {
                new.push(key);
            }
        }
        match &mut self.connection {
            None => self.connect().await,
            Some(_) if new.is_empty() => {}
            Some(connection) => {
                if subscribe(connection, &new).await.is_none() {
                    self.connection = None;
                }
            }
        }
    }

    async fn leave(&mut self, keys: Vec<Key>) {
        for key in keys {
            let Some(listeners) = self.listeners.get_mut(&key) else { continue };
            *listeners -= 1;
            if *listeners > 0 {
                continue;
            }
            self.listeners.remove(&key);
            if let Some(connection) = &mut self.connection {
                let leaving = connection.unsubscribe(key.as_str());
                if !matches!(time::timeout(LONGEST_CONNECT, leaving).await, Ok(Ok(()))) {
                    self.connection = None;
                }
            }
        }
    }

    /// Connects, and listens to all that is listened to. What was announced before is not known, so
    /// everybody looks.
    async fn connect(&mut self) {
        let opened = time::timeout(LONGEST_CONNECT, self.open()).await;
        let Ok(Ok(mut connection)) = opened else { return };
        let keys: Vec<Key> = self.listeners.keys().cloned().collect();
        if subscribe(&mut connection, &keys).await.is_some() {
            self.connection = Some(connection);
            self.queues.announce_all();
        }
    }

    async fn open(&mut self) -> Result<MultiplexedConnection, RedisError> {
        self.is_lost = Arc::default();
        let heard = hears(Arc::clone(&self.queues), Arc::clone(&self.is_lost));
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_push_sender(heard);
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }
}

/// `None` where it was not to be had.
async fn subscribe(connection: &mut MultiplexedConnection, keys: &[Key]) -> Option<()> {
    if keys.is_empty() {
        return Some(());
    }
    let names: Vec<&str> = keys.iter().map(Key::as_str).collect();
    time::timeout(LONGEST_CONNECT, connection.subscribe(&names)).await.ok()?.ok()
}

/// What is called with all that Redis says unasked.
fn hears(queues: Arc<Queues>, is_lost: Arc<Notify>) -> impl Fn(PushInfo) -> Result<(), SendError> {
    move |push| {
        match (push.kind, push.data.first()) {
            (PushKind::Disconnection, _) => is_lost.notify_one(),
            (PushKind::Message, Some(Value::BulkString(channel))) => {
                if let Ok(channel) = std::str::from_utf8(channel) {
                    queues.announce(&Key::read(channel));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
