//! What may be wrong with HTTP/1, and with JSON.

use super::{
    Case,
    Expected::{Either, Patience, Status},
};

/// A request that is as it should be.
pub(super) const GOOD: &str =
    r#"{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ada"}]}]}"#;

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(lines());
    cases.extend(heads());
    cases.extend(lengths());
    cases.extend(chunks());
    cases.extend(bodies());
    cases
}

/// A head with these lines.
fn head(lines: &str) -> String {
    format!("POST /json HTTP/1.1\r\nhost: x\r\n{lines}\r\n")
}

fn lines() -> Vec<Case> {
    let mut cases = Vec::new();
    for method in ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW", "post"] {
        let sends = format!("{method} /json HTTP/1.1\r\nhost: x\r\n\r\n");
        cases.push(Case::new(format!("method {method}"), sends, Status(405)));
    }
    for path in [
        "/",
        "/nowhere",
        "/json/",
        "//json",
        "/JSON",
        "/json%00",
        "/x/../json",
        "/%2e%2e/json",
        "/json;x",
    ] {
        let sends = format!("POST {path} HTTP/1.1\r\nhost: x\r\n\r\n");
        cases.push(Case::new(format!("path {path}"), sends, Status(404)));
    }
    let long = "x".repeat(8 << 10);
    let longer = "x".repeat(70 << 10);
    let others: [(&str, String, _); 14] = [
        ("connect", "CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n".into(), Either),
        ("asterisk", "OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n".into(), Either),
        ("long path", format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n"), Status(404)),
        ("path of more than a head", format!("GET /{longer} HTTP/1.1\r\nhost: x\r\n\r\n"), Either),
        ("method of 70 KB", format!("{longer} / HTTP/1.1\r\nhost: x\r\n\r\n"), Either),
        ("path with a space", "GET /a b HTTP/1.1\r\nhost: x\r\n\r\n".into(), Status(400)),
        ("no path", "GET HTTP/1.1\r\nhost: x\r\n\r\n".into(), Status(400)),
        ("no version", "GET /\r\n\r\n".into(), Status(400)),
        ("version 9.9", "GET / HTTP/9.9\r\n\r\n".into(), Status(400)),
        ("version 2.0", "GET / HTTP/2.0\r\n\r\n".into(), Status(400)),
        ("version 1.0", "GET /ready HTTP/1.0\r\n\r\n".into(), Status(200)),
        ("absolute target", "GET http://y/ready HTTP/1.1\r\nhost: x\r\n\r\n".into(), Status(200)),
        ("half a line", "GET /re".into(), Patience),
        ("nothing", String::new(), Patience),
    ];
    cases.extend(others.map(|(name, sends, expects)| Case::new(name, sends, expects)));
    for (name, sends) in [
        ("the preface of HTTP/2", &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..]),
        ("zeros", &[0; 4096]),
        ("ones", &[0xff; 4096]),
        ("a TLS handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        ("SSH", b"SSH-2.0-OpenSSH_9.6\r\n"),
        ("a bell", b"\x07\r\n\r\n"),
        ("path of bytes", b"GET /\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n"),
    ] {
        cases.push(Case::new(name, sends, Either));
    }
    cases
}

fn heads() -> Vec<Case> {
    let get = |lines: &[u8]| [b"GET /ready HTTP/1.1\r\nhost: x\r\n", lines, b"\r\n"].concat();
    let many = |count: usize| (0..count).map(|it| format!("x-{it}: y\r\n")).collect::<String>();
    let large = "y".repeat(100 << 10);
    let mut cases = vec![
        Case::new("two hosts", get(b"host: y\r\n"), Either),
        Case::new("no host", "GET /ready HTTP/1.1\r\n\r\n", Either),
        Case::new("90 headers", get(many(90).as_bytes()), Status(200)),
        Case::new("101 headers", get(many(101).as_bytes()), Status(431)),
        Case::new("10,000 headers", get(many(10_000).as_bytes()), Status(431)),
        Case::new("a value of 100 KB", get(format!("x: {large}\r\n").as_bytes()), Status(431)),
        Case::new("a name of 100 KB", get(format!("{large}: y\r\n").as_bytes()), Status(431)),
        Case::new("1,000 cookies", get("cookie: a=b\r\n".repeat(1000).as_bytes()), Status(431)),
        Case::new("headers without end", get(many(90).as_bytes())[..800].to_vec(), Patience),
        Case::new("upgrade to h2c", get(b"upgrade: h2c\r\nconnection: upgrade\r\n"), Status(200)),
        Case::new(
            "upgrade to websocket",
            get(b"upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: x\r\n"),
            Status(200),
        ),
        Case::new("ranges", get("range: bytes=0-,0-,0-,0-\r\n".repeat(10).as_bytes()), Status(200)),
        Case::new("value of bytes", get(b"x: \xff\xfe\r\n"), Status(200)),
        Case::new("expects something", head("expect: 200-maybe\r\ncontent-length: 0\r\n"), Either),
    ];
    let bad: [(&str, &[u8]); 12] = [
        ("no name", b": y\r\n"),
        ("no colon", b"nonsense\r\n"),
        ("space before colon", b"x : y\r\n"),
        ("folded", b"x: y\r\n z\r\n"),
        ("a zero in a value", b"x: a\0b\r\n"),
        ("a zero in a name", b"x\0: y\r\n"),
        ("a space in a name", b"x y: z\r\n"),
        ("a bare CR", b"x: a\rb\r\n"),
        ("an escape in a value", b"x: \x1b[2J\r\n"),
        ("name of bytes", b"\xff: y\r\n"),
        ("a control in a name", b"x\x01: y\r\n"),
        ("only a space", b" \r\n"),
    ];
    cases.extend(bad.map(|(name, lines)| Case::new(name, get(lines), Status(400))));
    cases
}

fn lengths() -> Vec<Case> {
    let mut cases = Vec::new();
    for length in ["-1", "+5", "0x5", "5 5", "5,6", "a", "", "18446744073709551616", "5.0", "1e3"] {
        let sends = head(&format!("content-length: {length}\r\n")) + "hello";
        cases.push(Case::new(format!("length {length:?}"), sends, Status(400)));
    }
    for (name, sends, expects) in [
        ("two lengths", head("content-length: 5\r\ncontent-length: 6\r\n") + "hello!", Status(400)),
        (
            "one length twice",
            head("content-length: 5\r\ncontent-length: 5\r\n") + "hello",
            Status(400),
        ),
        (
            "a length and chunks",
            head("content-length: 5\r\ntransfer-encoding: chunked\r\n") + "0\r\n\r\n",
            Status(400),
        ),
        ("too large a body", head("content-length: 4194305\r\n"), Status(413)),
        ("a body of 99 terabytes", head("content-length: 99999999999999\r\n"), Status(413)),
        ("no body at all", head(""), Status(400)),
        ("shorter than it says", head("content-length: 500\r\n") + GOOD, Patience),
        ("longer than it says", head("content-length: 5\r\n") + GOOD, Status(400)),
        (
            "a body that is waited for",
            head("expect: 100-continue\r\ncontent-length: 5\r\n"),
            Status(100),
        ),
    ] {
        cases.push(Case::new(name, sends, expects));
    }
    cases
}

fn chunks() -> Vec<Case> {
    let chunked = |body: &str| head("transfer-encoding: chunked\r\n") + body;
    let mut cases = Vec::new();
    for (name, body) in [
        ("size that is none", "xyz\r\nhello\r\n0\r\n\r\n"),
        ("negative size", "-5\r\nhello\r\n0\r\n\r\n"),
        ("size of 2^64", "10000000000000000\r\nhello\r\n"),
        ("size of seventeen digits", "fffffffffffffffff\r\nhello\r\n"),
        ("no size", "\r\nhello\r\n0\r\n\r\n"),
        ("no line end after a chunk", "5\r\nhelloX0\r\n\r\n"),
        ("size with space", "5 5\r\nhello\r\n0\r\n\r\n"),
    ] {
        cases.push(Case::new(format!("chunk: {name}"), chunked(body), Status(400)));
    }
    let large = "x".repeat(100 << 10);
    let tiny = GOOD.chars().map(|it| format!("1\r\n{it}\r\n")).collect::<String>() + "0\r\n\r\n";
    let whole = format!("{:x}\r\n{GOOD}\r\n", GOOD.len());
    for (name, body, expects) in [
        ("an extension of 100 KB", format!("5;{large}\r\nhello\r\n0\r\n\r\n"), Status(400)),
        ("trailers of 100 KB", format!("{whole}0\r\nx: {large}\r\n\r\n"), Either),
        ("10,000 trailers", format!("{whole}0\r\n{}\r\n", "x: y\r\n".repeat(10_000)), Either),
        ("a character at a time", tiny, Status(200)),
        ("100 KB, a byte at a time", "1\r\nx\r\n".repeat(100 << 10) + "0\r\n\r\n", Status(400)),
        ("only the end", "0\r\n\r\n".to_owned(), Status(400)),
        ("never an end", whole.clone(), Patience),
        ("half a chunk of 4 GB", "ffffffff\r\nhello".to_owned(), Patience),
    ] {
        cases.push(Case::new(format!("chunk: {name}"), chunked(&body), expects));
    }
    for coding in ["gzip, chunked", "chunked, chunked", "identity", "xchunked", "chunked, gzip", ""]
    {
        let sends = head(&format!("transfer-encoding: {coding}\r\n")) + &whole + "0\r\n\r\n";
        cases.push(Case::new(format!("coding {coding:?}"), sends, Either));
    }
    let old = "POST /json HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n".to_owned() + &whole;
    cases.push(Case::new("chunks in HTTP/1.0", old, Either));
    cases
}

fn bodies() -> Vec<Case> {
    let post = |body: &[u8]| {
        [head(&format!("content-length: {}\r\n", body.len())).as_bytes(), body].concat()
    };
    let user = |value: &str| {
        format!(
            r#"{{"domain":"shop","descriptors":[{{"entries":[{{"key":"user","value":{value}}}]}}]}}"#
        )
    };
    let mut cases = Vec::new();
    for body in [
        "{",
        "}",
        "[",
        "[]",
        "null",
        "true",
        "1",
        "\"x\"",
        "nonsense",
        "{}",
        "{\"domain\":",
        "{,}",
        "{\"domain\":1,\"descriptors\":[]}",
        "{\"domain\":\"shop\",\"descriptors\":{}}",
        "{\"domain\":\"shop\",\"descriptors\":[1]}",
        "{\"domain\":\"shop\",\"descriptors\":[[]]}",
        "{\"domain\":\"shop\",\"descriptors\":[{\"entries\":{}}]}",
        "{\"domain\":\"shop\",\"descriptors\":[{\"entries\":[1]}]}",
        "{\"domain\":\"shop\",\"descriptors\":[{\"entries\":[{\"key\":{}}]}]}",
        "{\"domain\":\"shop\",\"descriptors\":[{\"hitsAddend\":-1}]}",
        "{\"domain\":\"shop\",\"descriptors\":[{\"hitsAddend\":1.5}]}",
        "{\"domain\":\"shop\",\"descriptors\":[{\"hitsAddend\":\"x\"}]}",
        "{\"domain\":\"shop\",\"descriptors\":[{\"hitsAddend\":18446744073709551616}]}",
        "{\"domain\":\"shop\",\"descriptors\":[{\"limit\":{\"unit\":\"FORTNIGHT\"}}]}",
        "{\"domain\":\"shop\",\"descriptors\":[{\"limit\":{\"requestsPerUnit\":1e999}}]}",
        "{\"domain\":\"shop\",\"hitsAddend\":NaN}",
        "{\"domain\":\"shop\",\"unknown\":1}",
        "{\"domain\":\"\\ud800\"}",
        "{\"domain\":\"\\x\"}",
        "/* */{}",
        "{\"domain\":\"shop\"}{}",
        "{'domain':'shop'}",
        "{\"domain\":\"shop\",\"domain\":\"shop\"}",
    ] {
        cases.push(Case::new(format!("body {body}"), post(body.as_bytes()), Status(400)));
    }
    let deep = 100_000;
    let bomb = |one: &str, count: usize| {
        format!(r#"{{"domain":"shop","descriptors":[{}]}}"#, vec![one; count].join(","))
    };
    for (name, body, expects) in [
        ("arrays nested deeply", "[".repeat(deep).into_bytes(), Status(400)),
        ("objects nested deeply", "{\"domain\":".repeat(deep).into_bytes(), Status(400)),
        (
            "an unknown field nested deeply",
            format!("{{\"x\":{}", "[".repeat(deep)).into_bytes(),
            Status(400),
        ),
        (
            "a descriptor nested deeply",
            format!("{{\"descriptors\":{}", "[{\"entries\":".repeat(deep)).into_bytes(),
            Status(400),
        ),
        ("a million descriptors", bomb("{}", 1_000_000).into_bytes(), Status(400)),
        ("a million nulls", bomb("null", 800_000).into_bytes(), Status(400)),
        (
            "a descriptor of a million entries",
            format!(
                r#"{{"domain":"shop","descriptors":[{{"entries":[{}]}}]}}"#,
                vec!["{}"; 1_000_000].join(",")
            )
            .into_bytes(),
            Status(400),
        ),
        (
            "a value of 4 MB",
            user(&format!("\"{}\"", "x".repeat(4_000_000))).into_bytes(),
            Status(200),
        ),
        ("a key of 4 MB", format!("{{\"{}\":1}}", "x".repeat(4_000_000)).into_bytes(), Status(400)),
        (
            "4 MB of escapes",
            user(&format!("\"{}\"", "\\u0000".repeat(600_000))).into_bytes(),
            Status(200),
        ),
        ("4 MB of spaces", vec![b' '; 4_000_000], Status(400)),
        (
            "a number of 4 MB",
            format!("{{\"hitsAddend\":{}}}", "9".repeat(4_000_000)).into_bytes(),
            Status(400),
        ),
        ("a zero in a value", user("\"a\\u0000b\"").into_bytes(), Status(200)),
        ("an empty value", user("\"\"").into_bytes(), Status(200)),
        ("text that is none", b"{\"domain\":\"\xff\xfe\"}".to_vec(), Status(400)),
        ("UTF-16", b"\xff\xfe{\0}\0".to_vec(), Status(400)),
        ("a mark of byte order", [b"\xef\xbb\xbf", GOOD.as_bytes()].concat(), Status(400)),
        ("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\x03".to_vec(), Status(400)),
        ("zeros", vec![0; 100_000], Status(400)),
        ("protobuf", b"\x0a\x04shop\x12\x0b\x0a\x09\x0a\x04user\x12\x01a".to_vec(), Status(400)),
    ] {
        cases.push(Case::new(format!("body of {name}"), post(&body), expects));
    }
    let many = "GET /ready HTTP/1.1\r\nhost: x\r\n\r\n".repeat(5_000);
    cases.push(Case::new("5,000 requests at once", many, Status(200)));
    let smuggled = head("content-length: 0\r\n") + "GET /nowhere HTTP/1.1\r\n\r\n\0\0\0";
    cases.push(Case::new("garbage behind a request", smuggled, Status(400)));
    let half = head("content-length: 100\r\n") + "GET /rlconfig HTTP/1.1\r\n";
    cases.push(Case::new("a request in the place of a body", half, Patience));
    cases
}
