//! The table of limiters in `docs/rules.md` says what the list in `src/limiter/mod.rs` says.

use std::{fs, path::Path};
use tollgate::limiter::{KEYS, PROPERTIES, Properties};

const BEGIN: &str = "<!-- The limiters: tests/it/limiters.rs says what stands here. -->\n";
const END: &str = "<!-- The end of the limiters. -->\n";

const HEAD: &str = "\
| limiter | limits | [429 or 503](adopting.md#429-or-503) | given back by `is_negative_hits` | `overdraw` | `on_store_failure: local` | `grants` | `limit set` | takes slots | may delay |
|---|---|---|---|---|---|---|---|---|---|
";

fn row(name: &str, summary: &str, properties: Properties) -> String {
    let Properties {
        sheds_load,
        is_refundable,
        may_be_overdrawn,
        has_local_form,
        may_be_prefetched,
        may_be_set,
        holds_slots,
        may_delay,
        // What a replica remembers is not for rule files.
        may_cache_denials: _,
    } = properties;
    let code = if sheds_load { 503 } else { 429 };
    let can = [
        is_refundable,
        may_be_overdrawn,
        has_local_form,
        may_be_prefetched,
        may_be_set,
        holds_slots,
        may_delay,
    ];
    let can = can.map(|can| if can { "yes" } else { "" }).join(" | ").replace("|  |", "| |");
    format!("| `{name}` | {summary} | {code} | {can} |\n").replace("|  |", "| |")
}

#[test]
fn the_table_of_limiters_follows_from_the_list() {
    let rows = KEYS.iter().zip(PROPERTIES);
    let rows: String =
        rows.map(|((name, summary), properties)| row(name, summary, *properties)).collect();
    let expected = format!("{HEAD}{rows}");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/rules.md");
    let docs = fs::read_to_string(docs).unwrap();
    let found = docs.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
    let found = found.map(|(table, _)| table.trim_matches('\n'));
    assert!(
        found == Some(expected.trim_end()),
        "put this into docs/rules.md:\n\n{BEGIN}\n{expected}\n{END}"
    );
}
