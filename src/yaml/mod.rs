//! The YAML of rule files: text to nodes that know their place, readers of the values that keys ask for, and what is
//! wrong with either, for people.
//!
//! What a mapping takes is its [`Table`]. It stands beside the reader of the mapping: in `config`, and in
//! the folder of each limiter.

mod diagnostic;
pub mod document;
pub mod duration;
pub mod names;
mod node;
pub mod rate;
mod raw;
pub mod render;
mod report;
pub mod share;
pub mod table;
pub mod value;
pub mod words;

pub use diagnostic::{Diagnostic, Place, Related, Severity, Source, shown};
pub use node::{Entry, KeyForm, Mapping, Node, Value};
pub use report::Report;
pub use table::{Key, Table};
