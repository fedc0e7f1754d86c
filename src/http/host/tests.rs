use super::*;

#[test]
fn addresses_and_localhost_are_loopback_and_no_other_name_is() {
    for host in [
        "localhost",
        "localhost:6070",
        "LOCALHOST.",
        "127.0.0.1",
        "127.0.0.1:6070",
        "[::1]",
        "[::1]:6070",
        "10.0.0.7:80",
    ] {
        assert!(is_loopback(host), "{host}");
    }
    for host in [
        "",
        ":6070",
        "example.com",
        "localhost.example.com",
        "127.0.0.1.example.com",
        "localhost:x",
        "127.0.0.1:80@example.com",
        "[::1",
        "[::1]x",
        "x@localhost",
    ] {
        assert!(!is_loopback(host), "{host}");
    }
}
