//! `metadata`: a mapping of any shape that Envoy is to see.

use crate::yaml::{Diagnostic, Mapping, Node, Report, Value as Yaml, shown, value};
use serde_json::{Map, Number, Value};

/// Reads the metadata beside a limit. Its depth is bounded by the parser.
pub(super) fn read(mapping: &Mapping<'_>, report: &mut Report<'_>) -> Map<String, Value> {
    let entry = mapping.get("metadata");
    let metadata = entry.and_then(|entry| value::mapping(entry, "{team: search}", report));
    metadata.map(|metadata| object(metadata, report)).unwrap_or_default()
}

fn object(mapping: &Mapping<'_>, report: &mut Report<'_>) -> Map<String, Value> {
    let entries = mapping.entries.iter();
    entries.map(|entry| (entry.key.clone().into_owned(), json(&entry.node, report))).collect()
}

fn json(node: &Node<'_>, report: &mut Report<'_>) -> Value {
    match &node.value {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => Value::Bool(*value),
        Yaml::Integer(number) => integer(*number),
        Yaml::Float(number) => Number::from_f64(*number).map_or_else(
            || {
                let message = format!("metadata cannot hold the number {}", shown(node.literal));
                report.push(
                    Diagnostic::error(node.place(), message)
                        .help("put it in quotes, or write a number that ends")
                        .key("metadata"),
                );
                Value::Null
            },
            Value::Number,
        ),
        Yaml::Text(text) => Value::String(text.clone().into_owned()),
        Yaml::List(items) => items.iter().map(|item| json(item, report)).collect(),
        Yaml::Mapping(mapping) => Value::Object(object(mapping, report)),
    }
}

/// A number that JSON's integers cannot hold becomes a fraction, as in Envoy, where all of them are.
#[expect(clippy::cast_precision_loss, reason = "Envoy's numbers have no more precision")]
fn integer(number: i128) -> Value {
    if let Ok(number) = i64::try_from(number) {
        return number.into();
    }
    u64::try_from(number).map_or_else(|_| (number as f64).into(), Value::from)
}
