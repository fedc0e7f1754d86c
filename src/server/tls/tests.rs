use super::{expiry::Soon, *};
use rcgen::{CertificateParams, KeyPair, SanType};

/// A certificate with these names, and its key.
fn certificate(dns: &[&str], uris: &[&str]) -> (rcgen::Certificate, KeyPair) {
    let mut parameters =
        CertificateParams::new(dns.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()).unwrap();
    let uris = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap()));
    parameters.subject_alt_names.extend(uris);
    parameters.not_after = rcgen::date_time_ymd(2030, 1, 2);
    let key = KeyPair::generate().unwrap();
    (parameters.self_signed(&key).unwrap(), key)
}

fn allow(allowed: &[&str], dns: &[&str], uris: &[&str]) -> bool {
    let names: Names = allowed.iter().map(|name| name.parse::<Names>().unwrap()).collect();
    names.allow(certificate(dns, uris).0.der())
}

#[test]
fn a_client_needs_one_of_the_names() {
    assert!(allow(&[], &[], &[]), "no names, no question");
    assert!(allow(&["a.example"], &["b.example", "A.example"], &[]));
    assert!(!allow(&["a.example"], &["b.example", "a.example.com"], &["https://a.example"]));
    assert!(allow(&["*.example"], &["x.y.example"], &[]));
    assert!(!allow(&["*.example"], &["example", "xexample"], &[]));
    assert!(allow(&["x", "spiffe://mesh/ns/edge/*"], &[], &["spiffe://mesh/ns/edge/sa/envoy"]));
    assert!(!allow(
        &["spiffe://mesh/ns/edge/*"],
        &["mesh"],
        &["spiffe://mesh/ns/edge/", "spiffe://mesh/ns/edge2/x", "spiffe://mesh/ns/EDGE/x"]
    ));
    assert!(allow(&["spiffe://mesh/edge"], &[], &["spiffe://mesh/edge"]));
    assert!(!allow(&["spiffe://mesh/edge"], &[], &["spiffe://mesh/edge/x"]));
}

#[test]
fn what_is_no_name_is_refused() {
    for text in
        ["", "*", "*.", "*example", "a.*.example", "a b", "spiffe://*", "spiffe://a*", "x/*"]
    {
        assert!(text.parse::<Names>().is_err(), "{text}");
    }
}

#[test]
fn expiry_is_told_a_week_ahead_once_a_day() {
    let expiry = Expiry::of(certificate(&["a.example"], &[]).0.der()).unwrap();
    // 2030-01-02.
    let end = 1_893_542_400;
    let told = |before: u64| expiry.to_tell(Duration::from_secs(end - before));
    assert_eq!(told(7 * 86_400), None);
    assert_eq!(told(7 * 86_400 - 1), Some(Soon::Days(6)));
    assert_eq!(told(6 * 86_400), Some(Soon::Days(6)));
    assert_eq!(told(1), Some(Soon::Days(0)));
    assert_eq!(expiry.to_tell(Duration::from_secs(end + 1)), Some(Soon::Expired));
}

#[test]
fn what_does_not_serve_is_named() {
    let files = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        fs::write(files.path().join(name), text).unwrap();
        files.path().join(name)
    };
    let ((certificate, key), (_, other)) =
        (certificate(&["a.example"], &[]), certificate(&["a.example"], &[]));
    let good = write("cert.pem", &certificate.pem());
    let key = write("key.pem", &key.serialize_pem());
    let other = write("other.pem", &other.serialize_pem());
    let empty = write("empty.pem", "");
    let broken = write("broken.pem", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n");
    let nowhere = files.path().join("nowhere.pem");
    let open = |certificate: &Path, key: &Path, authority: Option<&Path>| {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        let files = Files { certificate, key, client_authority: authority.map(Path::to_owned) };
        Tls::open(files).err().map(|error| error.to_string())
    };
    assert_eq!(open(&good, &key, None), None);
    assert_eq!(open(&good, &key, Some(&good)), None);
    for (fault, words) in [
        (open(&nowhere, &key, None), ["--tls-cert", "nowhere.pem"]),
        (open(&empty, &key, None), ["--tls-cert", "empty.pem: it holds no certificates"]),
        (open(&broken, &key, None), ["--tls-cert", "broken.pem: it is no PEM"]),
        (open(&good, &good, None), ["--tls-key", "cert.pem: it holds no private key"]),
        (open(&good, &other, None), ["--tls-key", "other.pem: keys may not be consistent"]),
        (open(&good, &key, Some(&nowhere)), ["--tls-client-ca", "nowhere.pem"]),
        (open(&good, &key, Some(&key)), ["--tls-client-ca", "key.pem: it holds no certificates"]),
    ] {
        let fault = fault.unwrap();
        assert!(words.iter().all(|word| fault.contains(word)), "{words:?}: {fault}");
    }
}
