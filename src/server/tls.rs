//! TLS at the doors: the server's certificate, whom it takes for a client, and both anew when their files
//! change. Versions 1.2 and 1.3, as rustls has no others.

mod expiry;
mod names;
#[cfg(test)]
mod tests;

pub use names::{InvalidName, Names};

use crate::{clock, task, telemetry::DoorCounts};
use expiry::Expiry;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{VerifierBuilderError, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{self, MissedTickBehavior},
};

/// How often files are looked at. Kubernetes and cert-manager put new ones in the place of the old, by way of
/// links, so it is what stands in them that is compared.
const LOOK: Duration = Duration::from_secs(2);

/// Where to read what TLS takes. All are PEM.
#[derive(Debug, Clone)]
pub struct Files {
    /// The server's certificate, and those between it and whom clients trust.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Who signs the certificates of clients; none are asked for without.
    pub client_authority: Option<PathBuf>,
}

/// What was read there.
#[derive(PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_authority: Option<Vec<u8>>,
}

/// Why there is no TLS with these files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{flag} {}: {why}", path.display())]
    Unreadable {
        /// The flag that names it.
        flag: &'static str,
        /// Where it should be.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// A file holds something else.
    #[error("{flag} {}: {what}", path.display())]
    Unusable {
        /// The flag that names it.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A key that belongs to another certificate, or is of a kind that is not spoken.
    #[error("--tls-cert {} with --tls-key {}: {why}", certificate.display(), key.display())]
    Pair {
        /// The certificate.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
        /// What is wrong with them.
        why: rustls::Error,
    },
}

/// How the doors speak TLS.
struct Configs {
    /// For gRPC. Where there is an authority, clients must show a certificate.
    http2: Arc<ServerConfig>,
    /// For HTTP. Clients may show one; a route says whether they must. Probes have none.
    http1: Arc<ServerConfig>,
    expiry: Option<Expiry>,
}

/// TLS with files that may change.
pub struct Tls {
    files: Files,
    /// What is in force.
    read: Contents,
    http2: watch::Sender<Arc<ServerConfig>>,
    http1: watch::Sender<Arc<ServerConfig>>,
    expiry: Option<Expiry>,
}

/// What a door speaks TLS with, at any time.
pub(super) type Current = watch::Receiver<Arc<ServerConfig>>;

impl Tls {
    /// TLS with these files.
    ///
    /// # Errors
    ///
    /// Where a file cannot be read, or does not serve.
    pub fn open(files: Files) -> Result<Self, TlsError> {
        let read = files.read()?;
        let Configs { http2, http1, expiry } = read.configs(&files)?;
        let (http2, http1) = (watch::Sender::new(http2), watch::Sender::new(http1));
        Ok(Self { files, read, http2, http1, expiry })
    }

    /// Whether clients are asked for certificates.
    pub(super) const fn asks_clients(&self) -> bool {
        self.files.client_authority.is_some()
    }

    /// For gRPC.
    pub(super) fn http2(&self) -> Current {
        self.http2.subscribe()
    }

    /// For HTTP.
    pub(super) fn http1(&self) -> Current {
        self.http1.subscribe()
    }

    /// Looks after the files for ever: what changes is in force within seconds, and what cannot be is logged,
    /// while the old serves on. Says when the certificate is about to expire.
    pub(super) async fn keep_current(&mut self) {
        let mut ticks = time::interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = None;
        // What is wrong with the files, and how often it was found.
        let mut fault = (String::new(), 0);
        loop {
            let soon = self.expiry.and_then(|it| it.to_tell(clock::since_1970()));
            if soon != told {
                if let Some(soon) = &soon {
                    tracing::warn!("--tls-cert {}: {soon}", self.files.certificate.display());
                }
                told = soon;
            }
            ticks.tick().await;
            let files = self.files.clone();
            let Some(read) = task::blocking(move || files.read()).await else { return };
            let changed = match read {
                Ok(read) if read == self.read => {
                    fault.1 = 0;
                    continue;
                }
                Ok(read) => read.configs(&self.files).map(|configs| (read, configs)),
                Err(error) => Err(error),
            };
            match changed {
                Ok((read, Configs { http2, http1, expiry })) => {
                    self.http2.send_replace(http2);
                    self.http1.send_replace(http1);
                    (self.read, self.expiry) = (read, expiry);
                    tracing::info!("new certificates are in force for connections to come");
                    (told, fault.1) = (None, 0);
                }
                // A certificate and its key may change one after the other, so what does not fit is a fault
                // when it is still there at the next look.
                Err(error) => {
                    let error = error.to_string();
                    let times = if error == fault.0 { fault.1 + 1 } else { 1 };
                    if times == 2 {
                        tracing::error!("certificates stay as they were: {error}");
                    }
                    fault = (error, times);
                }
            }
        }
    }
}

impl Files {
    fn read(&self) -> Result<Contents, TlsError> {
        let read = |flag, path: &Path| {
            let unreadable = |why| TlsError::Unreadable { flag, path: path.to_owned(), why };
            fs::read(path).map_err(unreadable)
        };
        let authority = self.client_authority.as_deref();
        Ok(Contents {
            certificate: read("--tls-cert", &self.certificate)?,
            key: read("--tls-key", &self.key)?,
            client_authority: authority.map(|path| read("--tls-client-ca", path)).transpose()?,
        })
    }
}

impl Contents {
    fn configs(&self, files: &Files) -> Result<Configs, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let chain = certificates("--tls-cert", &files.certificate, &self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| TlsError::Unusable {
            flag: "--tls-key",
            path: files.key.clone(),
            what: "it holds no private key in PEM form, or an encrypted one".to_owned(),
        })?;
        let authority = match files.client_authority.as_deref().zip(self.client_authority.as_ref())
        {
            Some((path, pem)) => Some(authority(path, pem)?),
            None => None,
        };
        let config = |protocol: &[u8], client_must: bool| {
            let verifier = match &authority {
                None => WebPkiClientVerifier::no_client_auth(),
                Some(roots) => {
                    let path = files.client_authority.as_deref().unwrap_or(Path::new(""));
                    verifier(path, roots, client_must, &provider)?
                }
            };
            let pair = |why| TlsError::Pair {
                certificate: files.certificate.clone(),
                key: files.key.clone(),
                why,
            };
            let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
                .with_safe_default_protocol_versions()
                .map_err(pair)?
                .with_client_cert_verifier(verifier)
                .with_single_cert(chain.clone(), key.clone_key())
                .map_err(pair)?;
            config.alpn_protocols = vec![protocol.to_vec()];
            Ok(Arc::new(config))
        };
        Ok(Configs {
            http2: config(b"h2", true)?,
            http1: config(b"http/1.1", false)?,
            expiry: chain.first().and_then(Expiry::of),
        })
    }
}

fn certificates(
    flag: &'static str,
    path: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unusable =
        |what: &str| TlsError::Unusable { flag, path: path.to_owned(), what: what.into() };
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(read) if !read.is_empty() => Ok(read),
        Ok(_) => Err(unusable("it holds no certificates in PEM form")),
        Err(error) => Err(unusable(&format!("it is no PEM: {error}"))),
    }
}

fn authority(path: &Path, pem: &[u8]) -> Result<Arc<RootCertStore>, TlsError> {
    let flag = "--tls-client-ca";
    let mut roots = RootCertStore::empty();
    for certificate in certificates(flag, path, pem)? {
        roots.add(certificate).map_err(|error| TlsError::Unusable {
            flag,
            path: path.to_owned(),
            what: format!("it holds a certificate that cannot sign others: {error}"),
        })?;
    }
    Ok(Arc::new(roots))
}

fn verifier(
    path: &Path,
    roots: &Arc<RootCertStore>,
    client_must: bool,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::clone(roots), Arc::clone(provider));
    let builder = if client_must { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|error: VerifierBuilderError| TlsError::Unusable {
        flag: "--tls-client-ca",
        path: path.to_owned(),
        what: error.to_string(),
    })
}

/// Which count a handshake that failed belongs to; none where the caller has just left, as those do who only
/// ask whether somebody listens.
pub(super) fn count_of(error: &io::Error) -> Option<fn(&mut DoorCounts) -> &mut u64> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match error {
        rustls::Error::InvalidMessage(_) => |counts| &mut counts.not_tls,
        rustls::Error::NoCertificatesPresented => |counts| &mut counts.without_certificate,
        rustls::Error::InvalidCertificate(_) => |counts| &mut counts.untrusted,
        rustls::Error::AlertReceived(_) => |counts| &mut counts.refused_ours,
        _ => |counts| &mut counts.at_odds,
    })
}
