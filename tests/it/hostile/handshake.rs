//! What may be wrong with a TLS handshake.

use super::{
    Case,
    Expected::{Patience, Refusal},
};

/// A record of TLS, of this kind.
fn record(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
    [&[kind, 3, 1], &length[..], bytes].concat()
}

pub(super) fn cases() -> Vec<Case> {
    let hello = |body: &[u8]| {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        record(22, &[&[1], &length[1..], body].concat())
    };
    // A hello that offers nothing but a cipher of the past.
    let old = [&[3, 1][..], &[7; 32], &[0], &[0, 2, 0, 5], &[1, 0]].concat();
    let refused: Vec<(&str, Vec<u8>)> = vec![
        ("HTTP/1", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec()),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("zeros", vec![0; 4096]),
        ("ones", vec![0xff; 4096]),
        ("SSL 2", vec![0x80, 0x2e, 0x01, 0x00, 0x02, 0x00, 0x15, 0x00, 0x00, 0x00, 0x10]),
        ("an alert", record(21, &[2, 40])),
        ("data before a handshake", record(23, &[0; 100])),
        ("a heartbeat", record(24, &[1, 0x40, 0])),
        ("a cipher's change", record(20, &[9])),
        ("a record of an unknown kind", record(99, &[0; 10])),
        ("a record of 64 KB", [&[22, 3, 1, 0xff, 0xff][..], &[1; 0xffff]].concat()),
        ("a hello of TLS 1.0", hello(&old)),
        ("a hello of nothing", hello(&[])),
        ("a hello of garbage", hello(&[0xaa; 300])),
        ("a hello that says 16 MB", record(22, &[1, 0xff, 0xff, 0xff, 3, 3])),
        (
            "a finish at the beginning",
            record(22, &[20, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ),
        ("10,000 empty records", record(22, &[]).repeat(10_000)),
        ("10,000 alerts", record(21, &[1, 90]).repeat(10_000)),
    ];
    let waits: [(&str, Vec<u8>); 3] = [
        ("nothing", Vec::new()),
        ("half a record", record(22, &[1; 100])[..50].to_vec()),
        ("half a hello", record(22, &[1, 0, 1, 0, 3, 3])),
    ];
    let refused = refused.into_iter().map(|(name, sends)| Case::new(name, sends, Refusal));
    refused.chain(waits.map(|(name, sends)| Case::new(name, sends, Patience))).collect()
}
