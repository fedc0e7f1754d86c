//! The tree holds to its layers: which module of `src/` may import which, which crates are named where, and who takes a
//! lock. ARCHITECTURE.md says why. What breaks a rule today is listed here, and the list may only shrink.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The modules of the library, from the bottom up: each may import those before it.
const LAYERS: [&str; 29] = [
    "unit",
    "clock",
    "task",
    "activity",
    "budget",
    "services",
    "shadow",
    "key",
    "lease",
    "worker",
    "yaml",
    "limiter",
    "request",
    "decision",
    "order",
    "verdict",
    "release",
    "renew",
    "report",
    "grant",
    "refund",
    "rules",
    "config",
    "store",
    "decider",
    "reload",
    "telemetry",
    "grpc",
    "http",
    "server",
];

/// The modules of the command, which import the library by its name, and each other. `lib.rs` imports nothing.
const COMMAND: [&str; 13] = [
    "arguments",
    "ask",
    "load",
    "open_files",
    "orders",
    "pools",
    "print",
    "redraw",
    "screen",
    "shadow_report",
    "watch",
    "main",
    "lib",
];

/// Imports against the layers, as `from -> to`.
const AGAINST_LAYERS: [&str; 2] = ["lease -> request", "telemetry -> grpc"];

/// What may be named where: a word, the places under `src/` that may have it, and those that have it nevertheless.
const NAMED: [(&str, &[&str], &[&str]); 4] = [
    // `store/mod.rs` names the module of ours.
    ("use redis::", &["store/redis/", "store/mod.rs"], &[]),
    ("tonic::", &["grpc/", "http/", "server.rs", "server/", "load/", "main.rs"], &[]),
    ("opentelemetry", &["telemetry.rs", "telemetry/"], &[]),
    (
        "Mutex<",
        &["store/", "server/", "budget.rs", "decider/pending.rs", "decider/shadow.rs"],
        // The last is for tests.
        &["decider.rs", "decider/replaced.rs", "decider/orders.rs", "task/faulty_log.rs"],
    ),
];

/// Names of folders and files that are there in tests only.
const TESTS: [&str; 3] = ["tests", "samples", "twins"];

/// A file of `src/`: its path from there, and its code, without comments and tests.
struct File {
    path: String,
    code: String,
}

impl File {
    fn module(&self) -> &str {
        let first = self.path.split('/').next().unwrap();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// The modules of this crate that it names, each with the line.
    fn imports(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (place, _) in self.code.match_indices("crate::") {
            let line = self.code[..place].matches('\n').count() + 1;
            let rest = &self.code[place + "crate::".len()..];
            let names = match rest.strip_prefix('{') {
                Some(list) => outer_names(list),
                None => vec![name(rest)],
            };
            found.extend(names.into_iter().map(|name| (line, name.to_owned())));
        }
        found
    }
}

/// The identifier that a text begins with.
fn name(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The first identifier of each item of a list, up to its closing brace.
fn outer_names(list: &str) -> Vec<&str> {
    let (mut depth, mut begins, mut names) = (0, 0, Vec::new());
    for (place, byte) in list.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b'}' | b',' if depth == 0 => {
                names.push(name(&list[begins..place]));
                begins = place + 1;
                if byte == b'}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_of_tests = TESTS.contains(&name.strip_suffix(".rs").unwrap_or(name));
            if path.is_dir() && !is_of_tests {
                folders.push(path);
            } else if name.ends_with(".rs") && !is_of_tests {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                let is_comment = |line: &&str| line.trim_start().starts_with("//");
                let lines = code.lines().map(|line| if is_comment(&line) { "" } else { line });
                let code = lines.collect::<Vec<_>>().join("\n");
                let path = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                found.push(File { path, code });
            }
        }
    }
    found
}

#[test]
fn modules_import_those_below_them() {
    let place = |module: &str| LAYERS.iter().position(|layer| *layer == module);
    let mut against = BTreeMap::<String, Vec<String>>::new();
    for file in files() {
        let module = file.module();
        if COMMAND.contains(&module) {
            continue;
        }
        for (line, imported) in file.imports() {
            let at = format!("src/{}:{line}: {module} imports {imported}", file.path);
            if imported == module {
                continue;
            }
            let (Some(from), Some(to)) = (place(module), place(&imported)) else {
                panic!("{at}: give it a place in LAYERS");
            };
            if to > from {
                against.entry(format!("{module} -> {imported}")).or_default().push(at);
            }
        }
    }
    let known: BTreeSet<String> = AGAINST_LAYERS.map(str::to_owned).into();
    let found: BTreeSet<String> = against.keys().cloned().collect();
    let new: Vec<_> = found.difference(&known).flat_map(|edge| &against[edge]).collect();
    assert!(new.is_empty(), "against the layers:\n{new:#?}");
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(gone.is_empty(), "take out of AGAINST_LAYERS what is mended: {gone:?}");
}

/// Folders whose files import each other in one direction, beside those of the limiters.
const WITHOUT_CIRCLES: [&str; 2] = ["config", "yaml"];

/// Folders of limiters with circles nevertheless.
const WITH_CIRCLES: [&str; 1] = ["limiter/token_bucket"];

/// For each file of a folder, by its module's name, the files of the folder that it imports. `mod.rs` is `mod`.
fn imports_within(folder: &str, files: &[File]) -> BTreeMap<String, BTreeSet<String>> {
    let inside = |file: &&File| {
        file.path.strip_prefix(folder).is_some_and(|rest| rest.matches('/').count() == 1)
    };
    let stem = |file: &File| file.path.rsplit('/').next().unwrap().replace(".rs", "");
    let names: BTreeSet<String> = files.iter().filter(inside).map(stem).collect();
    let path = format!("crate::{}::", folder.replace('/', "::"));
    let imports = |file: &File| {
        let own = stem(file);
        // The parts of `mod.rs` are beside it, those of others above.
        let prefixes = if own == "mod" {
            vec![path.as_str(), "self::"]
        } else {
            vec![path.as_str(), "super::"]
        };
        let mut found = BTreeSet::new();
        for prefix in prefixes {
            for (place, _) in file.code.match_indices(prefix) {
                let rest = &file.code[place + prefix.len()..];
                let list = rest.strip_prefix('{').map_or_else(|| vec![name(rest)], outer_names);
                // What is no file of the folder is of its `mod.rs`.
                let of = |name: &str| if names.contains(name) { name } else { "mod" }.to_owned();
                found.extend(list.into_iter().map(of));
            }
        }
        if own == "mod" {
            let used = |name: &&String| file.code.contains(&format!("{name}::"));
            found.extend(names.iter().filter(used).cloned());
        }
        found.remove(&own);
        (own, found)
    };
    files.iter().filter(inside).map(imports).collect()
}

/// The imports that lead from a file back to it, as `from -> to`.
fn circles_within(folder: &str, files: &[File]) -> Vec<String> {
    let mut left = imports_within(folder, files);
    assert!(!left.is_empty(), "no files in src/{folder}");
    // Take away what imports nothing that is left, or is imported by nothing, until only circles are.
    loop {
        let before = left.len();
        let names: BTreeSet<String> = left.keys().cloned().collect();
        let imported: BTreeSet<String> = left.values().flatten().cloned().collect();
        left.retain(|name, imports| imported.contains(name) && !imports.is_disjoint(&names));
        if left.len() == before {
            break;
        }
    }
    let edges = left.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    let edges = edges.filter(|(_, to)| left.contains_key(*to));
    edges.map(|(from, to)| format!("src/{folder}: {from} -> {to}")).collect()
}

#[test]
fn files_of_a_folder_import_each_other_in_one_direction() {
    let files = files();
    let limiters = tollgate::limiter::NAMES.iter().map(|name| format!("limiter/{name}"));
    let folders = limiters.chain(WITHOUT_CIRCLES.map(str::to_owned));
    let mut wrong = Vec::new();
    for folder in folders {
        let circles = circles_within(&folder, &files);
        if WITH_CIRCLES.contains(&folder.as_str()) {
            assert!(!circles.is_empty(), "take out of WITH_CIRCLES what is mended: {folder}");
        } else {
            wrong.extend(circles);
        }
    }
    assert!(wrong.is_empty(), "files that import each other in a circle:\n{wrong:#?}");
}

#[test]
fn crates_and_locks_are_named_where_they_belong() {
    for (word, places, nevertheless) in NAMED {
        let mut known: BTreeSet<&str> = nevertheless.iter().copied().collect();
        let mut wrong = Vec::new();
        for file in files() {
            let named = file.code.lines().enumerate().find(|(_, line)| has_word(line, word));
            let Some((line, text)) = named else { continue };
            let may = places.iter().any(|place| file.path.starts_with(place));
            if !may && !known.remove(file.path.as_str()) {
                wrong.push(format!("src/{}:{}: {}", file.path, line + 1, text.trim()));
            }
        }
        assert!(wrong.is_empty(), "`{word}` belongs in {places:?}:\n{wrong:#?}");
        assert!(known.is_empty(), "take out of NAMED what is mended: {known:?}");
    }
}

/// Whether a path or a type begins with this word, and is not a module of that name of ours.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(place, _)| {
        let before = line[..place].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}

#[test]
fn clocks_are_read_in_one_file() {
    let wrong: Vec<_> = files()
        .iter()
        .filter(|file| file.path != "clock.rs")
        .flat_map(|file| {
            let reads = |line: &&str| {
                ["SystemTime::now", "Instant::now"].iter().any(|clock| line.contains(clock))
            };
            let lines = file.code.lines().enumerate().filter(move |(_, line)| reads(line));
            lines.map(|(line, text)| format!("src/{}:{}: {}", file.path, line + 1, text.trim()))
        })
        .collect();
    assert!(wrong.is_empty(), "time is told by clock.rs:\n{wrong:#?}");
}

#[test]
fn a_limiter_is_named_by_its_folder_its_lua_and_the_list() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in tollgate::limiter::NAMES {
        assert!(root.join("src/limiter").join(name).join("mod.rs").exists(), "{name}");
        assert!(root.join("lua").join(name).join("limit.lua").exists(), "{name}");
    }
    let folders = fs::read_dir(root.join("src/limiter")).unwrap();
    let folders = folders.filter(|entry| entry.as_ref().unwrap().path().is_dir()).count();
    assert_eq!(folders, tollgate::limiter::NAMES.len(), "a folder that is not in the list");
}
