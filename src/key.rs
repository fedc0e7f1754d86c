//! The names of things: of a rule, as people address it, and of a state, as a store keeps it.
//!
//! Both are paths of one grammar, so that one can be read from the other:
//!
//! ```text
//! edge:plan=free:user            the rule for any user of the plan `free`, in the domain `edge`
//! edge:plan=free:user#daily      its limit named `daily`, among several
//! edge:path=/api/*               a rule with a wildcard
//!
//! tg1:token_bucket:edge:plan=free:user=alice#daily      the state of one user's limit
//! tg1:fleet:edge#api             what is in flight in the pool `api` of the domain `edge`
//! tg1:utilization:edge#api       how busy its workers are
//! tg1:worker:edge#api:web-1      what one of them said last
//! tg1:lease:lease-5e0f1c…        the record of a lease
//! tg1:shadow:hour-3:edge:plan=free:user      what that rule, in shadow, would have refused in ten minutes
//! ```
//!
//! Bytes that mean something in the grammar, and those that are not printable ASCII, are written as
//! `%` and two hexadecimal digits, so that two different paths never read alike, whatever a caller
//! puts into a value. Only a wildcard's own `*` is written as it is.

#[cfg(test)]
mod tests;

use crate::shadow::Window;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Version of the grammar of state keys. It changes whenever a key's meaning does.
const VERSION: &str = "tg1";

/// What the keys of leases' records have in the place of a limiter.
const LEASE: &str = "lease";

/// What the keys of what rules did in shadow have there.
const SHADOW: &str = "shadow";

/// The longest path that stands in a key as it is, in bytes. Beyond that a key holds a SHA-256 of it:
/// a caller may send 50 KB, and gets a state of his own all the same.
const LONGEST: usize = 256;

/// How long most paths are at most, in bytes.
const USUAL: usize = 96;

/// The key of a state in a store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Box<str>);

impl Key {
    /// The key of a limit's state.
    pub fn new(limiter: &str, path: &Path) -> Self {
        Self::of_text(limiter, &path.text)
    }

    fn of_text(limiter: &str, text: &str) -> Self {
        Self(if text.len() <= LONGEST {
            let parts = [VERSION, ":", limiter, ":", text];
            // As long as it will be, so that it is not moved to where it fits.
            let mut key = String::with_capacity(parts.iter().map(|part| part.len()).sum());
            parts.iter().for_each(|part| key.push_str(part));
            key.into()
        } else {
            let mut key = format!("{VERSION}:{limiter}:~");
            for byte in Sha256::digest(text.as_bytes()) {
                let _ = write!(key, "{byte:02x}");
            }
            key.into()
        })
    }

    /// The key of a lease's record, by the text of its id.
    pub fn of_lease(text: &str) -> Self {
        Self(format!("{VERSION}:{LEASE}:{text}").into())
    }

    /// The keys of what a rule did in shadow, by its path: one for each of [`PLACES`](crate::shadow::PLACES).
    pub fn of_shadow(rule: &str) -> Vec<Self> {
        let places = Window::places();
        let keys = places.map(|(window, place)| format!("{SHADOW}:{window}-{place}"));
        keys.map(|kind| Self::of_text(&kind, rule)).collect()
    }

    /// The path of the state, where it is the key of a limit's: what it is the state of. A path that was too long
    /// is a `~` and a hash.
    pub fn path(&self) -> &str {
        self.0.splitn(3, ':').nth(2).unwrap_or_default()
    }

    /// Whether its path was too long, and only a hash of it is there.
    pub fn is_hashed(&self) -> bool {
        self.path().starts_with('~')
    }

    /// What it is the key of: a limiter, a lease or a worker.
    pub fn limiter(&self) -> Option<&str> {
        self.0.split(':').nth(1)
    }

    /// The text of the lease's id, where it is the key of a lease's record.
    pub fn lease(&self) -> Option<&str> {
        self.0.strip_prefix(VERSION)?.strip_prefix(':')?.strip_prefix(LEASE)?.strip_prefix(':')
    }

    /// A key as a store wrote it down.
    pub fn read(text: &str) -> Self {
        Self(text.into())
    }

    /// The key as text: printable ASCII, without spaces.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A path under construction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    text: String,
}

impl Path {
    /// The path of a domain.
    pub fn of_domain(domain: &[u8]) -> Self {
        // Most paths are shorter than that, and are never moved while they grow.
        let mut path = Self { text: String::with_capacity(USUAL) };
        path.push_escaped(domain, &PLAIN);
        path
    }

    /// Appends an entry with whatever value.
    pub fn push_key(&mut self, key: &[u8]) {
        self.text.push(':');
        self.push_escaped(key, &PLAIN);
    }

    /// Appends an entry with exactly this value.
    pub fn push_value(&mut self, key: &[u8], value: &[u8]) {
        self.push_key(key);
        self.text.push('=');
        self.push_escaped(value, &PLAIN);
    }

    /// Appends an entry with any value that matches a wildcard.
    pub fn push_wildcard(&mut self, key: &[u8], pattern: &[u8]) {
        self.push_key(key);
        self.text.push('=');
        self.push_escaped(pattern, &WILDCARD);
    }

    /// Whether these bytes stand in a path as they are.
    pub fn is_plain(bytes: &[u8]) -> bool {
        bytes.iter().all(|&byte| byte.is_ascii_graphic() && !is_special(byte))
    }

    /// Appends the name of one among several limits.
    pub fn push_name(&mut self, name: &str) {
        self.text.push('#');
        // A name of digits must not read like a place.
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            name.bytes().for_each(|byte| self.push_byte(byte));
        } else {
            self.push_escaped(name.as_bytes(), &PLAIN);
        }
    }

    /// Appends the place of one among several limits, the first being 1.
    pub fn push_place(&mut self, place: usize) {
        let _ = write!(self.text, "#{place}");
    }

    /// The path as text: printable ASCII, without spaces.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// A path as it stands in a key.
    pub fn read(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    /// The path of its descriptor, without what tells one of several limits.
    pub fn descriptor(&self) -> Self {
        // Elsewhere it is escaped.
        let descriptor = self.text.rsplit_once('#').map_or(&*self.text, |(before, _)| before);
        Self::read(descriptor)
    }

    /// The domain, and the names and values of the entries, as they were before they were written. A value with a
    /// wildcard's own `*` is that wildcard; `None` for any value.
    pub fn parts(&self) -> (Vec<u8>, Vec<PathEntry>) {
        let descriptor = self.descriptor();
        let mut parts = descriptor.text.split(':');
        let domain = unescaped(parts.next().unwrap_or_default());
        let entries = parts.map(|entry| match entry.split_once('=') {
            None => (unescaped(entry), None),
            Some((key, value)) if value.contains('*') => {
                (unescaped(key), Some(Value::Wildcard(unescaped(value))))
            }
            Some((key, value)) => (unescaped(key), Some(Value::Exact(unescaped(value)))),
        });
        (domain, entries.collect())
    }

    fn push_escaped(&mut self, bytes: &[u8], table: &Table) {
        self.text.reserve(bytes.len());
        if bytes.len() > SHORT {
            return bytes.chunks(BLOCK).for_each(|block| self.push_block(block, table));
        }
        for &byte in bytes {
            if byte.is_ascii_graphic() && !is_special(byte) {
                self.text.push(char::from(byte));
            } else {
                self.push_block(&[byte], table);
            }
        }
    }

    fn push_block(&mut self, block: &[u8], table: &Table) {
        // Most values are plain, and look nothing up in the table.
        if Self::is_plain(block) {
            return self.push_ascii(block);
        }
        let (mut text, mut length) = ([0; 3 * BLOCK], 0);
        let mut rest = &mut text[..];
        for &byte in block {
            match (table.get(usize::from(byte)), rest) {
                (Some(Written { bytes: [plain, ..], length: 1 }), [to, more @ ..]) => {
                    (*to, rest) = (*plain, more);
                    length += 1;
                }
                (Some(Written { bytes, .. }), [first, second, third, more @ ..]) => {
                    ([*first, *second, *third], rest) = (*bytes, more);
                    length += 3;
                }
                // There is room for three bytes for each.
                _ => break,
            }
        }
        self.push_ascii(text.get(..length).unwrap_or_default());
    }

    fn push_ascii(&mut self, ascii: &[u8]) {
        self.text.push_str(str::from_utf8(ascii).unwrap_or_default());
    }

    fn push_byte(&mut self, byte: u8) {
        let _ = write!(self.text, "%{byte:02X}");
    }
}

/// How many bytes are escaped at a time.
const BLOCK: usize = 64;

/// Up to how many bytes it is faster to append them one by one.
const SHORT: usize = 24;

/// How each byte is written in a path.
type Table = [Written; 256];

/// How one byte is written: the first so many of these bytes, all of them ASCII.
#[derive(Debug, Clone, Copy)]
struct Written {
    bytes: [u8; 3],
    length: u8,
}

/// How the bytes of keys, values and names are written.
static PLAIN: Table = table(None);

/// How those of wildcards are: a `*` stands as it is.
static WILDCARD: Table = table(Some(b'*'));

const fn table(kept: Option<u8>) -> Table {
    let mut table = [Written { bytes: [0; 3], length: 0 }; 256];
    let mut rest: &mut [Written] = &mut table;
    let mut byte = 0;
    while let Some((written, more)) = rest.split_first_mut() {
        let is_kept = matches!(kept, Some(kept) if kept == byte);
        *written = if byte.is_ascii_graphic() && (is_kept || !is_special(byte)) {
            Written { bytes: [byte, 0, 0], length: 1 }
        } else {
            Written { bytes: [b'%', digit(byte >> 4), digit(byte & 15)], length: 3 }
        };
        rest = more;
        byte = byte.wrapping_add(1);
    }
    table
}

/// A hexadecimal digit.
const fn digit(number: u8) -> u8 {
    if number < 10 { b'0' + number } else { b'A' + number - 10 }
}

/// An entry of a path: its key, and its value; `None` for any.
pub type PathEntry = (Vec<u8>, Option<Value>);

/// The value of an entry of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// This one.
    Exact(Vec<u8>),
    /// All that match a wildcard, and share a state.
    Wildcard(Vec<u8>),
}

/// What was escaped. What is no escape stays as it is.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(byte) = rest.bytes().next() {
        let hex = rest.strip_prefix('%').and_then(|escape| escape.get(..2));
        let escaped = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(escaped.unwrap_or(byte));
        rest = rest.get(if escaped.is_some() { 3 } else { 1 }..).unwrap_or_default();
    }
    bytes
}

/// Whether a byte means something in the grammar.
const fn is_special(byte: u8) -> bool {
    matches!(byte, b'%' | b':' | b'=' | b'#' | b'*' | b'~')
}
