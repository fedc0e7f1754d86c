//! Rule files made to exhaust memory: small ones that become large, and large ones that hold nothing. They are refused, each
//! with its reason, and cost a bounded amount of memory.

use super::parse_all;
use crate::support::{Server, TempDir, get, run, until};
use std::{fs, path::Path};

/// The most memory that a reload may take beside what the server had.
const MOST_MIB: u64 = 64;

const MIB: usize = 1 << 20;

const GOOD: &str =
    "domain: shop\ndescriptors:\n  - {key: user, rate_limit: {unit: day, requests_per_unit: 5}}\n";

/// A file of its name, its text, and words of the error.
type Hostile = (&'static str, String, &'static str);

/// So many of what a function makes of a number.
fn each(count: usize, make: impl Fn(usize) -> String) -> String {
    (0..count).map(make).collect()
}

fn rules(count: usize, make: impl Fn(usize) -> String) -> String {
    format!("domain: mall\ndescriptors:\n{}", each(count, make))
}

/// A text in lines, of so many bytes.
fn in_lines(size: usize) -> String {
    let line = format!("{}\n  ", "x".repeat(60_000));
    line.repeat(size / line.len())
}

fn small_that_become_large() -> Vec<Hostile> {
    let laughs = |level| match level {
        0 => "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned(),
        _ => format!("a{level}: &a{level} [{}]\n", format!("*a{},", level - 1).repeat(10)),
    };
    let nested = |place| {
        format!(
            "k{place}: {}x{}\n",
            each(20, |depth| format!("[&a{place}b{depth} ")),
            "]".repeat(20)
        )
    };
    let many = "too many values";
    vec![
        ("aliases of aliases", each(12, laughs), many),
        (
            "aliases of a list",
            format!("big: &x [{}]\nlist: [{}]\n", "a,".repeat(900), "*x,".repeat(1000)),
            many,
        ),
        (
            "aliases of a long text",
            format!("domain: &x {}\nlist: [{}]\n", "y".repeat(MIB), "*x,".repeat(10_000)),
            many,
        ),
        ("anchors", each(200_000, |place| format!("k{place}: &a{place} v\n")), many),
        ("anchors in anchors", each(15_000, nested), many),
        (
            "merge keys",
            format!(
                "base: &b {{{}}}\nlist: [{}]\n",
                each(1000, |at| format!("k{at}: 1,")),
                "{<<: *b},".repeat(900)
            ),
            many,
        ),
        ("lists in lists", "[".repeat(MIB), "recursion limit"),
        (
            "lists in lists in lines",
            each(2000, |depth| format!("{}-\n", " ".repeat(depth))),
            "nested too deeply",
        ),
        (
            "values of a byte",
            rules(1, |_| "  - [\n".to_owned() + &"1,1,1,1,1,1,1,1,\n".repeat(150_000)),
            many,
        ),
        ("lists of nothing", rules(1, |_| "-\n".repeat(MIB)), many),
        ("mappings of nothing", rules(1, |_| "- {}\n".repeat(MIB / 2)), many),
        ("documents", "---\na\n".repeat(300_000), many),
    ]
}

fn large_that_hold_nothing() -> Vec<Hostile> {
    vec![
        ("a large file", "# nothing\n".repeat(MIB), "is larger than 4 MiB"),
        (
            "a long line",
            format!("#{}\n{GOOD}", "x".repeat(3 * MIB)),
            "line 1 is longer than 1.5 MiB",
        ),
        ("empty lines", "\n".repeat(7 * MIB / 2), "`domain` is missing"),
        (
            "a long value",
            format!("domain: {}\n", "x".repeat(3 * MIB / 2 - 100)),
            "is longer than 4096 bytes",
        ),
        (
            "a long value in quotes",
            format!("domain: \"{}\"\n", in_lines(7 * MIB / 2)),
            "is longer than 4096 bytes",
        ),
        (
            "a long value in lines",
            format!("domain: {}\n", in_lines(7 * MIB / 2)),
            "is longer than 4096 bytes",
        ),
        (
            "a long text",
            format!("domain: |\n{}", "  x\n".repeat(7 * MIB / 2 / 8)),
            "is longer than 4096 bytes",
        ),
        ("a long key", format!("? \"{}\"\n: 1\n", in_lines(7 * MIB / 2)), "unknown key"),
    ]
}

fn with_many_mistakes() -> Vec<Hostile> {
    let good = "rate_limit: {unit: day, requests_per_unit: 1}";
    let bad = "rate_limit: {unit: century, requests_per_unit: -1}, what: 1";
    vec![
        ("mistakes", rules(15_000, |at| format!("  - {{key: k{at}, {bad}}}\n")), "no unit"),
        (
            "mistakes in a line",
            rules(1, |_| format!("  [{}]\n", "{kye: a, vlaue: b},".repeat(45_000))),
            "unknown key",
        ),
        (
            "mistakes in long lines",
            rules(3500, |_| format!("  - {{kye: \"{}\"}}\n", "z".repeat(1000))),
            "unknown key",
        ),
        ("unknown keys", each(100_000, |at| format!("k{at}: 1\n")), "unknown key"),
        ("a key again and again", "domain: mall\n".repeat(120_000), "stands twice"),
        (
            "a number again and again",
            rules(1, |_| "  - key: a\n".to_owned() + &"    1: x\n".repeat(30_000)),
            "`1` stands twice",
        ),
        ("keys that are lists", each(150_000, |at| format!("? [{at}]\n: 1\n")), "too many values"),
        (
            "the same rule",
            rules(20_000, |_| format!("  - {{key: a, value: b, {good}}}\n")),
            "twice",
        ),
        (
            "a mistake after many rules",
            rules(23_500, |at| format!("  - {{key: k{at}, {good}}}\n")) + "oops: 1\n",
            "unknown key",
        ),
    ]
}

fn all() -> Vec<Hostile> {
    [small_that_become_large(), large_that_hold_nothing(), with_many_mistakes()].concat()
}

/// What a reload takes beside what the server had, in MiB, once it is refused with these words. The server is a new one.
async fn costs(put: impl FnOnce(&Path), words: &str) -> u64 {
    let files = TempDir::new();
    files.file("shop.yaml", GOOD);
    let server = Server::start(files.path()).await;
    let before = server.memory_kib("VmHWM");
    put(files.path());
    let is_refused = async || {
        let answer = get(server.http, "/ready", &[]).await.unwrap();
        answer.body.contains(words).then_some(())
    };
    until(&format!("it is refused: {words}"), is_refused).await;
    (server.memory_kib("VmHWM") - before) / 1024
}

#[tokio::test]
#[allow(clippy::print_stdout, reason = "what each file costs is for whoever wants to know")]
async fn a_reload_of_a_hostile_file_is_refused_and_takes_little_memory() {
    let mut too_much = Vec::new();
    for (name, text, words) in all() {
        let put = |directory: &Path| {
            fs::write(directory.join("next"), text).unwrap();
            fs::rename(directory.join("next"), directory.join("next.yaml")).unwrap();
        };
        let costs = costs(put, words).await;
        println!("{costs} MiB: {name}");
        too_much.extend((costs > MOST_MIB).then_some((name, costs)));
    }
    assert_eq!(too_much, []);
}

#[tokio::test]
async fn many_files_with_many_mistakes_take_little_memory() {
    let put = |directory: &Path| {
        for file in 0..100 {
            let bad = "rate_limit: {unit: century, requests_per_unit: -1}, what: 1";
            let text = rules(150, |at| format!("  - {{key: k{at}, {bad}}}\n"));
            fs::write(directory.join(format!("{file}.yaml")), text).unwrap();
        }
    };
    let costs = costs(put, "no unit").await;
    assert!(costs <= MOST_MIB, "{costs} MiB");
}

#[tokio::test]
async fn a_check_of_a_hostile_file_says_what_is_wrong() {
    let files = TempDir::new();
    for (name, text, words) in all() {
        let path = files.file("rules.yaml", &text);
        let output = check(&path).await;
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {told}");
        assert!(told.contains(words) && told.contains("help: "), "{name}: {told}");
        assert!(told.len() < MIB, "{name}: {} bytes", told.len());
    }
}

async fn check(path: &Path) -> std::process::Output {
    run(&["check", path.to_str().unwrap()], &[]).await
}

#[test]
fn ten_thousand_rules_with_many_keys_are_loaded() {
    let rule = |at| {
        format!(
            "  - key: tenant\n    value: tenant-{at}\n    name: limit of tenant {at}\n    token_bucket: {{rate: 100/s, burst: 500}}\n    \
             on_store_failure: deny\n    shadow_mode: true\n    message: slow down please\n    detailed_metric: true\n"
        )
    };
    let loaded = parse_all(&[&rules(10_000, rule)]);
    assert!(!loaded.has_errors(), "{}", loaded.render(false));
    assert_eq!(loaded.domains[0].descriptors.len(), 10_000);
}

#[test]
fn of_many_mistakes_the_first_are_kept_and_all_are_counted() {
    let text = rules(5000, |at| format!("  - {{kye: k{at}}}\n"));
    let loaded = parse_all(&[&text]);
    assert!(loaded.diagnostics.len() <= 1000 && loaded.left_out > 0, "{}", loaded.left_out);
    let rendered = loaded.render(false);
    let all = loaded.diagnostics.len() + loaded.left_out;
    assert!(rendered.ends_with(&format!("and {} more\n", all - 500)), "{rendered}");
}

#[test]
fn warnings_take_no_place_of_an_error() {
    let good = "rate_limit: {unit: day, requests_per_unit: 1, name: n, replaces: [{name: gone}]}";
    let text = rules(3000, |at| format!("  - {{key: k{at}, {good}}}\n"));
    let warned = parse_all(&[&text]);
    assert!(!warned.has_errors() && warned.left_out > 0);
    assert!(parse_all(&[&text, "nonsense"]).has_errors());
}
