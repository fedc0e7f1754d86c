//! What was asked for, in sixteen bytes: so that a repeated Acquire is known again, and another one under
//! the same id is not taken for it.

use crate::request::Request;
use sha2::{Digest, Sha256};

/// A digest of a request: the first half of a SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 16]);

impl Fingerprint {
    /// The fingerprint of a request: its domain and its descriptors, with all that they say.
    pub fn of(request: &Request) -> Self {
        let mut digest = Sha256::new();
        let mut part = |bytes: &[u8]| {
            // No two requests read alike, wherever one part ends and the next begins.
            digest.update((bytes.len() as u64).to_le_bytes());
            digest.update(bytes);
        };
        part(&request.domain);
        for descriptor in &request.descriptors {
            part(&(descriptor.entries.len() as u64).to_le_bytes());
            for entry in &descriptor.entries {
                part(&entry.key);
                part(&entry.value);
            }
            let limit = descriptor.limit.map_or_else(String::new, |limit| {
                format!("{} per {}", limit.requests_per_unit, limit.unit)
            });
            part(limit.as_bytes());
            part(&descriptor.hits_addend.map_or_else(Vec::new, |hits| hits.to_le_bytes().into()));
            part(&[descriptor.is_negative_hits.into()]);
        }
        let digest = digest.finalize();
        let mut half = [0; 16];
        half.iter_mut().zip(&digest).for_each(|(byte, &from)| *byte = from);
        Self(half)
    }
}
