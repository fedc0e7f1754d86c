//! Where a Redis is, and how to get in.

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _,
    ProtocolVersion, TlsCertificates,
};
use rustls::{
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};
use std::fmt;

/// The address of a Redis, and who asks. Shown, it holds no password.
#[derive(Clone)]
pub struct Address(ConnectionInfo);

/// Certificates for a connection over TLS, in PEM.
#[derive(Clone, Default)]
pub struct Certificates {
    /// Whoever signed the server's certificate; by default, whom this machine trusts.
    pub authority: Option<Vec<u8>>,
    /// A certificate to show, and its key.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

/// Why an address is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It cannot be read.
    #[error(
        "{0}; write memory, or redis://[user:password@]host[:port][/database], the same with rediss:// for TLS, \
         or unix:///path[?db=database]"
    )]
    Unreadable(String),
    /// There are certificates, but no TLS to use them.
    #[error("certificates need TLS: write the address with rediss://")]
    WithoutTls,
    /// The certificates cannot be used.
    #[error("the certificates cannot be used: {0}")]
    Certificates(String),
}

impl Address {
    /// Reads a URL; user, password and database stand in it as Redis's own tools write them.
    ///
    /// # Errors
    ///
    /// Where it is no URL of a Redis.
    pub fn parse(url: &str) -> Result<Self, AddressError> {
        // Certificates are checked, or there is no point in them.
        if url.contains('#') {
            return Err(AddressError::Unreadable("nothing may follow a `#`".to_owned()));
        }
        if url.contains('?') && !url.contains("unix:") {
            let reason = "nothing may follow a `?`: the database is the path, as in redis://host/2";
            return Err(AddressError::Unreadable(reason.to_owned()));
        }
        let info = url.into_connection_info().map_err(|error| {
            let text = error.to_string();
            let (reason, _) = text.split_once(" - ").unwrap_or((&text, ""));
            AddressError::Unreadable(reason.to_owned())
        })?;
        Ok(Self(info))
    }

    /// The same address, with this password.
    #[must_use]
    pub fn with_password(self, password: &str) -> Self {
        let settings = self.0.redis_settings().clone().set_password(password);
        Self(self.0.set_redis_settings(settings))
    }

    /// Whether it is reached over TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self.0.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// What opens connections to it.
    pub(super) fn client(&self, certificates: Certificates) -> Result<Client, AddressError> {
        let mut settings = self.0.redis_settings().clone();
        // The client would forget a user without a password, and be the default one.
        if settings.username().is_some() && settings.password().is_none() {
            settings = settings.set_password("");
        }
        let settings = settings
            // It tells of a lost connection at once, and not only to whoever asks next.
            .set_protocol(ProtocolVersion::RESP3)
            .set_lib_name(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let info = self.0.clone().set_redis_settings(settings);
        let Certificates { authority, client } = certificates;
        if !self.is_tls() {
            if authority.is_some() || client.is_some() {
                return Err(AddressError::WithoutTls);
            }
            return Client::open(info).map_err(certificate_error);
        }
        for (whose, pem) in [
            ("the authority's", authority.as_ref()),
            ("the client's", client.as_ref().map(|(certificate, _)| certificate)),
        ] {
            if pem.is_some_and(|pem| !holds_a_certificate(pem)) {
                return Err(AddressError::Certificates(format!(
                    "{whose} is no certificate in PEM"
                )));
            }
        }
        // An error means that there is one already, which will do.
        let _ = ring::default_provider().install_default();
        if let Some((certificate, key)) = &client {
            check_pair(certificate, key).map_err(AddressError::Certificates)?;
        }
        let client_tls =
            client.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
        Client::build_with_tls(info, TlsCertificates { client_tls, root_cert: authority })
            .map_err(certificate_error)
    }
}

fn holds_a_certificate(pem: &[u8]) -> bool {
    CertificateDer::pem_slice_iter(pem).next().is_some_and(|certificate| certificate.is_ok())
}

/// Whether a key is that of a certificate.
fn check_pair(certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let chain = CertificateDer::pem_slice_iter(certificate).filter_map(Result::ok).collect();
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| "the client's key is no key in PEM".to_owned())?;
    CertifiedKey::from_der(chain, key, &ring::default_provider())
        .map(|_| ())
        .map_err(|error| format!("the client's key is not its certificate's ({error})"))
}

fn certificate_error(error: redis::RedisError) -> AddressError {
    AddressError::Certificates(error.to_string())
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.0.redis_settings();
        let user = settings.username().map(|user| format!("{user}@")).unwrap_or_default();
        let database = settings.db();
        match self.0.addr() {
            ConnectionAddr::Unix(path) => {
                let user = settings.username().map(|user| format!("&user={user}"));
                let user = user.unwrap_or_default();
                write!(f, "unix://{}?db={database}{user}", path.display())
            }
            ConnectionAddr::Tcp(host, port) => {
                write!(f, "redis://{user}{}:{port}/{database}", bracketed(host))
            }
            ConnectionAddr::TcpTls { host, port, .. } => {
                write!(f, "rediss://{user}{}:{port}/{database}", bracketed(host))
            }
            other => write!(f, "{other}"),
        }
    }
}

/// A host as it stands in a URL.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("authority", &self.authority.is_some())
            .field("client", &self.client.is_some())
            .finish()
    }
}
