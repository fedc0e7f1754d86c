//! Whatever is given as the name of a client that may ask, it is one or it is not; and whatever a certificate is said to be,
//! it has the name or it has not.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::server::Names;

fuzz_target!(|input: &[u8]| {
    // A name, a new line, and a certificate, as DER.
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let (name, certificate) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(names) = str::from_utf8(name).unwrap_or_default().parse::<Names>() else { return };
    assert!(!names.is_empty(), "nothing would be asked");
    names.allow(&certificate.into());
});
