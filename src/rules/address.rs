//! What people mean: by a word, a rule, a domain or everything; by a rule and some values, one of its counters.

#[cfg(test)]
mod tests;

use super::{
    model::Kind,
    pattern::Pattern,
    resolve::pool_path,
    tree::{PlacedRule, Rules, Step},
};
use crate::{
    key::{Key, Path},
    limiter::Limit,
    order::EVERYTHING,
    request::Entry,
};
use std::sync::Arc;

/// How many rules are named to somebody who has named none of them.
const MOST_NAMED: usize = 10;

/// What a switch is about.
#[derive(Debug, Clone)]
pub struct Scope {
    /// Its path.
    pub path: String,
    /// The rule, where it is one that there is.
    pub rule: Option<Arc<PlacedRule>>,
}

/// A counter of a rule.
#[derive(Debug, Clone)]
pub struct Counter {
    /// Its path, by which a limit is set for it.
    pub path: String,
    /// What it is about, for people.
    pub key: Key,
    /// The limit that holds for it.
    pub limit: Limit,
    /// The limit that its rule has.
    pub of_rule: Limit,
}

/// Why it is not known what is meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotMeant {
    /// Nothing is called so.
    #[error("no rule, name of a rule or domain is {word:?}{}", suggestion(.near))]
    Nothing {
        /// The word.
        word: String,
        /// The paths of rules that it may have been meant for.
        near: Vec<String>,
    },
    /// Several are.
    #[error("several are called {word:?}: write one of {}", .paths.join(", "))]
    Several {
        /// The word.
        word: String,
        /// The paths of some of them.
        paths: Vec<String>,
    },
    /// The rule has no counters.
    #[error("{0} counts nothing: it is no limit")]
    NoLimit(String),
    /// The limit goes by what workers report.
    #[error("{0} counts nothing: it goes by what workers report, which `tollgate pools` shows")]
    NoCounter(String),
    /// A value is missing.
    #[error("{rule} counts by {key}: say which, as `{key}=VALUE`")]
    Missing {
        /// The path of the rule.
        rule: String,
        /// The key of the entry.
        key: String,
    },
    /// A value is too much, or none that the rule is about.
    #[error("{rule} does not count by {value:?}{}", by_which(.wanted))]
    Extra {
        /// The path of the rule.
        rule: String,
        /// What was said.
        value: String,
        /// The keys by which it does.
        wanted: Vec<String>,
    },
    /// A request with these values meets another rule.
    #[error("a request with these values does not meet {rule}: {}", met(.meets))]
    Elsewhere {
        /// The path of the rule.
        rule: String,
        /// The paths of the rules that it meets.
        meets: Vec<String>,
    },
}

fn suggestion(paths: &[String]) -> String {
    match paths {
        [] => ": `tollgate rule list` shows all".to_owned(),
        paths => format!(": did you mean {}?", paths.join(", ")),
    }
}

fn by_which(keys: &[String]) -> String {
    match keys {
        [] => ": it has one counter for all, so leave that out".to_owned(),
        keys => format!(", but by {}", keys.join(", ")),
    }
}

fn met(paths: &[String]) -> String {
    match paths {
        [] => "it meets none".to_owned(),
        paths => format!("it meets {}", paths.join(", ")),
    }
}

impl Rules {
    /// What a word means: the path of a rule, a name that one rule has, a domain, or `*` for everything.
    ///
    /// # Errors
    ///
    /// Where it means nothing, or several things.
    pub fn meant_by(&self, word: &str) -> Result<Scope, NotMeant> {
        let of = |rule: &Arc<PlacedRule>| Scope {
            path: rule.path.to_string(),
            rule: Some(Arc::clone(rule)),
        };
        let whole = |path: &str| Scope { path: path.to_owned(), rule: None };
        if word == EVERYTHING {
            return Ok(whole(EVERYTHING));
        }
        // A path is nobody's name.
        if let Some(placed) = self.at(word) {
            return Ok(of(placed));
        }
        let mut meant: Vec<Scope> = Vec::new();
        for domain in self.domains() {
            let path = Path::of_domain(domain.name.as_bytes());
            // Nor is a domain's: whoever has to switch it off does so, whatever rules are called.
            if domain.name == word || path.as_str() == word {
                return Ok(whole(path.as_str()));
            }
        }
        for placed in self.placed() {
            if placed.rule.name.as_deref() == Some(word) {
                meant.push(of(placed));
            }
        }
        match meant.pop() {
            Some(scope) if meant.is_empty() => Ok(scope),
            Some(scope) => {
                let mut paths: Vec<String> = meant.into_iter().map(|it| it.path).collect();
                paths.push(scope.path);
                paths.truncate(MOST_NAMED);
                Err(NotMeant::Several { word: word.to_owned(), paths })
            }
            // Something was said of it before it went.
            None if self.orders().switches.contains_key(word) => Ok(whole(word)),
            None => Err(NotMeant::Nothing { word: word.to_owned(), near: self.near(word) }),
        }
    }

    /// The rule that a word means.
    ///
    /// # Errors
    ///
    /// Where it means no rule.
    pub fn rule_meant_by(&self, word: &str) -> Result<Arc<PlacedRule>, NotMeant> {
        let near = || NotMeant::Nothing { word: word.to_owned(), near: self.near(word) };
        self.meant_by(word)?.rule.ok_or_else(near)
    }

    /// Rules that a word may have been meant for.
    fn near(&self, word: &str) -> Vec<String> {
        let word = word.to_lowercase();
        let is_near = |placed: &&Arc<PlacedRule>| {
            let name = placed.rule.name.as_deref().unwrap_or_default().to_lowercase();
            let path = placed.path.to_lowercase();
            !word.is_empty() && (path.contains(&word) || name.contains(&word))
        };
        let near = self.placed().iter().filter(is_near).take(MOST_NAMED);
        near.map(|placed| placed.path.to_string()).collect()
    }

    /// The counter of a rule that requests with these values share, each written as `key=value`.
    ///
    /// # Errors
    ///
    /// Where a value is missing or too much, or requests with them do not meet the rule.
    pub fn counter_of(&self, placed: &PlacedRule, values: &[String]) -> Result<Counter, NotMeant> {
        let rule = || placed.path.to_string();
        let Kind::Limit(of_rule) = placed.rule.kind else { return Err(NotMeant::NoLimit(rule())) };
        if of_rule.is_shedder() {
            return Err(NotMeant::NoCounter(rule()));
        }
        let extra = |value: &String| NotMeant::Extra {
            rule: rule(),
            value: value.clone(),
            wanted: match &placed.rule.pool {
                Some(_) => Vec::new(),
                None => placed.steps.iter().filter(|it| it.tells_apart()).map(Step::name).collect(),
            },
        };
        let domain = placed.domain.as_bytes();
        if let Some(pool) = &placed.rule.pool {
            return match values.first() {
                Some(value) => Err(extra(value)),
                None => Ok(counter(placed, &pool_path(domain, pool), of_rule)),
            };
        }
        let mut values: Vec<&String> = values.iter().collect();
        let mut entries = Vec::new();
        for step in &placed.steps {
            let place = values.iter().position(|value| step.is_meant_by(value));
            let given = place.map(|place| values.remove(place));
            let value = match (given, &step.value) {
                (Some(given), _) => given.get(step.key.len() + 1..).unwrap_or_default().to_owned(),
                (None, Some(value)) if !step.tells_apart() => value.replace('*', ""),
                (None, _) => return Err(NotMeant::Missing { rule: rule(), key: step.name() }),
            };
            let key = step.key.as_bytes().to_vec().into();
            entries.push(Entry { key, value: value.into() });
        }
        if let Some(value) = values.first() {
            return Err(extra(value));
        }
        let node = self.find(domain, &entries);
        let met = node.map_or(&[][..], |node| &node.rules);
        if !met.iter().any(|it| it.path == placed.path) {
            let meets = met.iter().map(|it| it.path.to_string()).collect();
            return Err(NotMeant::Elsewhere { rule: rule(), meets });
        }
        let path = placed.rule.path(&self.path(node, domain, &entries));
        Ok(counter(placed, &path, of_rule))
    }
}

fn counter(placed: &PlacedRule, path: &Path, of_rule: Limit) -> Counter {
    Counter {
        path: path.as_str().to_owned(),
        key: Key::new(of_rule.limiter(), path),
        limit: placed.limit_of(path, of_rule),
        of_rule,
    }
}

impl Step {
    /// Whether there are several counters for what it matches.
    fn tells_apart(&self) -> bool {
        match &self.value {
            None => true,
            Some(value) => value.contains('*') && !self.is_shared,
        }
    }

    fn name(&self) -> String {
        self.key.to_string()
    }

    /// Whether a value, written as `key=value`, is one for this entry.
    fn is_meant_by(&self, value: &str) -> bool {
        let value = value.strip_prefix(&*self.key).and_then(|rest| rest.strip_prefix('='));
        let matches = |value: &str| match &self.value {
            None => true,
            Some(pattern) if pattern.contains('*') => {
                Pattern::new(pattern).matches(value.as_bytes())
            }
            Some(exact) => **exact == *value,
        };
        value.is_some_and(matches)
    }
}
