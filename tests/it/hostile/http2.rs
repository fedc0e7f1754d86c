//! What may be wrong with HTTP/2, with gRPC in it, and with the messages in that.

use super::{
    Case,
    Expected::{Answer, Either, Patience, Refusal},
};

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The head of a frame that says it is so long.
fn frame_of(length: u32, kind: u8, flags: u8, stream: u32) -> Vec<u8> {
    [&length.to_be_bytes()[1..], &[kind, flags], &stream.to_be_bytes()].concat()
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&frame_of(payload.len().try_into().unwrap(), kind, flags, stream), payload].concat()
}

/// How a connection begins.
pub(super) fn begin() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// A whole number in HPACK, behind this many bits.
fn integer(number: usize, bits: u8, first: u8) -> Vec<u8> {
    let most = (1 << bits) - 1;
    if number < most {
        return vec![first | u8::try_from(number).unwrap()];
    }
    let (mut bytes, mut rest) = (vec![first | u8::try_from(most).unwrap()], number - most);
    while rest >= 128 {
        bytes.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    bytes.push(rest.try_into().unwrap());
    bytes
}

/// A header as a literal that no table remembers.
pub(super) fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
    let text = |text: &[u8]| [integer(text.len(), 7, 0), text.to_vec()].concat();
    [vec![0], text(name), text(value)].concat()
}

fn head(headers: &[(&str, &str)]) -> Vec<u8> {
    headers.iter().flat_map(|(name, value)| literal(name.as_bytes(), value.as_bytes())).collect()
}

/// The headers of a call.
const CALL: [(&str, &str); 6] = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", PATH),
    (":authority", "tollgate"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
];

/// The same, but with another value for one, or without it.
fn call_but(name: &str, value: Option<&str>) -> Vec<u8> {
    let but = |(here, usual): &(&'static str, &'static str)| {
        let value =
            if *here == name { value.map(str::to_owned) } else { Some((*usual).to_owned()) };
        value.map(|value| literal(here.as_bytes(), value.as_bytes()))
    };
    CALL.iter().filter_map(but).flatten().collect()
}

pub(super) fn call_head() -> Vec<u8> {
    head(&CALL)
}

/// A message in gRPC's frame, which says that it is so long.
fn message_of(flag: u8, length: u32, message: &[u8]) -> Vec<u8> {
    [&[flag][..], &length.to_be_bytes(), message].concat()
}

pub(super) fn message(message: &[u8]) -> Vec<u8> {
    message_of(0, message.len().try_into().unwrap(), message)
}

/// A field of protobuf that is bytes.
pub(super) fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut length = bytes.len();
    let mut field = vec![number << 3 | 2];
    while length >= 128 {
        field.push(u8::try_from(length % 128).unwrap() | 128);
        length /= 128;
    }
    field.push(length.try_into().unwrap());
    [field, bytes.to_vec()].concat()
}

/// A descriptor with one entry.
pub(super) fn descriptor(key: &[u8], value: &[u8]) -> Vec<u8> {
    field(2, &field(1, &[field(1, key), field(2, value)].concat()))
}

/// A request that is as it should be.
pub(super) fn good() -> Vec<u8> {
    with_value(b"ada")
}

/// The same, for this value.
pub(super) fn with_value(value: &[u8]) -> Vec<u8> {
    [field(1, b"shop"), descriptor(b"user", value)].concat()
}

/// A whole call on a stream, its body in as many frames as it takes.
pub(super) fn call(stream: u32, headers: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = frame(HEADERS, END_HEADERS, stream, headers);
    let mut pieces = body.chunks(16 << 10).peekable();
    while let Some(piece) = pieces.next() {
        let flags = if pieces.peek().is_none() { END_STREAM } else { 0 };
        bytes.extend(frame(DATA, flags, stream, piece));
    }
    if body.is_empty() {
        bytes.extend(frame(DATA, END_STREAM, stream, &[]));
    }
    bytes
}

fn good_call(stream: u32) -> Vec<u8> {
    call(stream, &call_head(), &message(&good()))
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(beginnings());
    cases.extend(frames());
    cases.extend(floods());
    cases.extend(heads());
    cases.extend(calls());
    cases
}

fn beginnings() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, sends) in [
        ("HTTP/1", &b"GET / HTTP/1.1\r\nhost: somebody\r\n\r\n"[..]),
        ("HTTP/1 with an upgrade", b"GET / HTTP/1.1\r\nhost: x\r\nupgrade: h2c\r\n\r\n"),
        ("a TLS handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on and so on"),
        ("SSH", b"SSH-2.0-OpenSSH_9.6p1 Debian-1\r\n"),
        ("zeros", &[0; 4096]),
        ("ones", &[0xff; 4096]),
        ("another version", b"PRI * HTTP/3.0\r\n\r\nSM\r\n\r\n"),
        (
            "frames without a preface",
            &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0],
        ),
    ] {
        cases.push(Case::new(format!("begins with {name}"), sends, Refusal));
    }
    cases.push(Case::new("begins with nothing", [], Patience));
    cases.push(Case::new("begins with half a preface", &PREFACE[..10], Patience));
    cases.push(Case::new("begins with a preface alone", PREFACE, Patience));
    let ping = [PREFACE, &frame(PING, 0, 0, &[0; 8]), &good_call(1)].concat();
    cases.push(Case::new("begins with a ping", ping, Either));
    let twice = [PREFACE, PREFACE].concat();
    cases.push(Case::new("begins with two prefaces", twice, Refusal));
    cases
}

/// Single frames that are wrong, each before a call that is right.
fn frames() -> Vec<Case> {
    let setting = |name: u16, value: u32| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
    let open = frame(HEADERS, END_HEADERS, 1, &call_head());
    let done = good_call(1);
    let wrong: Vec<(&str, Vec<u8>)> = vec![
        ("DATA on no stream", frame(DATA, 0, 0, b"x")),
        ("DATA on an idle stream", frame(DATA, 0, 7, b"x")),
        ("HEADERS on no stream", frame(HEADERS, END_HEADERS, 0, &call_head())),
        ("HEADERS on an even stream", frame(HEADERS, END_HEADERS, 2, &call_head())),
        ("RST_STREAM on no stream", frame(RST_STREAM, 0, 0, &[0; 4])),
        ("RST_STREAM on an idle stream", frame(RST_STREAM, 0, 9, &[0; 4])),
        ("RST_STREAM of 3 bytes", [open.clone(), frame(RST_STREAM, 0, 1, &[0; 3])].concat()),
        ("PRIORITY on no stream", frame(PRIORITY, 0, 0, &[0; 5])),
        ("SETTINGS of 5 bytes", frame(SETTINGS, 0, 0, &[0; 5])),
        ("SETTINGS on a stream", frame(SETTINGS, 0, 1, &[])),
        ("SETTINGS acknowledged with a payload", frame(SETTINGS, ACK, 0, &[0; 6])),
        ("a window of 2^31", frame(SETTINGS, 0, 0, &setting(4, 1 << 31))),
        ("frames of at most 0 bytes", frame(SETTINGS, 0, 0, &setting(5, 0))),
        ("frames of at most 2^24 bytes", frame(SETTINGS, 0, 0, &setting(5, 1 << 24))),
        ("ENABLE_PUSH of 2", frame(SETTINGS, 0, 0, &setting(2, 2))),
        ("WINDOW_UPDATE of 0", frame(WINDOW_UPDATE, 0, 0, &[0; 4])),
        (
            "WINDOW_UPDATE of 0 on a stream",
            [open.clone(), frame(WINDOW_UPDATE, 0, 1, &[0; 4])].concat(),
        ),
        (
            "WINDOW_UPDATE past 2^31",
            frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]).repeat(2),
        ),
        (
            "WINDOW_UPDATE past 2^31 on a stream",
            [open.clone(), frame(WINDOW_UPDATE, 0, 1, &[0x7f, 0xff, 0xff, 0xff]).repeat(2)]
                .concat(),
        ),
        ("WINDOW_UPDATE on an idle stream", frame(WINDOW_UPDATE, 0, 11, &[0, 0, 0, 1])),
        ("WINDOW_UPDATE of 3 bytes", frame(WINDOW_UPDATE, 0, 0, &[0; 3])),
        (
            "windows made negative",
            [
                open.clone(),
                frame(SETTINGS, 0, 0, &setting(4, 0)),
                frame(SETTINGS, 0, 0, &setting(4, (1 << 31) - 1)),
                frame(WINDOW_UPDATE, 0, 1, &[0x7f, 0xff, 0xff, 0xff]),
            ]
            .concat(),
        ),
        ("PING of 7 bytes", frame(PING, 0, 0, &[0; 7])),
        ("PING on a stream", frame(PING, 0, 1, &[0; 8])),
        ("GOAWAY on a stream", frame(GOAWAY, 0, 1, &[0; 8])),
        ("GOAWAY of 7 bytes", frame(GOAWAY, 0, 0, &[0; 7])),
        ("PUSH_PROMISE", frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])),
        ("CONTINUATION of nothing", frame(CONTINUATION, END_HEADERS, 1, &call_head())),
        (
            "DATA amid HEADERS",
            [frame(HEADERS, 0, 1, &call_head()), frame(DATA, 0, 1, b"x")].concat(),
        ),
        (
            "PING amid HEADERS",
            [frame(HEADERS, 0, 1, &call_head()), frame(PING, 0, 0, &[0; 8])].concat(),
        ),
        (
            "CONTINUATION of another stream",
            [frame(HEADERS, 0, 1, &call_head()), frame(CONTINUATION, END_HEADERS, 3, &[])].concat(),
        ),
        ("a frame larger than allowed", frame(DATA, 0, 1, &vec![0; (16 << 10) + 1])),
        ("a frame that says 16 MB", frame_of((1 << 24) - 1, HEADERS, END_HEADERS, 1)),
        ("padding longer than DATA", [open.clone(), frame(DATA, PADDED, 1, &[200, 0])].concat()),
        ("padding longer than HEADERS", frame(HEADERS, END_HEADERS | PADDED, 1, &[255, 0])),
        ("padding of nothing", [open.clone(), frame(DATA, PADDED, 1, &[])].concat()),
        ("DATA after the end", [done.clone(), frame(DATA, 0, 1, b"x")].concat()),
        (
            "HEADERS after the end",
            [done.clone(), frame(HEADERS, END_HEADERS, 1, &call_head())].concat(),
        ),
        (
            "a stream with a lower number",
            [
                frame(HEADERS, END_HEADERS, 9, &call_head()),
                frame(HEADERS, END_HEADERS, 3, &call_head()),
            ]
            .concat(),
        ),
        (
            "HEADERS that depend on themselves",
            frame(HEADERS, END_HEADERS | 0x20, 1, &[&[0, 0, 0, 1, 0][..], &call_head()].concat()),
        ),
    ];
    let mut cases: Vec<_> = wrong
        .into_iter()
        .map(|(name, bytes)| {
            let sends = [begin(), bytes, good_call(0x101)].concat();
            Case::new(format!("frame: {name}"), sends, Either)
        })
        .collect();
    for (name, bytes) in [
        ("of an unknown kind", frame(0xab, 0xff, 0, &[0; 100])),
        ("with unknown flags", frame(PING, 0xfe, 0, &[0; 8])),
        ("with an unknown setting", frame(SETTINGS, 0, 0, &setting(0x999, 7))),
        ("with a table of 4 GB", frame(SETTINGS, 0, 0, &setting(1, u32::MAX))),
        ("with a list of 0 bytes", frame(SETTINGS, 0, 0, &setting(0x999a, 0))),
        ("with a reserved bit", frame(PING, 0, 1 << 31, &[0; 8])),
        ("of priority", frame(PRIORITY, 0, 5, &[0, 0, 0, 3, 7])),
    ] {
        let sends = [begin(), bytes, good_call(0x101)].concat();
        cases.push(Case::new(format!("frame {name} is no harm"), sends, Answer));
    }
    cases
}

/// Much of what would be no harm once.
fn floods() -> Vec<Case> {
    let mut cases = Vec::new();
    let open = frame(HEADERS, END_HEADERS, 1, &call_head());
    let one = |number: u32| number.to_be_bytes();
    let floods: Vec<(&str, Vec<u8>)> = vec![
        ("20,000 PINGs", frame(PING, 0, 0, &[7; 8]).repeat(20_000)),
        ("20,000 answers to no PING", frame(PING, ACK, 0, &[7; 8]).repeat(20_000)),
        ("20,000 SETTINGS", frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]).repeat(20_000)),
        ("20,000 answers to no SETTINGS", frame(SETTINGS, ACK, 0, &[]).repeat(20_000)),
        ("one frame of 2,700 settings", frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0].repeat(2_700))),
        ("20,000 PRIORITYs", frame(PRIORITY, 0, 5, &[0, 0, 0, 3, 7]).repeat(20_000)),
        (
            "PRIORITYs of 20,000 streams",
            (0..20_000).flat_map(|it| frame(PRIORITY, 0, 2 * it + 1, &[0, 0, 0, 0, 7])).collect(),
        ),
        ("20,000 WINDOW_UPDATEs", frame(WINDOW_UPDATE, 0, 0, &one(1)).repeat(20_000)),
        ("20,000 of an unknown kind", frame(0xcc, 0, 0, &[0; 64]).repeat(20_000)),
        ("20,000 GOAWAYs", frame(GOAWAY, 0, 0, &[0; 8]).repeat(20_000)),
        ("20,000 empty DATA", [open.clone(), frame(DATA, 0, 1, &[]).repeat(20_000)].concat()),
        (
            "20,000 DATA of padding",
            [open.clone(), frame(DATA, PADDED, 1, &[1, 0]).repeat(20_000)].concat(),
        ),
        (
            "10,000 streams",
            (0..10_000)
                .flat_map(|it| frame(HEADERS, END_HEADERS, 2 * it + 1, &call_head()))
                .collect(),
        ),
        (
            "10,000 streams with a byte each",
            (0..10_000)
                .flat_map(|it| {
                    [
                        frame(HEADERS, END_HEADERS, 2 * it + 1, &call_head()),
                        frame(DATA, 0, 2 * it + 1, &[0]),
                    ]
                    .concat()
                })
                .collect(),
        ),
        (
            "20,000 resets",
            (0..20_000)
                .flat_map(|it| {
                    [
                        frame(HEADERS, END_HEADERS, 2 * it + 1, &call_head()),
                        frame(RST_STREAM, 0, 2 * it + 1, &one(8)),
                    ]
                    .concat()
                })
                .collect(),
        ),
        (
            "20,000 calls and resets",
            (0..20_000)
                .flat_map(|it| {
                    [good_call(2 * it + 1), frame(RST_STREAM, 0, 2 * it + 1, &one(8))].concat()
                })
                .collect(),
        ),
        (
            "20,000 resets of the server's doing",
            (0..20_000)
                .flat_map(|it| {
                    [
                        frame(HEADERS, END_HEADERS, 2 * it + 1, &call_head()),
                        frame(WINDOW_UPDATE, 0, 2 * it + 1, &one(0)),
                    ]
                    .concat()
                })
                .collect(),
        ),
        (
            "20,000 streams that depend on themselves",
            (0..20_000)
                .flat_map(|it| {
                    let stream = 2 * it + 1;
                    frame(
                        HEADERS,
                        END_HEADERS | 0x20,
                        stream,
                        &[&one(stream)[..], &[0], &call_head()].concat(),
                    )
                })
                .collect(),
        ),
        (
            "20,000 empty CONTINUATIONs",
            [frame(HEADERS, 0, 1, &call_head()), frame(CONTINUATION, 0, 1, &[]).repeat(20_000)]
                .concat(),
        ),
        (
            "CONTINUATIONs of 100 MB",
            [
                frame(HEADERS, 0, 1, &call_head()),
                frame(CONTINUATION, 0, 1, &literal(b"x", &[b'y'; 16_000])).repeat(6_000),
            ]
            .concat(),
        ),
        (
            "20,000 CONTINUATIONs of a byte",
            [frame(HEADERS, 0, 1, &[]), frame(CONTINUATION, 0, 1, &[0x82]).repeat(20_000)].concat(),
        ),
        (
            "10,000 crumbs of cookies",
            frame(
                HEADERS,
                END_HEADERS,
                1,
                &[call_head(), literal(b"cookie", b"a=b").repeat(1_000)].concat(),
            ),
        ),
    ];
    for (name, bytes) in floods {
        // Whoever gives up answers at the end of the flood, or ends the connection amid it.
        let sends = [begin(), bytes, good_call(0x0fff_0001)].concat();
        cases.push(Case::new(format!("flood: {name}"), sends, Either));
    }
    cases
}

fn heads() -> Vec<Case> {
    let mut cases = Vec::new();
    // An entry of 4,000 bytes in the table, and then thousands of references to it.
    let remembered = {
        let text = |text: &[u8]| [integer(text.len(), 7, 0), text.to_vec()].concat();
        [vec![0x40], text(b"x"), text(&[b'y'; 4_000])].concat()
    };
    let bomb = [call_head(), remembered, vec![0xbe; 12_000]].concat();
    let blocks: Vec<(&str, Vec<u8>, _)> = vec![
        ("a bomb of references", bomb, Either),
        ("a reference to nothing", vec![0x80], Refusal),
        ("a reference past the table", integer(9_999, 7, 0x80), Refusal),
        ("a number without end", vec![0xff; 200], Refusal),
        ("a number past 2^64", [vec![0x7f], vec![0xff; 12], vec![0x7f]].concat(), Refusal),
        ("a length past the block", vec![0x00, 0x7f, 0xff, 0x7f], Refusal),
        ("half a literal", vec![0x00, 0x05, b'a'], Refusal),
        ("padding that is no code", vec![0x00, 0x81, 0x00, 0x01, b'x'], Refusal),
        ("a code for the end", vec![0x00, 0x84, 0xff, 0xff, 0xff, 0xff, 0x01, b'x'], Refusal),
        ("a table of 4 GB", [integer(u32::MAX as usize, 5, 0x20), call_head()].concat(), Refusal),
        ("a new size amid headers", [call_head(), vec![0x20]].concat(), Refusal),
        ("nothing", vec![], Either),
        ("upper case", [call_head(), literal(b"X-Upper", b"y")].concat(), Refusal),
        ("no name", [call_head(), literal(b"", b"y")].concat(), Refusal),
        ("a line end in a value", [call_head(), literal(b"x", b"a\r\nb: c")].concat(), Either),
        ("a zero in a value", [call_head(), literal(b"x", b"a\0b")].concat(), Either),
        ("bytes in a value", [call_head(), literal(b"x", b"\xff\xfe")].concat(), Answer),
        ("connection", [call_head(), literal(b"connection", b"close")].concat(), Refusal),
        (
            "transfer-encoding",
            [call_head(), literal(b"transfer-encoding", b"chunked")].concat(),
            Refusal,
        ),
        ("te: gzip", [call_head(), literal(b"te", b"gzip")].concat(), Refusal),
        ("an unknown pseudo-header", [literal(b":x", b"y"), call_head()].concat(), Refusal),
        ("a pseudo-header twice", [literal(b":method", b"POST"), call_head()].concat(), Refusal),
        ("a pseudo-header too late", [call_head(), literal(b":protocol", b"x")].concat(), Refusal),
        ("a status", [literal(b":status", b"200"), call_head()].concat(), Refusal),
        (
            "17 KB",
            [call_head(), literal(b"x", &[b'y'; 15_000]), literal(b"z", &[b'y'; 1_000])].concat(),
            Either,
        ),
        ("a length that lies", [call_head(), literal(b"content-length", b"3")].concat(), Refusal),
        (
            "a length that is none",
            [call_head(), literal(b"content-length", b"x")].concat(),
            Refusal,
        ),
    ];
    for (name, block, expects) in blocks {
        let mut bytes = begin();
        let mut pieces = block.chunks(16 << 10);
        bytes.extend(frame_with_rest(pieces.next().unwrap_or_default(), pieces.collect()));
        bytes.extend(frame(DATA, END_STREAM, 1, &message(&good())));
        cases.push(Case::new(format!("head: {name}"), bytes, expects));
    }
    for name in [":method", ":scheme", ":path", ":authority", "content-type", "te"] {
        let sends = [begin(), call(1, &call_but(name, None), &message(&good()))].concat();
        cases.push(Case::new(format!("head without {name}"), sends, Either));
    }
    cases
}

/// A head in as many frames as it takes.
fn frame_with_rest(first: &[u8], rest: Vec<&[u8]>) -> Vec<u8> {
    let end = |is_last: bool| if is_last { END_HEADERS } else { 0 };
    let mut bytes = frame(HEADERS, end(rest.is_empty()), 1, first);
    for (place, piece) in rest.iter().enumerate() {
        bytes.extend(frame(CONTINUATION, end(place + 1 == rest.len()), 1, piece));
    }
    bytes
}

fn calls() -> Vec<Case> {
    let mut cases = Vec::new();
    let service = "/envoy.service.ratelimit.v3.RateLimitService";
    let others: Vec<(&str, String)> = vec![
        (":path", "/".into()),
        (":path", "/nowhere/Nothing".into()),
        (":path", format!("{service}/Nothing")),
        (":path", service.into()),
        (":path", format!("/{PATH}")),
        (":path", format!("{PATH}/../x")),
        (":path", "/json".into()),
        (":path", "/rlconfig".into()),
        (":path", "/grpc.health.v1.Health/Nothing".into()),
        (":path", format!("{PATH}?x=y")),
        (":path", "x".repeat(8_000)),
        (":path", "*".into()),
        (":path", String::new()),
        (":method", "GET".into()),
        (":method", "CONNECT".into()),
        (":method", "BREW".into()),
        (":method", String::new()),
        (":scheme", "ftp".into()),
        (":scheme", String::new()),
        (":authority", "a b".into()),
        (":authority", "x".repeat(8_000)),
        ("content-type", "text/plain".into()),
        ("content-type", "application/grpc-web".into()),
        ("content-type", "application/grpc+json".into()),
        ("content-type", String::new()),
    ];
    for (name, value) in others {
        let shown: String = value.chars().take(70).collect();
        let sends = [begin(), call(1, &call_but(name, Some(&value)), &message(&good()))].concat();
        cases.push(Case::new(format!("call with {name} {shown:?}"), sends, Either));
    }
    for (name, value) in [
        ("grpc-timeout", "abc"),
        ("grpc-timeout", "-1S"),
        ("grpc-timeout", "999999999H"),
        ("grpc-timeout", "0n"),
        ("grpc-timeout", ""),
        ("grpc-timeout", "1"),
        ("grpc-encoding", "gzip"),
        ("grpc-encoding", "nonsense"),
        ("grpc-accept-encoding", "nonsense,,,"),
        ("grpc-status", "0"),
        ("grpc-message", "%%%"),
        ("x-bin", "not base64!"),
    ] {
        let headers = [call_head(), literal(name.as_bytes(), value.as_bytes())].concat();
        let sends = [begin(), call(1, &headers, &message(&good()))].concat();
        cases.push(Case::new(format!("call with {name} {value:?}"), sends, Answer));
    }
    let good = good();
    let length = u32::try_from(good.len()).unwrap();
    let trailers = {
        let mut bytes = frame(HEADERS, END_HEADERS, 1, &call_head());
        bytes.extend(frame(DATA, 0, 1, &message(&good)));
        bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, 1, &literal(b"x", b"y")));
        bytes
    };
    let never = {
        let mut bytes = frame(HEADERS, END_HEADERS, 1, &call_head());
        bytes.extend(frame(DATA, 0, 1, &message_of(0, 1000, &good)));
        bytes
    };
    let bytewise = {
        let mut bytes = frame(HEADERS, END_HEADERS, 1, &call_head());
        bytes.extend(message(&good).iter().flat_map(|byte| frame(DATA, 0, 1, &[*byte])));
        bytes.extend(frame(DATA, END_STREAM, 1, &[]));
        bytes
    };
    let framed: Vec<(&str, Vec<u8>, _)> = vec![
        ("compressed with nothing", call(1, &call_head(), &message_of(1, length, &good)), Answer),
        ("flag 2", call(1, &call_head(), &message_of(2, length, &good)), Answer),
        (
            "longer than what comes",
            call(1, &call_head(), &message_of(0, length + 10, &good)),
            Answer,
        ),
        (
            "shorter than what comes",
            call(1, &call_head(), &message_of(0, length - 5, &good)),
            Answer,
        ),
        ("of 4 GB", call(1, &call_head(), &message_of(0, u32::MAX, &good)), Answer),
        ("of 4 MB and a byte", call(1, &call_head(), &message_of(0, (4 << 20) + 1, &good)), Answer),
        ("none", call(1, &call_head(), &[]), Answer),
        ("half a frame", call(1, &call_head(), &[0, 0, 0]), Answer),
        ("two", call(1, &call_head(), &[message(&good), message(&good)].concat()), Answer),
        (
            "and 50 KB of zeros",
            call(1, &call_head(), &[message(&good), vec![0; 50_000]].concat()),
            Answer,
        ),
        // What is read meanwhile widens the window, perhaps in time.
        ("larger than its window", call(1, &call_head(), &message(&vec![0; 3 << 20])), Either),
        ("1,000 empty ones", call(1, &call_head(), &message(&[]).repeat(1_000)), Answer),
        ("and trailers", trailers, Answer),
        ("byte by byte", bytewise, Answer),
        ("that never ends", never, Patience),
        ("and the end before", frame(HEADERS, END_HEADERS | END_STREAM, 1, &call_head()), Answer),
    ];
    for (name, bytes, expects) in framed {
        cases.push(Case::new(format!("message {name}"), [begin(), bytes].concat(), expects));
    }
    for method in [
        "LeaseService/Acquire",
        "LeaseService/Renew",
        "LeaseService/Release",
        "LeaseService/Hold",
        "UtilizationService/ReportUtilization",
        "UtilizationService/StreamUtilization",
    ] {
        let path = format!("/tollgate.v1.{method}");
        let sends =
            [begin(), call(1, &call_but(":path", Some(&path)), &message(&[0xff; 100]))].concat();
        cases.push(Case::new(format!("garbage for {method}"), sends, Answer));
    }
    for path in [
        "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ] {
        let sends =
            [begin(), call(1, &call_but(":path", Some(path)), &message(&[0xff; 100]))].concat();
        cases.push(Case::new(format!("garbage for {path}"), sends, Answer));
    }
    cases
}

/// Messages that are no request, or one that nobody means.
pub(super) fn messages() -> Vec<(String, Vec<u8>)> {
    let domain = field(1, b"shop");
    let with = |rest: Vec<u8>| [domain.clone(), rest].concat();
    let groups = |count: usize| [vec![0x7b; count], vec![0x7c; count]].concat();
    let wrong: Vec<(&str, Vec<u8>)> = vec![
        ("half a number", vec![0x18, 0xff]),
        ("a number of 11 bytes", [vec![0x18], vec![0xff; 10], vec![0x01]].concat()),
        ("field 0", vec![0x00, 0x01]),
        ("wire type 6", vec![0x0e, 0x01]),
        ("wire type 7", vec![0x0f, 0x01]),
        ("a group without end", vec![0x7b]),
        ("an end without a group", vec![0x7c]),
        ("groups nested 50 deep", with(groups(50))),
        ("groups nested 100,000 deep", with(groups(100_000))),
        ("a length past the end", vec![0x0a, 0x7f, b'x']),
        ("a length of 2^63", [vec![0x0a], vec![0xff; 9], vec![0x00]].concat()),
        ("a domain that is a number", vec![0x08, 0x05]),
        ("a domain that is no text", [field(1, b"\xff\xfe"), descriptor(b"user", b"a")].concat()),
        ("no domain", descriptor(b"user", b"a")),
        ("no descriptors", domain.clone()),
        ("descriptors that are numbers", with(vec![0x10, 0x05])),
        ("hits that are text", with(field(3, b"5"))),
        ("hits of 2^64", with([vec![0x18], vec![0xff; 9], vec![0x01]].concat())),
        ("a descriptor cut short", with(field(2, &[0x0a, 0x50]))),
        ("an entry cut short", with(field(2, &field(1, &[0x0a, 0x50])))),
        ("a key that is no text", with(descriptor(b"\xff\xfe", b"\xff"))),
        ("a value of 4 MB", with(descriptor(b"user", &vec![b'x'; 4_000_000]))),
        ("an unknown unit", with(field(2, &field(2, &[0x10, 0x63])))),
        (
            "a limit of 2^64",
            with(field(
                2,
                &field(2, &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
            )),
        ),
        (
            "an addend of 2^64",
            with(field(
                2,
                &field(3, &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
            )),
        ),
        ("101 descriptors", with(descriptor(b"user", b"a").repeat(101))),
        ("a million unknown fields", with([0x78, 0x01].repeat(1_000_000))),
        ("two million empty descriptors", with(field(2, &[]).repeat(2_000_000))),
        ("two million empty entries", with(field(2, &field(1, &[]).repeat(2_000_000)))),
        ("a million empty limits", with(field(2, &field(2, &[]).repeat(1_000_000)))),
        (
            "65 entries",
            with(field(2, &field(1, &[field(1, b"a"), field(2, b"b")].concat()).repeat(65))),
        ),
        ("entries without keys", with(field(2, &field(1, &[])))),
        ("JSON", super::http1::GOOD.as_bytes().to_vec()),
        ("zeros", vec![0; 10_000]),
        ("ones", vec![0xff; 10_000]),
    ];
    let mut cases: Vec<_> =
        wrong.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
    // Whatever else there is: bytes by chance, the same each time.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    for number in 0..20 {
        let mut bytes = good();
        for _ in 0..=number {
            let place = usize::from(byte()) % bytes.len();
            bytes[place] = byte();
        }
        cases.push((format!("a request changed in {} places", number + 1), bytes));
    }
    cases
}
