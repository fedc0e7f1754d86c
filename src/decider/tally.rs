//! What each limit did to a request, counted by its rule; and of one in shadow, whom it would have refused.

use super::{Asked, peeks::Peeks, shadow::Shadow};
use crate::{
    rules::{Effect, Resolution},
    verdict::Finding,
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
    let checks = question.checks.iter().zip(&verdict.outcomes).zip(&verdict.findings);
    let mut by_value = resolution.by_value.iter().peekable();
    for (place, (((check, outcome), finding), placed)) in checks.zip(&resolution.rules).enumerate()
    {
        let of_values = by_value.next_if(|(of, _)| *of == place);
        let Some(placed) = placed else { continue };
        let effect = match finding {
            Finding::GaveBack => continue,
            _ if policies.is_some() => Effect::Degraded,
            Finding::Passed | Finding::StoodAside => Effect::Allowed,
            Finding::Refused if !shadow_mode => Effect::Refused,
            Finding::Refused | Finding::WouldRefuse => Effect::WouldRefuse,
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
