//! The names of leases.
//!
//! ```text
//! lease-5e0f1c…        drawn by the server: 128 random bits
//! nightly-report       chosen by a caller of Acquire
//! edge:5d2f-4c1a       carried by a request of the domain `edge`, as its `x-request-id`
//! ```
//!
//! The text of an id is also the end of the key of its record. It says nothing of what is held.

use super::Attempt;
use crate::key::{Key, Path};
use std::fmt::Write as _;

/// What ids begin with that the server draws, so that none that came with a request reads the same.
const DRAWN: &str = "lease-";

/// The longest id that a caller may choose, in bytes.
const LONGEST: usize = 128;

/// The longest id of any kind, in bytes: no path in a key is longer.
const LONGEST_KNOWN: usize = 256;

/// The id of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseId(Key);

/// An id that no lease can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "`lease_id` is no id: use at most {LONGEST} letters, digits and other printable ASCII but for %:=#*~ (the server draws one where it is empty)"
)]
pub struct UnusableId;

impl LeaseId {
    /// A new id: 128 bits that nobody can guess, from the operating system. And a new attempt, to take under
    /// this id or another.
    ///
    /// # Errors
    ///
    /// Where the operating system has no random numbers.
    pub fn draw() -> Result<(Self, Attempt), getrandom::Error> {
        let mut bytes = [0; 24];
        getrandom::fill(&mut bytes)?;
        let (attempt, id) = bytes.split_at(8);
        let mut text = DRAWN.to_owned();
        for byte in id {
            let _ = write!(text, "{byte:02x}");
        }
        let attempt = attempt
            .try_into()
            .map_or(Attempt::NONE, |bytes| Attempt::of(u64::from_le_bytes(bytes).max(1 << 11)));
        Ok((Self(Key::of_lease(&text)), attempt))
    }

    /// The id that a caller of Acquire chose.
    ///
    /// # Errors
    ///
    /// Where it could be mistaken for another kind of id, or is too long.
    pub fn chosen(text: &str) -> Result<Self, UnusableId> {
        if text.is_empty() || text.len() > LONGEST || !Path::is_plain(text.as_bytes()) {
            return Err(UnusableId);
        }
        Ok(Self(Key::of_lease(text)))
    }

    /// An id that this server gave out, of whatever kind.
    ///
    /// # Errors
    ///
    /// Where it never gave out such an id.
    pub fn known(text: &str) -> Result<Self, UnusableId> {
        let may_be = !text.is_empty() && text.len() <= LONGEST_KNOWN;
        if may_be && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(Key::of_lease(text)))
        } else {
            Err(UnusableId)
        }
    }

    /// The lease that requests of a domain share by a name that they carry: any bytes.
    pub fn of_request(domain: &[u8], name: &[u8]) -> Self {
        let mut path = Path::of_domain(domain);
        path.push_key(name);
        Self(Key::new("lease", &path))
    }

    /// What a request of a domain means by the name of a lease, to take slots under it or to release it: a
    /// lease whose id was drawn, or one that requests share.
    pub fn named(domain: &[u8], name: &[u8]) -> Self {
        match std::str::from_utf8(name) {
            Ok(text) if is_drawn(text) => Self(Key::of_lease(text)),
            _ => Self::of_request(domain, name),
        }
    }

    /// Whether the server drew it.
    pub fn is_drawn(&self) -> bool {
        is_drawn(self.as_str())
    }

    /// The id as text: printable ASCII, without spaces.
    pub fn as_str(&self) -> &str {
        self.0.lease().unwrap_or_default()
    }

    /// The key of its record.
    pub const fn key(&self) -> &Key {
        &self.0
    }
}

fn is_drawn(text: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.strip_prefix(DRAWN).is_some_and(|hex| hex.len() == 32 && hex.bytes().all(is_hex))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_ids_differ_and_are_known_again() {
        let ((one, first), (other, second)) = (LeaseId::draw().unwrap(), LeaseId::draw().unwrap());
        assert_ne!(one, other);
        assert!(first != second && first != Attempt::NONE);
        assert!(one.is_drawn());
        assert_eq!(LeaseId::known(one.as_str()).as_ref(), Ok(&one));
        assert_eq!(LeaseId::named(b"edge", one.as_str().as_bytes()), one);
        assert_eq!(LeaseId::chosen(one.as_str()), Ok(one), "whoever knows it may name it");
    }

    #[test]
    fn what_requests_carry_belongs_to_their_domain() {
        let ids = [
            LeaseId::of_request(b"edge", b"7"),
            LeaseId::of_request(b"fleet", b"7"),
            LeaseId::of_request(b"edge:7", b""),
            LeaseId::chosen("7").unwrap(),
        ];
        for (place, id) in ids.iter().enumerate() {
            assert_eq!(ids.iter().position(|other| other == id), Some(place));
            assert_eq!(
                LeaseId::known(id.as_str()).as_ref(),
                Ok(id),
                "it can be renewed by its text"
            );
        }
        assert_eq!(LeaseId::named(b"edge", b"7"), ids[0]);
    }

    #[test]
    fn an_id_of_any_bytes_and_any_length_has_a_short_text() {
        for name in [&b"\xff\0 :"[..], &[b'x'; 50_000], b""] {
            let id = LeaseId::of_request(b"edge", name);
            assert!(
                id.as_str().len() <= 256 && id.as_str().bytes().all(|it| it.is_ascii_graphic())
            );
            assert_eq!(LeaseId::known(id.as_str()), Ok(id));
        }
    }

    #[test]
    fn what_could_be_mistaken_is_not_to_be_chosen() {
        for text in ["", "edge:7", "a b", "50%", "é", "~x", &"x".repeat(129)] {
            assert_eq!(LeaseId::chosen(text), Err(UnusableId), "{text}");
        }
        for text in ["nightly", "ns/pod-7_b.c", "a@b", &"x".repeat(128)] {
            assert_eq!(LeaseId::chosen(text).unwrap().as_str(), text);
        }
    }
}
