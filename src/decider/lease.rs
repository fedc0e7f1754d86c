//! Leases: to acquire one and wait for it, to renew it, to release it.

#[cfg(test)]
mod tests;

use super::{Asked, Decider, LeaseEvent, Taken, draw, draw_for, held, lease};
use crate::{
    clock::Deadline,
    decision::{Code, Decision, HeldSlots, Lease},
    key::Key,
    lease::{Attempt, By, Fingerprint, LeaseId, Leased, Release, Released, Renewed, Term},
    limiter::State,
    request::Request,
    rules::{Resolution, Rules},
    store::{Listening, Place, StoreError},
};
use bytes::Bytes;
use futures_util::FutureExt as _;
use std::{panic::AssertUnwindSafe, pin::Pin, sync::Arc, time::Duration};
use tokio::time::{self, Sleep};

/// How often whoever is first in line looks by himself: an announcement may be lost with its connection.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How soon a store is asked again that did not decide.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The longest that a caller may wait for a lease.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What to acquire, and how.
#[derive(Debug, Clone)]
pub struct Acquire {
    /// For what.
    pub request: Request,
    /// The lease's id, where the caller chose one.
    pub id: Option<LeaseId>,
    /// How long it is to last at most, where that is less than the rules allow.
    pub term: Option<Term>,
    /// How long to wait for slots, and for a delay. Not at all: the delay is told, and may be of any length.
    pub wait: Duration,
    /// Whether it is an error that no limit matches.
    pub requires_limit: bool,
}

/// Why there is no answer to an acquire.
#[derive(Debug, thiserror::Error)]
pub enum NotAcquired {
    /// The store did not decide.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing is known of the domain. Who asks on purpose wants to be told.
    #[error(
        "there are no rules for the domain {0:?}: name the `domain` of a rule file, or nothing would be limited"
    )]
    UnknownDomain(String),
    /// No limit takes part in the decision, though the caller requires one.
    #[error(
        "`require_limit` is set, and no limit matches: {0}. Compare the descriptors with `tollgate check`, or leave `require_limit` out to go ahead and hold nothing"
    )]
    NoLimit(String),
    /// The id that the caller chose is held for another request.
    #[error(
        "`lease_id` {0} is held for another domain or other descriptors: choose another, or release it first"
    )]
    Conflict(String),
}

/// How it stands with a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// It is held, so many microseconds more.
    Live {
        /// Until its deadline.
        left_us: u64,
    },
    /// It had to be taken again, and is held so many microseconds.
    Retaken {
        /// Until its deadline.
        left_us: u64,
    },
    /// Its time was over.
    Expired,
    /// It was released.
    AlreadyGone,
    /// It is not known, or not held any more.
    Lost,
}

/// A caller that waits for slots, or for a delay. It keeps its place when the rules are replaced.
struct Waiting<'w, 's> {
    /// When the wait is over.
    until: Deadline,
    over: Pin<&'w mut Sleep>,
    is_over: bool,
    place: Option<Place<'s>>,
    /// While it is there, releases by others are heard of.
    listening: Option<Listening>,
}

/// How long it is until then, in microseconds.
fn left_us(until: Deadline) -> u64 {
    until.left().map_or(u64::MAX, |left| u64::try_from(left.as_micros()).unwrap_or(u64::MAX))
}

impl Waiting<'_, '_> {
    /// Waits for a delay for as long as the wait is, and takes from the delay the time that it took, in microseconds, which
    /// it returns. Callers behind it in the line are not held up.
    async fn sit_out(&mut self, delay_us: &mut u64) -> u64 {
        let waited_us = left_us(self.until).min(*delay_us);
        if waited_us > 0 {
            (self.place, self.listening) = (None, None);
            time::sleep(Duration::from_micros(waited_us)).await;
            *delay_us -= waited_us;
        }
        waited_us
    }
}

impl Decider {
    /// Decides a request before the deadline, and holds what it takes under a lease, which is part of the
    /// decision. Where slots alone refuse it, it may wait for them. As with [`Decider::decide`], what it took
    /// is given back unless it is kept, and where the store makes no decision, the rules say what to do. A
    /// lease that is granted so holds nothing until it is renewed, and then what it was granted for.
    ///
    /// # Errors
    ///
    /// Where there is no decision.
    pub async fn acquire(
        self: &Arc<Self>,
        acquire: &Acquire,
        deadline: Deadline,
    ) -> Result<(Decision, Option<Taken>), NotAcquired> {
        let acquired = AssertUnwindSafe(self.acquire_by_rules(acquire, deadline)).catch_unwind();
        let acquired = acquired.await;
        let acquired =
            acquired.unwrap_or_else(|_| Ok((self.despite_a_bug(&acquire.request), None)));
        acquired.inspect(|(decision, _)| self.degraded.count(decision))
    }

    async fn acquire_by_rules(
        self: &Arc<Self>,
        acquire: &Acquire,
        deadline: Deadline,
    ) -> Result<(Decision, Option<Taken>), NotAcquired> {
        let (id, by) = match &acquire.id {
            Some(id) => (id.clone(), By::Caller),
            None => (draw()?.0, By::Server),
        };
        let wait = deadline.left().map_or(acquire.wait, |left| left.min(acquire.wait));
        let wait = wait.min(LONGEST_WAIT);
        let (until, over) = (Deadline::after(wait), time::sleep(wait));
        tokio::pin!(over);
        let mut waiting = Waiting { until, over, is_over: false, place: None, listening: None };
        let mut is_begun = false;
        loop {
            let rules = self.rules();
            let resolution = self.resolve_known(&rules, &acquire.request)?;
            if acquire.requires_limit && resolution.question.checks.is_empty() {
                return Err(NotAcquired::NoLimit(rules.why_unmatched(&acquire.request)));
            }
            if !is_begun {
                deadline.bound(self.release_all(&resolution.releases)).await;
                self.count_bad_reports(resolution.bad_reports);
                let reporting = self.report_all(&resolution.reports);
                deadline.bound(reporting).await;
                if by == By::Caller {
                    self.forget_releases(&id);
                }
                is_begun = true;
            }
            let how = (acquire, deadline);
            let acquired = self.acquire_by(&rules, resolution, how, (&id, by), &mut waiting);
            if let Some(acquired) = acquired.await? {
                return Ok(acquired);
            }
        }
    }

    /// What a request meets in a domain that there are rules for.
    fn resolve_known<'r>(
        &self,
        rules: &'r Rules,
        request: &Request,
    ) -> Result<Resolution<'r>, NotAcquired> {
        if rules.has_domain(&request.domain) {
            return Ok(rules.resolve(request, self.modes.quota));
        }
        let domain = String::from_utf8_lossy(&request.domain).into_owned();
        Err(NotAcquired::UnknownDomain(domain))
    }

    /// Acquires by these rules; `None` where others have come into force before it could.
    async fn acquire_by<'s>(
        self: &'s Arc<Self>,
        rules: &Arc<Rules>,
        mut resolution: Resolution<'_>,
        (acquire, deadline): (&Acquire, Deadline),
        (id, by): (&LeaseId, By),
        waiting: &mut Waiting<'_, 's>,
    ) -> Result<Option<(Decision, Option<Taken>)>, NotAcquired> {
        let request = &acquire.request;
        draw_for(&mut resolution.question)?;
        let (_, attempt) = draw()?;
        let fingerprint = Some(Fingerprint::of(request));
        resolution.question.take_under(id, (by, attempt), acquire.term, fingerprint);
        let waits = !acquire.wait.is_zero();
        // What is settled regardless would be settled each time.
        let asked = if waits && !resolution.question.settles_regardless() {
            self.ask_and_wait(rules, &mut resolution, (id, deadline), waiting).await
        } else {
            if waits {
                resolution.question.delay_at_most(left_us(waiting.until));
            }
            self.ask(&resolution, Some(id), deadline).await.map(Some)
        };
        let asked = asked.unwrap_or_else(|_| Some(self.by_policy(rules, request, &resolution)));
        let Some(mut asked) = asked else { return Ok(None) };

        let mut decision = self.fold(rules, request, &resolution, &asked);
        let waited_us = waiting.sit_out(&mut decision.delay_us).await;
        let left_us = match asked.verdict.leased {
            Leased::Conflict => return Err(NotAcquired::Conflict(id.as_str().to_owned())),
            Leased::For { left_us } | Leased::Again { left_us } => Some(left_us),
            // In shadow mode, or without the store: it may go ahead, though it holds nothing.
            Leased::Nothing if decision.code == Code::Ok => {
                resolution.question.taking.as_ref().map(|taking| taking.term.as_micros())
            }
            Leased::Nothing => None,
        };
        if let Some(left_us) = left_us {
            if decision.degraded {
                // What a renewal takes for it is given back when it ends. What may have been taken before
                // is on its way back, so that is another attempt.
                asked.taken = Some(Taken::new(self, id, draw()?.1));
            }
            let held = match asked.verdict.leased {
                Leased::For { .. } => held::taken(&resolution, &asked.verdict.findings),
                // What it took may differ from what it would take now.
                Leased::Again { .. } => self.recorded(&resolution, id).await?,
                Leased::Nothing | Leased::Conflict => Vec::new(),
            };
            let name = Bytes::copy_from_slice(id.as_str().as_bytes());
            let left_us = left_us.saturating_sub(waited_us);
            let lease = lease(rules, request, &resolution, id.clone(), name, left_us);
            decision.lease = Some(Lease { held, ..lease });
        }
        Ok(Some((decision, asked.taken)))
    }

    /// What a lease holds by its record.
    async fn recorded(
        &self,
        resolution: &Resolution<'_>,
        id: &LeaseId,
    ) -> Result<Vec<HeldSlots>, StoreError> {
        let (now, states) =
            self.store.look(self.clock.now(), std::slice::from_ref(id.key())).await?;
        let record = states.first().and_then(Option::as_ref).and_then(State::record);
        Ok(held::recorded(resolution, record, now))
    }

    /// Asks the store, and where slots alone refuse, again whenever some may have come free, until the wait
    /// is over. Nothing is held meanwhile. `None` where other rules have come into force: whoever waits for
    /// long is not to be admitted by limits that nobody has any more.
    async fn ask_and_wait<'s>(
        self: &'s Arc<Self>,
        rules: &Arc<Rules>,
        resolution: &mut Resolution<'_>,
        (id, deadline): (&LeaseId, Deadline),
        waiting: &mut Waiting<'_, 's>,
    ) -> Result<Option<Asked>, StoreError> {
        let until = waiting.until;
        let Waiting { over, is_over, place, listening, .. } = waiting;
        let question = &resolution.question;
        let takes_slots = question.checks.iter().filter(|it| it.limit.slots(it.cost).is_some());
        let wanted: Vec<Key> =
            takes_slots.filter_map(|check| question.keys.get(check.slot)).cloned().collect();
        let queues = self.store.queues();
        // Whoever came before is served before.
        let ahead = if place.is_none() { queues.waited_for(&wanted) } else { Vec::new() };
        if !ahead.is_empty() {
            *place = queues.join();
            if let Some(place) = place {
                place.stand(ahead);
                tokio::select! {
                    heard = self.store.listen(place.keys()) => *listening = heard,
                    () = over.as_mut() => *is_over = true,
                }
            }
        }
        loop {
            if !Arc::ptr_eq(rules, &self.rules()) {
                return Ok(None);
            }
            let mut look_in = LONGEST_WAIT;
            if *is_over || place.as_mut().is_none_or(Place::is_first) {
                resolution.question.delay_at_most(left_us(until));
                let asked = match self.ask(resolution, Some(id), deadline).await {
                    Ok(asked) => asked,
                    Err(error) if *is_over => return Err(error),
                    Err(_) => {
                        // Whoever has time to wait has time for the store. What may have been taken is
                        // given back, so the next time is another attempt.
                        if let Some(taking) = &mut resolution.question.taking {
                            taking.attempt = draw()?.1;
                        }
                        tokio::select! {
                            () = over.as_mut() => *is_over = true,
                            () = time::sleep(ASK_AGAIN) => {}
                        }
                        continue;
                    }
                };
                let question = &resolution.question;
                let waits_for = asked.verdict.waits_for(&question.checks).filter(|_| !*is_over);
                let Some((slots, wait_us)) = waits_for else { return Ok(Some(asked)) };
                if place.is_none() {
                    *place = queues.join();
                }
                let Some(place) = place else { return Ok(Some(asked)) };
                let keys = slots.into_iter().filter_map(|slot| question.keys.get(slot).cloned());
                let mut keys: Vec<Key> = keys.collect();
                keys.sort();
                keys.dedup();
                let is_new = place.keys() != keys;
                place.stand(keys);
                if is_new {
                    tokio::select! {
                        heard = self.store.listen(place.keys()) => *listening = heard,
                        () = over.as_mut() => *is_over = true,
                    }
                    // What came free before anybody listened.
                    continue;
                }
                look_in = LOOK_AGAIN.min(Duration::from_micros(wait_us));
            }
            if let Some(place) = place {
                tokio::select! {
                    () = over.as_mut() => *is_over = true,
                    () = place.rung() => {}
                    () = time::sleep(look_in) => {}
                }
            }
        }
    }

    /// Renews a lease. Where it is not there any more and `again` says what it held, and for which attempt
    /// it is to be held, that is taken again, if there is room, without charging rates.
    ///
    /// # Errors
    ///
    /// Where the store did not do it.
    pub async fn renew(
        self: &Arc<Self>,
        id: &LeaseId,
        term: Option<Term>,
        again: Option<(&Request, Attempt)>,
    ) -> Result<Renewal, StoreError> {
        let renewed = self.store.renew(self.clock.now(), id, term).await?;
        match renewed {
            Renewed::Live { .. } => self.lease_events.count(LeaseEvent::Renewed),
            Renewed::Expired => self.lease_events.count(LeaseEvent::Expired),
            Renewed::AlreadyGone | Renewed::Lost => {}
        }
        match (renewed, again) {
            (Renewed::Live { left_us }, _) => Ok(Renewal::Live { left_us }),
            (Renewed::AlreadyGone, _) => Ok(Renewal::AlreadyGone),
            (Renewed::Expired | Renewed::Lost, Some((request, attempt))) => {
                self.take_again(id, term, request, attempt).await
            }
            (Renewed::Expired, None) => Ok(Renewal::Expired),
            (Renewed::Lost, None) => Ok(Renewal::Lost),
        }
    }

    /// The same for a holder who renews by himself.
    ///
    /// # Errors
    ///
    /// As for [`Decider::renew`].
    pub async fn renew_for_its_holder(
        self: &Arc<Self>,
        id: &LeaseId,
        term: Option<Term>,
        again: Option<&Request>,
    ) -> Result<Renewal, StoreError> {
        let again = match again {
            Some(request) => Some((request, draw()?.1)),
            None => None,
        };
        self.renew(id, term, again).await
    }

    async fn take_again(
        self: &Arc<Self>,
        id: &LeaseId,
        term: Option<Term>,
        request: &Request,
        attempt: Attempt,
    ) -> Result<Renewal, StoreError> {
        let rules = self.rules();
        let mut resolution = rules.resolve(request, self.modes.quota);
        let question = &mut resolution.question;
        question.checks.retain(|check| check.limit.slots(check.cost).is_some());
        question.take_under(id, (By::Caller, attempt), term, Some(Fingerprint::of(request)));
        let term = question.taking.as_ref().map(|taking| taking.term).unwrap_or_default();
        // Its holder knows of it. Should this answer be lost, the next renewal finds the lease.
        let asked = self.ask(&resolution, None, Deadline::default()).await?;
        Ok(match asked.verdict.leased {
            Leased::For { left_us } | Leased::Again { left_us } => {
                self.lease_events.count(LeaseEvent::Retaken);
                Renewal::Retaken { left_us }
            }
            Leased::Nothing if self.modes.shadow => Renewal::Retaken { left_us: term.as_micros() },
            Leased::Nothing | Leased::Conflict => Renewal::Lost,
        })
    }

    /// Releases a lease.
    ///
    /// # Errors
    ///
    /// Where the store did not do it. Then the release is kept, and made when it can be.
    pub async fn release(self: &Arc<Self>, id: &LeaseId) -> Result<Released, StoreError> {
        self.release_or_keep(id, Release::Last { marks: false }).await
    }

    /// Releases what a request says that it releases. Whatever becomes of the request, that is carried out.
    pub(super) async fn release_all(self: &Arc<Self>, ids: &[LeaseId]) {
        let releasing: Vec<_> = ids
            .iter()
            .map(|id| {
                let (decider, id, busy) = (Arc::clone(self), id.clone(), self.busy(1));
                tokio::spawn(async move {
                    // An acquire under a name that a request carries may be slower than its release.
                    let what = Release::Last { marks: !id.is_drawn() };
                    decider.release_or_keep(&id, what).await.ok();
                    drop(busy);
                })
            })
            .collect();
        for released in releasing {
            // Where the store does not take it, it is kept.
            let _ = released.await;
        }
    }
}
