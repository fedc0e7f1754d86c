//! Draws `docs/shedding.svg`: a surge, what is shed of it, and how it comes back. The workers and their load are
//! simulated, every decision is made by the code that serves.
//!
//! ```sh
//! cargo run --example shedding > docs/shedding.svg
//! ```

#![allow(
    missing_docs,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that draws a figure"
)]

mod plot;
mod simulation;

fn main() {
    print!("{}", plot::svg());
}
