//! The names by which clients are let in. Who has signed a certificate says that its names are true, not that
//! they may ask here.

use rustls::pki_types::CertificateDer;
use std::str::FromStr;
use webpki::EndEntityCert;

/// Names, of which a certificate must have one.
#[derive(Debug, Clone, Default)]
pub struct Names(Vec<Name>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    /// A DNS name, in lower case.
    Dns(String),
    /// What comes after the first labels of one, from the dot on.
    DnsEnding(String),
    /// A URI, as SPIFFE's ids are.
    Uri(String),
    /// What one begins with, up to a slash.
    UriBeginning(String),
}

/// Text that is no name.
#[derive(Debug, thiserror::Error)]
#[error(
    "write a DNS name (edge.example.com), all names below one (*.example.com), a URI (spiffe://example.com/edge), or all URIs below one (spiffe://example.com/ns/edge/*)"
)]
pub struct InvalidName;

impl FromIterator<Names> for Names {
    fn from_iter<I: IntoIterator<Item = Names>>(all: I) -> Self {
        Self(all.into_iter().flat_map(|names| names.0).collect())
    }
}

/// A single name.
impl FromStr for Names {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let is_plain = |text: &str| {
            !text.is_empty() && text.chars().all(|it| it.is_ascii_graphic() && it != '*')
        };
        let name = if text.contains("://") {
            match text.strip_suffix('*') {
                Some(beginning) if beginning.ends_with('/') && !beginning.ends_with("://") => {
                    Name::UriBeginning(beginning.to_owned())
                }
                Some(_) => return Err(InvalidName),
                None => Name::Uri(text.to_owned()),
            }
        } else {
            let text = text.to_ascii_lowercase();
            match text.strip_prefix('*') {
                Some(ending) if ending.len() > 1 && ending.starts_with('.') => {
                    Name::DnsEnding(ending.to_owned())
                }
                Some(_) => return Err(InvalidName),
                None => Name::Dns(text),
            }
        };
        let (Name::Dns(rest) | Name::DnsEnding(rest) | Name::Uri(rest) | Name::UriBeginning(rest)) =
            &name;
        if is_plain(rest) { Ok(Self(vec![name])) } else { Err(InvalidName) }
    }
}

impl Names {
    /// Whether there are none, so that nothing is asked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them is this certificate's; or whether there are none.
    pub fn allow(&self, certificate: &CertificateDer<'_>) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let Ok(certificate) = EndEntityCert::try_from(certificate) else { return false };
        certificate.valid_dns_names().any(|dns| self.allow_dns(dns))
            || certificate.valid_uri_names().any(|uri| self.allow_uri(uri))
    }

    fn allow_dns(&self, dns: &str) -> bool {
        let dns = dns.to_ascii_lowercase();
        self.0.iter().any(|name| match name {
            Name::Dns(name) => *name == dns,
            Name::DnsEnding(ending) => dns.len() > ending.len() && dns.ends_with(ending),
            Name::Uri(_) | Name::UriBeginning(_) => false,
        })
    }

    fn allow_uri(&self, uri: &str) -> bool {
        self.0.iter().any(|name| match name {
            Name::Uri(name) => name == uri,
            Name::UriBeginning(beginning) => {
                uri.len() > beginning.len() && uri.starts_with(beginning)
            }
            Name::Dns(_) | Name::DnsEnding(_) => false,
        })
    }
}
