//! Whatever is said to be the name of a lease, it is one or it is not: an id is the text that it came as, one that a caller
//! chose is never one that requests share, and by every id a lease can be renewed and released.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::lease::LeaseId;

fuzz_target!(|input: &[u8]| {
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let (name, domain) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let shared = LeaseId::of_request(domain, name);
    assert_eq!(LeaseId::known(shared.as_str()), Ok(shared.clone()));
    assert!(!shared.is_drawn());
    let named = LeaseId::named(domain, name);
    assert!(named == shared || named.is_drawn());
    assert_eq!(LeaseId::known(named.as_str()), Ok(named));
    let Ok(text) = str::from_utf8(name) else { return };
    let known = LeaseId::known(text);
    if let Ok(known) = &known {
        assert_eq!(known.as_str(), text);
    }
    if let Ok(chosen) = LeaseId::chosen(text) {
        assert_eq!(known, Ok(chosen.clone()));
        assert_ne!(chosen, shared);
    }
});
