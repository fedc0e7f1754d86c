//! Carriers: tasks that take rounds to Redis, and tell each who waits what became of his request.
//!
//! A carrier hears the answer also where nobody waits for it any more, so that what it charged can be given back, and
//! does not keep others waiting for it: when Redis has had its time, another takes the next round.

use super::{
    batch::Batch,
    connection::Connection,
    lane::Lane,
    late::LONGEST_LATE,
    round::{self, Left, Round, Told},
    script::Script,
    way::{Way, failure},
};
use crate::{clock::Deadline, store::StoreError};
use futures_util::FutureExt as _;
use redis::{RedisError, Value};
use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc};
use tokio::time;

impl Way {
    /// Has a further task take rounds of a lane along.
    pub(super) fn start_carrier(self: &Arc<Self>, lane: &Arc<Lane>) {
        let (way, its) = (Arc::clone(self), Arc::clone(lane));
        lane.runtime.spawn(async move {
            let mut is_his_first = true;
            while let Some(round) = its.next(is_his_first) {
                is_his_first = false;
                match AssertUnwindSafe(way.carry(&its, &round)).catch_unwind().await {
                    Ok(true) => {}
                    Ok(false) => break,
                    // A bug: those who wait are late, but the next rounds are taken.
                    Err(_) => {
                        if its.stay_behind() {
                            way.start_carrier(&its);
                        }
                        break;
                    }
                }
            }
        });
    }

    /// Takes a round along, and tells what came of it. Whether it came in time, and the next can be taken.
    async fn carry(self: &Arc<Self>, lane: &Arc<Lane>, round: &Round) -> bool {
        let Some(connection) = lane.connection().await else {
            self.hear_left(round.settle(|_| Err(StoreError::Unreachable)));
            return true;
        };
        let patience = Deadline::after(self.timeout());
        let sha = connection.shas.get(Script::Request.place()).map_or("", String::as_str);
        let Some(command) = round.depart(sha) else { return true };
        let mut coming = pin!(self.call(connection.clone(), command, Script::Request.place()));
        let in_time = patience.bound(async {
            tokio::select! {
                biased;
                reply = &mut coming => Some(reply),
                // What comes of it nobody knows, but others need not wait for that.
                () = connection.until_broken() => None,
            }
        });
        let in_time = in_time.await.flatten();
        if let Some(Ok(_)) = &in_time {
            self.breaker.hit();
        }
        let is_in_time = in_time.is_some();
        let reply = match in_time {
            Some(reply) => reply,
            None => {
                if lane.stay_behind() {
                    self.start_carrier(lane);
                }
                // Whoever is still there waits for as long as he may.
                match patience.bound(&mut coming).await {
                    Some(reply) => reply,
                    None => match self.listen(round, coming).await {
                        Some(reply) => reply,
                        None => return false,
                    },
                }
            }
        };
        self.hear_left(round.settle(|batch| read(batch, &connection, reply)));
        is_in_time
    }

    /// What comes of a round after Redis has had its time; `None` where that interests nobody, or was never known.
    async fn listen(
        self: &Arc<Self>,
        round: &Round,
        coming: impl Future<Output = Result<Value, RedisError>>,
    ) -> Option<Result<Value, RedisError>> {
        let (hurried, is_awaited) = round.is_overdue();
        (0..hurried).for_each(|_| self.breaker.miss());
        if !is_awaited {
            return None;
        }
        let reply = time::timeout(LONGEST_LATE, coming).await.ok();
        if reply.is_none() {
            self.hear_left(round.settle(|_| Err(StoreError::Lost)));
        }
        reply
    }

    /// Sees to those who did not wait for their round.
    fn hear_left(self: &Arc<Self>, left: Left) {
        for (late, answer) in left {
            self.hear_late(late, answer);
        }
    }
}

/// Reads what came of a round.
fn read(
    batch: &Batch,
    connection: &Connection,
    reply: Result<Value, RedisError>,
) -> Result<Told, StoreError> {
    let reply = match reply {
        Ok(Value::ServerError(error)) => Err(RedisError::from(error)),
        reply => reply,
    };
    let reply = reply.map_err(|error| failure(connection, &error))?;
    let said = batch.read(reply);
    let said = said.ok_or_else(|| round::done::<()>(None).err().unwrap_or(StoreError::Lost))?;
    // Some mean more than that one request.
    for error in said.errors() {
        failure(connection, &error.clone().into());
    }
    Ok(Told { said, connection: connection.clone() })
}
