//! Files and directories: from paths to texts.

use crate::yaml::{
    Diagnostic, Severity, Source,
    document::{LARGEST, TOO_LARGE},
    shown,
};
use sha2::{Digest as _, Sha256};
use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The most files that are read.
const MOST_FILES: usize = 10_000;

/// How large they may be together, in bytes: all of them are in memory while they are understood.
const LARGEST_TOGETHER: usize = 8 << 20;

/// Rule files as they were read, not yet understood.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Files {
    /// What could be read.
    pub(super) sources: Vec<Source>,
    /// What could not, and why.
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// What tells files from others: equal where every name and every byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest([u8; 32]);

impl Files {
    /// How many bytes were read.
    pub fn length(&self) -> usize {
        self.sources.iter().map(|source| source.text.len()).sum()
    }

    /// The digest of all that was read, and of what could not be.
    pub fn digest(&self) -> Digest {
        let mut digest = Sha256::new();
        let mut add = |text: &str| {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        };
        for source in &self.sources {
            add(&source.name);
            add(&source.text);
        }
        self.diagnostics.iter().for_each(|diagnostic| add(&diagnostic.message));
        Digest(digest.finalize().into())
    }
}

/// Reads all that can be read, and reports what cannot. `again`: a pipe or a device is refused, because to open it would
/// wait until another process writes.
pub(super) fn files(paths: &[PathBuf], again: bool) -> Files {
    let mut reading = Reading::default();
    for path in paths {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => reading.directory(path),
            Ok(metadata) if again && !metadata.is_file() => reading.error(
                format!("{} is neither a file nor a directory", name(path)),
                "name a rule file, or a directory of rule files",
            ),
            Ok(_) => reading.file(path),
            Err(error) => reading.unreadable(path, &error),
        }
    }
    reading.files
}

#[derive(Debug, Default)]
struct Reading {
    files: Files,
    /// The bytes of the texts.
    length: usize,
    /// Files that were read, by their one true path.
    seen: HashSet<PathBuf>,
}

impl Reading {
    fn directory(&mut self, directory: &Path) {
        match rule_files(directory) {
            Ok(files) if files.is_empty() => self.error(
                format!("no rule files in the directory {}", name(directory)),
                "put `*.yaml` or `*.yml` files into it; hidden files and subdirectories do not count",
            ),
            Ok(files) if files.len() > MOST_FILES => self.error(
                format!("more than {MOST_FILES} rule files in the directory {}", name(directory)),
                "name the directory that holds the rules, or join some of the files",
            ),
            Ok(files) => files.iter().for_each(|file| self.file(file)),
            Err(error) => self.unreadable(directory, &error),
        }
    }

    fn file(&mut self, path: &Path) {
        // What cannot be resolved is not a file twice: a pipe, or one that is gone by now.
        if fs::canonicalize(path).is_ok_and(|path| !self.seen.insert(path)) {
            let message = format!("the file {} is named twice", name(path));
            self.files.diagnostics.push(Diagnostic::nowhere(
                Severity::Warning,
                message,
                "it is loaded once; name each file, or the directory it is in, once",
            ));
            return;
        }
        match read(path) {
            Ok(bytes) if bytes.len() > LARGEST => {
                self.error(format!("the file {} {TOO_LARGE}", name(path)), "split it by domains");
            }
            Ok(bytes) if self.length + bytes.len() > LARGEST_TOGETHER => self.error(
                format!("the file {} makes all of them larger than 8 MiB", name(path)),
                "load fewer rule files, or smaller ones",
            ),
            Ok(bytes) => self.text(path, bytes),
            Err(error) => self.unreadable(path, &error),
        }
    }

    fn text(&mut self, path: &Path, bytes: Vec<u8>) {
        match String::from_utf8(bytes) {
            Ok(text) => {
                self.length += text.len();
                self.files.sources.push(Source { name: path.display().to_string(), text });
            }
            Err(error) => {
                let valid = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
                let line = valid.filter(|byte| **byte == b'\n').count() + 1;
                self.error(
                    format!("the file {} is not UTF-8: see line {line}", name(path)),
                    "save it in the encoding UTF-8",
                );
            }
        }
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        self.error(
            format!("cannot read {}: {error}", name(path)),
            "name a rule file, or a directory of rule files, that this process may read",
        );
    }

    fn error(&mut self, message: String, help: &str) {
        self.files.diagnostics.push(Diagnostic::nowhere(Severity::Error, message, help));
    }
}

/// Reads a file, but no more than it takes to know that it is too large.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The rule files of a directory, sorted by name. A link counts as what it leads to: Kubernetes mounts
/// `rules.yaml` as a link to `..data/rules.yaml`, so that all files change at one instant.
fn rule_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        // A link that leads nowhere is kept, so that reading it tells.
        if is_rule_file(&path) && fs::metadata(&path).map_or(true, |it| it.is_file()) {
            files.push(path);
        }
        if files.len() > MOST_FILES {
            break;
        }
    }
    files.sort();
    Ok(files)
}

fn is_rule_file(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && path.extension().is_some_and(|it| it == "yaml" || it == "yml")
}

fn name(path: &Path) -> String {
    shown(&path.display().to_string())
}
