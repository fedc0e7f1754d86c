//! What rules in shadow would have refused, for people: a few lines for each rule.

use super::{ShadowReport, ShadowView, Standing};
use crate::{
    rules::describe::printable,
    shadow::{Counts, Window},
    unit::{count, percent},
};
use std::fmt::Write as _;

/// The window whose keys are shown where nobody says which.
const USUAL: Window = Window::Hour;

/// The hexadecimal digits that are shown of a hash.
const DIGITS: usize = 8;

impl ShadowReport {
    /// Its lines: for each rule its windows, or this one, and so many keys.
    pub fn text(&self, window: Option<Window>, top: usize) -> String {
        if self.rules.is_empty() {
            return "No rule is in shadow: write `shadow_mode: true` beside a limit.\n".to_owned();
        }
        let mut text = String::new();
        for (place, rule) in self.rules.iter().enumerate() {
            text.push_str(if place > 0 { "\n" } else { "" });
            rule.write(&mut text, window, top);
        }
        if self.left_out > 0 {
            let rules = count(self.left_out as u64, "rule");
            let _ = writeln!(
                text,
                "\n{rules} more in shadow: there are too many to report on, and those come first that requests met first."
            );
        }
        if let Some(why) = &self.untold {
            let why = printable(why);
            let _ = writeln!(text, "\nThis server could not tell its store what it counted: {why}");
        }
        text
    }
}

impl ShadowView {
    fn write(&self, text: &mut String, window: Option<Window>, top: usize) {
        let _ = writeln!(text, "{}   {}", printable(&self.rule), self.standing.in_words());
        let windows = window.as_ref().map_or(&Window::ALL[..], std::slice::from_ref);
        for window in windows {
            let _ = writeln!(text, "  {:<13} {}", last(*window), in_words(&self.over(*window).0));
        }
        let window = window.unwrap_or(USUAL);
        let (_, keys) = self.over(window);
        if keys.is_empty() || top == 0 {
            return;
        }
        let _ = writeln!(text, "  most often in the {}:", last(window));
        let shown = || keys.iter().take(top);
        let width = shown().map(|(_, count)| count.to_string().len()).max().unwrap_or(0);
        for (key, count) in shown() {
            let _ = writeln!(text, "    {count:>width$}   {}", name(key));
        }
    }
}

impl Standing {
    const fn in_words(self) -> &'static str {
        match self {
            Self::InShadow => "in shadow",
            Self::Left => "not in shadow, or not any more",
            Self::Gone => "no rule, or not any more",
        }
    }
}

fn last(window: Window) -> String {
    format!("last {}", window.name())
}

fn in_words(counts: &Counts) -> String {
    let decided = match counts.share() {
        None => "no requests".to_owned(),
        Some(share) => format!(
            "{}, {} would be refused ({})",
            count(counts.decided(), "request"),
            counts.would_refuse,
            percent(share),
        ),
    };
    match counts.degraded {
        0 => decided,
        degraded => format!("{decided}; {degraded} not decided by the store"),
    }
}

/// A key as it is shown: the path of its state, or what is left of one that was too long.
fn name(key: &str) -> String {
    match key.strip_prefix('~') {
        Some(hash) => format!("(long value) ~{}…", printable(hash.get(..DIGITS).unwrap_or(hash))),
        None => printable(key),
    }
}
