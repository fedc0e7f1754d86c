//! Paths: files, directories, and what can be wrong with them.

use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;
use tollgate::config::{Loaded, Options, Severity, load};

fn load_all(paths: &[&Path]) -> Loaded {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
    load(&paths, &Options::default())
}

/// A directory with files that hold just a domain.
fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, domain) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("domain: {domain}\n")).unwrap();
    }
    directory
}

fn domains(loaded: &Loaded) -> Vec<&str> {
    loaded.domains.iter().map(|domain| domain.name.as_str()).collect()
}

fn only_message(loaded: &Loaded) -> &str {
    let [diagnostic] = loaded.diagnostics.as_slice() else {
        panic!("not one diagnostic:\n{}", loaded.render(false))
    };
    assert!(!diagnostic.help.is_empty());
    &diagnostic.message
}

#[test]
fn a_directory_gives_its_own_rule_files_sorted_by_name() {
    let directory = directory(&[
        ("b.yaml", "b"),
        ("a.yml", "a"),
        ("c.yaml", "c"),
        ("notes.txt", "no"),
        ("b.yaml.orig", "no"),
        (".hidden.yaml", "no"),
        ("below/d.yaml", "no"),
        ("folder.yaml/e.yaml", "no"),
    ]);
    let loaded = load_all(&[directory.path()]);
    assert_eq!(loaded.render(false), "");
    assert_eq!(domains(&loaded), ["a", "b", "c"]);
}

#[test]
fn a_file_is_read_whatever_its_name() {
    let directory = directory(&[(".rules", "hidden")]);
    assert_eq!(domains(&load_all(&[&directory.path().join(".rules")])), ["hidden"]);
}

#[cfg(unix)]
#[test]
fn links_are_followed_as_kubernetes_mounts_them() {
    use std::os::unix::fs::symlink;
    let directory = directory(&[("..2026/rules.yaml", "edge")]);
    symlink("..2026", directory.path().join("..data")).unwrap();
    symlink("..data/rules.yaml", directory.path().join("rules.yaml")).unwrap();
    let loaded = load_all(&[directory.path()]);
    assert_eq!(loaded.render(false), "");
    assert_eq!(domains(&loaded), ["edge"]);
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_an_error() {
    let directory = directory(&[("a.yaml", "a")]);
    std::os::unix::fs::symlink("gone", directory.path().join("b.yaml")).unwrap();
    let loaded = load_all(&[directory.path()]);
    assert!(only_message(&loaded).starts_with("cannot read `"));
    assert_eq!(domains(&loaded), ["a"], "the others are looked at all the same");
}

#[test]
fn a_directory_without_rule_files_is_an_error() {
    let directory = directory(&[("below/a.yaml", "a")]);
    let loaded = load_all(&[directory.path()]);
    assert!(loaded.has_errors());
    assert!(only_message(&loaded).starts_with("no rule files in the directory `"));
}

#[test]
fn a_path_that_is_not_there_is_an_error() {
    let directory = directory(&[]);
    let loaded = load_all(&[&directory.path().join("rules.yaml")]);
    assert!(loaded.has_errors());
    assert!(only_message(&loaded).contains("rules.yaml"));
    assert!(loaded.render(false).contains("No such file"));
}

#[test]
fn a_file_named_twice_is_loaded_once() {
    let directory = directory(&[("a.yaml", "a"), ("below/b.yaml", "b")]);
    let again = directory.path().join("below/../a.yaml");
    let loaded = load_all(&[directory.path(), &again]);
    assert!(only_message(&loaded).ends_with("is named twice"));
    assert_eq!(loaded.diagnostics[0].severity, Severity::Warning);
    assert_eq!(domains(&loaded), ["a"]);
}

#[test]
fn a_file_in_another_encoding_is_an_error_with_its_line() {
    let directory = directory(&[]);
    let path = directory.path().join("a.yaml");
    fs::write(&path, b"domain: edge\n# caf\xe9\n").unwrap();
    assert!(only_message(&load_all(&[&path])).ends_with("is not UTF-8: see line 2"));
}

#[test]
fn a_file_that_is_too_large_is_an_error() {
    let directory = directory(&[]);
    let path = directory.path().join("a.yaml");
    fs::write(&path, "# a long comment\n".repeat(1 << 20)).unwrap();
    assert!(only_message(&load_all(&[&path])).ends_with("is larger than 4 MiB"));
}

#[test]
fn mistakes_in_paths_do_not_hide_those_in_files() {
    let directory = directory(&[("a.yaml", "[]")]);
    let loaded = load_all(&[&directory.path().join("b.yaml"), directory.path()]);
    assert_eq!(loaded.diagnostics.len(), 2);
}
