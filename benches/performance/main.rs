//! How fast it is, beside what was promised: measured on the built program by `tollgate load`, and written to
//! `docs/performance.md`.
//!
//! `make bench` measures all of it; `cargo bench --bench performance -- memory redis` these sections alone, and leaves
//! the others as they were. Whatever is compared takes turns, and what counts are medians of ratios: the machine
//! does other things as well.

#[path = "../support/mod.rs"]
mod support;

mod denials;
mod document;
mod grants;
mod keys;
mod machine;
mod memory;
mod program;
mod redis;

use document::Document;
use machine::Machine;
use std::env;

/// What the program allocates with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What measures a section, and returns its text.
type Measure = fn() -> Result<String, Failure>;

/// The sections, in the order in which they are measured. Keys come first: what this process has in memory is
/// measured there, and nothing else has been there by then.
const SECTIONS: [(&str, Measure); 6] = [
    ("keys", keys::measure),
    ("memory", memory::measure),
    ("descriptors", memory::measure_descriptors),
    ("redis", redis::measure),
    ("denials", denials::measure),
    ("grants", grants::measure),
];

#[allow(clippy::print_stderr, reason = "how it goes is for whoever ran it")]
fn main() -> Result<(), Failure> {
    // Cargo says that it is a bench.
    let wanted: Vec<String> = env::args().skip(1).filter(|it| !it.starts_with("--")).collect();
    if let Some(unknown) = wanted.iter().find(|it| SECTIONS.iter().all(|(name, _)| name != it)) {
        let names = SECTIONS.map(|(name, _)| name).join(", ");
        return Err(format!("there is no section {unknown}: choose among {names}").into());
    }
    let machine = Machine::look();
    let document = Document::open();
    for (name, measure) in SECTIONS {
        if wanted.is_empty() || wanted.iter().any(|it| it == name) {
            eprintln!("performance: {name}");
            let text = measure()?;
            eprintln!("{text}");
            // Each as soon as it is there, so that whoever stops the run keeps what has been measured.
            document.replace(name, &format!("{text}\n{machine}\n"))?;
        }
    }
    Ok(())
}

/// A line of a table of promises: what it is, what is promised, what was measured, and whether that is so.
struct Proof {
    what: &'static str,
    target: f64,
    /// Whether the target is the least that is promised, and not the most.
    at_least: bool,
    measured: f64,
    /// The unit of both.
    unit: &'static str,
}

impl Proof {
    fn is_met(&self) -> bool {
        if self.at_least { self.measured >= self.target } else { self.measured <= self.target }
    }
}

/// The table of promises.
fn proofs(proofs: &[Proof]) -> String {
    let mut text =
        "| promised | target | measured | measured ÷ target | met |\n|---|---|---|---|---|\n"
            .to_owned();
    for proof in proofs {
        let Proof { what, target, measured, unit, .. } = proof;
        let bound = if proof.at_least { "at least" } else { "at most" };
        let met = if proof.is_met() { "yes" } else { "**no**" };
        let ratio = measured / target;
        text += &format!(
            "| {what} | {bound} {}{unit} | {}{unit} | {ratio:.2} | {met} |\n",
            number(*target),
            number(*measured)
        );
    }
    text
}

/// A number for people: no more digits than mean something.
fn number(number: f64) -> String {
    match number {
        large if large >= 10_000.0 => {
            let thousands = (large / 1000.0).round() as u64;
            if thousands >= 1000 {
                format!("{},{:03},000", thousands / 1000, thousands % 1000)
            } else {
                format!("{thousands},000")
            }
        }
        middle if middle >= 100.0 => format!("{middle:.0}"),
        small => format!("{small:.2}"),
    }
}

/// The middle one.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}
