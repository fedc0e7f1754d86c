//! What is worth a line about costs that should have been charged: which rules refuse what is known only afterwards,
//! so that nobody is limited. Once for each rule, with the fix. No key and no value is told.

use crate::rules::{Kind, PlacedRule, Rules};
use std::collections::HashSet;
use tracing::Level;

/// How many rules are told of at a time; the others follow with the next look.
const MOST_AT_ONCE: usize = 5;

/// The rules that the log has been told of, by their paths.
#[derive(Debug, Default)]
pub struct CostWatch {
    told: HashSet<Box<str>>,
}

impl CostWatch {
    /// What to tell now.
    pub fn tell(&mut self, rules: &Rules) -> Vec<(Level, String)> {
        // Rules that are gone, or mended, are forgotten.
        let is_due = |placed: &PlacedRule| placed.not_charged().is_some_and(|count| count > 0);
        self.told.retain(|path| rules.at(path).is_some_and(|placed| is_due(placed)));
        let placed = rules.placed().iter();
        let due = placed.filter(|placed| is_due(placed) && !self.told.contains(&placed.path));
        let due: Vec<_> = due.take(MOST_AT_ONCE).collect();
        self.told.extend(due.iter().map(|placed| placed.path.clone()));
        due.into_iter().map(|placed| (Level::WARN, line(placed))).collect()
    }
}

fn line(placed: &PlacedRule) -> String {
    let has_grants = matches!(
        placed.rule.kind,
        Kind::Limit(limit) if limit.grants().is_some()
    );
    let fix = if has_grants {
        "write `overdraw: true` beside it, in place of `grants`"
    } else {
        "write `overdraw: true` beside it"
    };
    format!(
        "{} may not limit: a cost above what was left was refused and not charged, while peeks pass. If such costs are known only afterwards, {fix}",
        placed.path
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::domains_of;

    const RULES: &str = "
domain: shop
descriptors:
  - {key: a, token_bucket: {rate: 100/day}}
  - {key: b, token_bucket: {rate: 100/day}}
";

    #[test]
    fn each_rule_is_told_of_once_and_again_where_it_was_mended_and_is_not_any_more() {
        let (rules, mut watch) = (Rules::new(domains_of(RULES)), CostWatch::default());
        assert!(watch.tell(&rules).is_empty());
        let mut told = |rules: &Rules, place: usize| {
            rules.placed()[place].tally.count_not_charged();
            let lines = watch.tell(rules);
            lines.into_iter().map(|(_, line)| line[..6].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(told(&rules, 0), ["shop:a"]);
        assert_eq!(told(&rules, 0), [""; 0]);
        assert_eq!(told(&rules, 1), ["shop:b"]);
        let mended = RULES.replacen("day}}", "day}, overdraw: true}", 1);
        let mended = rules.with_domains(domains_of(&mended));
        assert_eq!(told(&mended, 1), [""; 0]);
        let spoilt = mended.with_domains(domains_of(RULES));
        assert_eq!(told(&spoilt, 1), ["shop:a"]);
    }

    #[test]
    fn of_many_rules_a_few_are_told_of_at_a_time() {
        let keys = (0..12).map(|key| format!("  - {{key: k{key}, token_bucket: {{rate: 9/s}}}}\n"));
        let text = format!("domain: shop\ndescriptors:\n{}", keys.collect::<String>());
        let (rules, mut watch) = (Rules::new(domains_of(&text)), CostWatch::default());
        rules.placed().iter().for_each(|placed| placed.tally.count_not_charged());
        assert_eq!([(); 4].map(|()| watch.tell(&rules).len()), [5, 5, 2, 0]);
    }
}
