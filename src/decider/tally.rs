//! What each limit did to a request, counted by its rule; and of one in shadow, whom it would have refused.

use super::{Asked, peeks::Peeks, shadow::Shadow};
use crate::{
    limiter::Cost,
    rules::{Effect, Resolution},
};

/// Counts every check of a rule. With `shadow_mode` nobody is refused.
pub(super) fn count(
    resolution: &Resolution<'_>,
    asked: &Asked,
    shadow_mode: bool,
    shadow: &Shadow,
    peeks: &Peeks,
) {
    let Asked { verdict, policies, .. } = asked;
    let question = &resolution.question;
    let a_quota_has_room = question.checks.iter().zip(&verdict.outcomes).any(|(check, outcome)| {
        let counts = check.quota_mode && !matches!(check.cost, Cost::Refund(_));
        counts && outcome.over.is_none()
    });
    let by_quotas = verdict.refusal.is_some_and(|refusal| refusal.by_quotas);
    let checks = question.checks.iter().zip(&verdict.outcomes).zip(&resolution.rules);
    let mut by_value = resolution.by_value.iter().peekable();
    for (place, ((check, outcome), placed)) in checks.enumerate() {
        let of_values = by_value.next_if(|(of, _)| *of == place);
        let Some(placed) = placed else { continue };
        // To give back says nothing about what is left.
        if matches!(check.cost, Cost::Refund(_)) {
            continue;
        }
        // A quota refuses only where none has room; one in shadow lets pass as well.
        let stands_aside =
            check.quota_mode && (a_quota_has_room || !(check.shadow_mode || by_quotas));
        let effect = if policies.is_some() {
            Effect::Degraded
        } else if outcome.over.is_none() || stands_aside {
            Effect::Allowed
        } else if check.shadow_mode || shadow_mode {
            Effect::WouldRefuse
        } else {
            Effect::Refused
        };
        placed.tally.count(effect);
        // In shadow mode it is the same mistake, and the time to see it.
        if policies.is_none()
            && let Some(key) = question.keys.get(check.slot)
            && peeks.note(check, outcome, key)
        {
            placed.tally.count_not_charged();
        }
        if let Some((_, tally)) = of_values {
            tally.count(effect);
        }
        if check.shadow_mode || shadow_mode {
            placed.tally.count_in_shadow(effect);
            if let (Effect::WouldRefuse, Some(key)) = (effect, question.keys.get(check.slot)) {
                shadow.would_refuse(&placed.path, key);
            }
        }
    }
}
