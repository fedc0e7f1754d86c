//! Diagnostics as text for people, in the manner of rustc.

use super::diagnostic::{Diagnostic, Place, Severity, Source};
use annotate_snippets::{
    Annotation, AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet,
};
use std::ops::Range;

/// How many diagnostics are shown. Who has more than this has one that repeats.
const MOST: usize = 500;

/// How far from its beginning and end the line around a place is looked for, in bytes. A longer line
/// does not help, and its place is named without it.
const LONGEST_LINE: usize = 1_000;

/// Renders diagnostics. `left_out` were found and not kept.
pub fn render(
    diagnostics: &[Diagnostic],
    left_out: usize,
    sources: &[Source],
    color: bool,
) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut text = String::new();
    for diagnostic in diagnostics.iter().take(MOST) {
        text.push_str(&renderer.render(&[group(diagnostic, sources)]));
        text.push_str("\n\n");
    }
    match diagnostics.len().saturating_sub(MOST) + left_out {
        0 => text.truncate(text.trim_end().len()),
        more => text.push_str(&format!("and {more} more")),
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn group<'a>(diagnostic: &'a Diagnostic, sources: &'a [Source]) -> Group<'a> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = Group::with_title(level.primary_title(diagnostic.message.as_str()));
    if let Some(place) = diagnostic.place {
        group = show(group, place, sources, |span| AnnotationKind::Primary.span(span));
    }
    if let Some(related) = diagnostic.related {
        group = show(group, related.place, sources, |span| {
            AnnotationKind::Context.span(span).label(related.label)
        });
    }
    if !diagnostic.help.is_empty() {
        group = group.element(Level::HELP.message(diagnostic.help.as_str()));
    }
    group
}

/// Adds a place: with its line where there is one to show, else by its number.
fn show<'a>(
    group: Group<'a>,
    place: Place,
    sources: &'a [Source],
    annotation: impl FnOnce(Range<usize>) -> Annotation<'a>,
) -> Group<'a> {
    let Some(source) = place.of(sources) else { return group };
    match line_around(&source.text, place) {
        Some((line, span)) => group.element(
            Snippet::source(line)
                .path(source.name.as_str())
                .line_start(place.line as usize)
                .annotation(annotation(span)),
        ),
        None => group.element(Element::Origin(
            Origin::path(source.name.as_str())
                .line(place.line as usize)
                .char_column(place.column as usize),
        )),
    }
}

/// The line of a place, and where in that line the place is.
fn line_around(text: &str, place: Place) -> Option<(&str, Range<usize>)> {
    let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let bytes = text.as_bytes();
    let at = place.bytes();
    let from = at.start.saturating_sub(LONGEST_LINE);
    let start = match bytes.get(from..at.start)?.iter().rposition(is_break) {
        Some(before) => from + before + 1,
        None if from == 0 => 0,
        None => return None,
    };
    let to = bytes.len().min(at.end.saturating_add(LONGEST_LINE));
    let end = match bytes.get(at.end..to)?.iter().position(is_break) {
        Some(after) => at.end + after,
        None if to == bytes.len() => to,
        None => return None,
    };
    let line = text.get(start..end).filter(|line| !line.is_empty())?;
    Some((line, at.start - start..at.end - start))
}
