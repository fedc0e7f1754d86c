//! What has become of orders, in words and as JSON.

use super::what;
use crate::{
    decider::{CounterView, Decider, LimitSet, Reach, Switched, switch_in_words},
    key::Path,
    order::{EVERYTHING, Orders, Switch},
    rules::{Counter, Effect, Kind, PlacedRule, describe::printable},
    unit::{count, span},
};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// All rules: what is in force, and by whose word.
pub(super) fn rules(decider: &Decider) -> String {
    let rules = decider.rules();
    let mut rows = Vec::new();
    for (path, switch) in mains(decider) {
        let path = if path == EVERYTHING { "everything" } else { &path };
        rows.push([
            path.to_owned(),
            String::new(),
            format!("{} [at run time]", switch_in_words(switch)),
        ]);
    }
    for placed in rules.placed() {
        let what = match placed.rule.kind {
            Kind::Unlimited => "unlimited".to_owned(),
            Kind::Report(_) => "utilization_report".to_owned(),
            Kind::Limit(_) if placed.rule.pool.is_some() => {
                let pool = placed.rule.pool.as_deref().unwrap_or_default();
                format!("{} on the pool {}", limiter(placed), printable(pool))
            }
            Kind::Limit(limit) => what(&limit),
        };
        rows.push([placed.path.to_string(), what, state(placed, rules.orders())]);
    }
    for (path, switch) in rules.switches_of_no_rule() {
        rows.push([
            path.clone(),
            "(no such rule)".to_owned(),
            format!("{} [at run time]", switch_in_words(*switch)),
        ]);
    }
    let mut text = in_columns(&rows);
    let modes = decider.modes();
    if modes.shadow {
        text.push_str(
            "\nThe process runs in shadow mode: whatever these say, nobody is refused.\n",
        );
    }
    match decider.orders_trouble() {
        None => {}
        Some((why, true)) => {
            let _ = writeln!(
                text,
                "\nSome of this holds on this process only: the store could not be told ({why}). It is told as soon as it can be."
            );
        }
        Some((why, false)) => {
            let _ = writeln!(
                text,
                "\nThe store cannot be asked ({why}): what was said elsewhere since is not known here."
            );
        }
    }
    text
}

/// In so many columns, the last as long as it is.
fn in_columns(rows: &[[String; 3]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let (first, second) = (width(0), width(1));
    let mut text = String::new();
    for [path, what, state] in rows {
        let _ = writeln!(text, "{path:<first$}   {what:<second$}   {state}");
    }
    text
}

/// What is said of domains and of everything.
fn mains(decider: &Decider) -> Vec<(String, Switch)> {
    let rules = decider.rules();
    let switches = rules.orders().switches.iter();
    let mains = switches.filter(|(path, _)| !path.contains(':'));
    mains.map(|(path, switch)| (path.clone(), *switch)).collect()
}

fn limiter(placed: &PlacedRule) -> &'static str {
    match placed.rule.kind {
        Kind::Limit(limit) => limit.limiter(),
        Kind::Unlimited => "unlimited",
        Kind::Report(_) => "utilization_report",
    }
}

/// Whether a rule is on, and in shadow mode, and by whose word where an operator has said so.
fn state(placed: &PlacedRule, orders: &Orders) -> String {
    let mut state = match (placed.rule.enabled, placed.rule.shadow_mode) {
        (false, _) => "off",
        (true, true) => "shadow",
        (true, false) => "on",
    }
    .to_owned();
    if orders.switches.contains_key(&*placed.path) {
        let own = orders.switches.get(&*placed.path).copied().unwrap_or_default();
        let _ = write!(state, " [{} at run time]", switch_in_words(own));
    }
    for main in mains_of(placed) {
        if let Some(switch) = orders.switches.get(&main) {
            let _ = write!(state, " [{} {}]", subject(&main), switch_in_words(*switch));
        }
    }
    match placed.limits_set() {
        0 => {}
        set => {
            let _ = write!(state, " [{} set at run time]", count(set as u64, "limit"));
        }
    }
    state
}

pub(super) fn rules_json(decider: &Decider) -> Value {
    let rules = decider.rules();
    let rule = |placed: &PlacedRule| {
        let counts: serde_json::Map<_, _> = Effect::ALL
            .map(|effect| (effect.name().to_owned(), placed.tally.of(effect).into()))
            .into_iter()
            .collect();
        json!({
            "rule": &*placed.path,
            "domain": &*placed.domain,
            "name": placed.rule.name,
            "limiter": limiter(placed),
            "enabled": placed.rule.enabled,
            "shadow_mode": placed.rule.shadow_mode,
            "at_run_time": placed.rule.switched,
            "limits_set": placed.limits_set(),
            "decisions_of_this_process": counts,
        })
    };
    json!({
        "rules": rules.placed().iter().map(|placed| rule(placed)).collect::<Vec<_>>(),
        "switches": rules.orders().switches,
        "shadow_mode_of_the_process": decider.modes().shadow,
        "untold": decider.orders_trouble().filter(|(_, is_untold)| *is_untold).map(|(why, _)| why),
        "store_trouble": decider.orders_trouble().map(|(why, _)| why),
    })
}

/// How far an order reaches.
fn reach_in_words(reach: &Reach) -> String {
    match reach {
        Reach::Replicas => "on every replica within a second, and after a restart".to_owned(),
        Reach::Process => {
            "for as long as this process runs: it is kept in its memory, and there are no others"
                .to_owned()
        }
        Reach::Untold(why) => format!(
            "on this process only, because the store could not be told ({why}); it is told as soon as it can be, and then all replicas obey"
        ),
    }
}

fn reach_json(reach: &Reach) -> Value {
    match reach {
        Reach::Replicas => json!({ "kept": "store" }),
        Reach::Process => json!({ "kept": "process" }),
        Reach::Untold(why) => json!({ "kept": "process", "why": why }),
    }
}

/// What a switch is about.
fn subject(path: &str) -> String {
    if path == EVERYTHING { "everything".to_owned() } else { path.to_owned() }
}

pub(super) fn switched(decider: &Decider, switched: &Switched) -> String {
    let Switched { scope, switch, reach } = switched;
    let rules = decider.rules();
    let subject = subject(&scope.path);
    let words = match scope.rule {
        None if *switch == Switch::default() => "nothing is said of it any more".to_owned(),
        _ => switch_in_words(*switch),
    };
    let mut text = format!("{subject}: {words}; {}\n", reach_in_words(reach));
    let Some(placed) = rules.at(&scope.path) else {
        let below = rules.placed().iter().filter(|it| is_below(it, &scope.path));
        let own = below.filter(|it| rules.orders().switches.contains_key(&*it.path)).count();
        if own > 0 {
            let rules = count(own as u64, "rule");
            let _ = writeln!(
                text,
                "{rules} below it switched by themselves: see `tollgate rule list`."
            );
        }
        return text;
    };
    // What is said of a domain, or of everything, holds whatever is said of a rule.
    let is = in_force(placed);
    for main in mains_of(placed) {
        if let Some(switch) = rules.orders().switches.get(&main) {
            let _ = writeln!(
                text,
                "As it is, it is {is}: {} is {}.",
                self::subject(&main),
                switch_in_words(*switch)
            );
        }
    }
    if decider.modes().shadow {
        text.push_str("The process runs in shadow mode: nobody is refused.\n");
    }
    text
}

/// The paths of what is above a rule: everything, and its domain.
fn mains_of(placed: &PlacedRule) -> [String; 2] {
    let domain = Path::of_domain(placed.domain.as_bytes());
    [EVERYTHING.to_owned(), domain.as_str().to_owned()]
}

fn is_below(placed: &PlacedRule, path: &str) -> bool {
    mains_of(placed).iter().any(|main| main == path)
}

/// Whether a rule is on, as it is in force now.
const fn in_force(placed: &PlacedRule) -> &'static str {
    match (placed.rule.enabled, placed.rule.shadow_mode) {
        (false, _) => "off",
        (true, true) => "in shadow mode",
        (true, false) => "on",
    }
}

pub(super) fn switched_json(decider: &Decider, switched: &Switched) -> Value {
    let rules = decider.rules();
    let placed = rules.at(&switched.scope.path);
    json!({
        "switched": switched.scope.path,
        "at_run_time": switched.switch,
        "enabled": placed.map(|placed| placed.rule.enabled),
        "shadow_mode": placed.map(|placed| placed.rule.shadow_mode),
        "reach": reach_json(&switched.reach),
    })
}

pub(super) fn set(counter: &Counter, for_us: Option<u64>, reach: &Reach) -> String {
    let how_long = for_us.map(|for_us| format!(" for {}", duration(for_us))).unwrap_or_default();
    let Counter { path, limit, .. } = counter;
    format!("{path}: {}{how_long}; {}\n", what(limit), reach_in_words(reach))
}

pub(super) fn set_json(counter: &Counter, reach: &Reach) -> Value {
    json!({ "counter": counter.path, "limit": counter.limit.to_json(), "reach": reach_json(reach) })
}

pub(super) fn cleared(number: usize, reach: &Reach) -> String {
    let what = count(number as u64, "limit");
    format!("{what} taken back; {}\n", reach_in_words(reach))
}

pub(super) fn cleared_json(paths: &[String], reach: &Reach) -> Value {
    json!({ "cleared": paths, "reach": reach_json(reach) })
}

pub(super) fn limits(limits: &[LimitSet]) -> String {
    if limits.is_empty() {
        return "No limit is set at run time.\n".to_owned();
    }
    let rows = limits.iter().map(|it| {
        let limit = it.limit.as_ref().map_or_else(
            || format!("(no rule that it could be for: {})", printable(&it.set.rule)),
            what,
        );
        let left = it.left_us.map(|left_us| format!("for {} more", duration(left_us)));
        [printable(&it.path), limit, left.unwrap_or_else(|| "until it is taken back".to_owned())]
    });
    in_columns(&rows.collect::<Vec<_>>())
}

pub(super) fn limits_json(limits: &[LimitSet]) -> Value {
    let limit = |it: &LimitSet| {
        json!({
            "counter": it.path,
            "rule": it.set.rule,
            "limit": it.limit.map(|limit| limit.to_json()),
            "seconds_left": it.left_us.map(|left_us| left_us / 1_000_000),
        })
    };
    json!({ "limits": limits.iter().map(limit).collect::<Vec<_>>() })
}

pub(super) fn counter(view: &CounterView) -> String {
    let CounterView { counter, remaining, full_in_us, in_flight, is_unused } = view;
    let mut text = format!("{}: {}", counter.path, what(&counter.limit));
    if counter.limit != counter.of_rule {
        let _ = write!(text, " [set at run time; its rule says {}]", counter.of_rule.in_words());
    }
    text.push('\n');
    let _ = match (in_flight, full_in_us) {
        _ if *is_unused => writeln!(text, "unused: {remaining} left"),
        (Some(slots), _) if slots.critical > 0 => writeln!(
            text,
            "{} in flight, {} of them critical; {remaining} left for others",
            slots.total(),
            slots.critical
        ),
        (Some(slots), _) => writeln!(text, "{} in flight, {remaining} left", slots.total()),
        (None, Some(full_in_us)) => {
            writeln!(text, "{remaining} left, full again in {}", duration(*full_in_us))
        }
        (None, None) => writeln!(text, "{remaining} left"),
    };
    text
}

pub(super) fn counter_json(view: &CounterView) -> Value {
    let CounterView { counter, remaining, full_in_us, in_flight, is_unused } = view;
    json!({
        "counter": counter.path,
        "limit": counter.limit.to_json(),
        "set_at_run_time": counter.limit != counter.of_rule,
        "remaining": remaining,
        "full_in_seconds": full_in_us.map(|micros| micros.div_ceil(1_000_000)),
        "in_flight": in_flight.map(|slots| json!({ "critical": slots.critical, "others": slots.others })),
        "unused": is_unused,
    })
}

/// A time for people, also a long one: `2 h`, `3 days`.
fn duration(micros: u64) -> String {
    const HOUR: u64 = 3_600_000_000;
    match micros / HOUR {
        0..3 => span(micros),
        hours @ 3..72 => format!("{hours} h"),
        hours => format!("{} days", hours / 24),
    }
}
