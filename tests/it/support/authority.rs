//! Certificates for tests, and who shows them.

use super::{PATIENCE, Response, TempDir, read_response};
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// Whoever signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM form.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut parameters = CertificateParams::new([]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(parameters, key).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Writes its certificate into a file.
    pub(crate) fn written(&self, files: &TempDir, name: &str) -> String {
        files.file(name, &self.pem()).display().to_string()
    }

    /// A certificate for localhost and this name: a URI where it has a scheme.
    pub(crate) fn issue(&self, name: &str) -> Identity {
        self.issue_for(name, Duration::from_secs(365 * 86_400))
    }

    /// One that expires after so long, or, after no time at all, has expired.
    pub(crate) fn issue_for(&self, name: &str, valid: Duration) -> Identity {
        let mut parameters = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let san = name.try_into().unwrap();
        let san = if name.contains("://") { SanType::URI(san) } else { SanType::DnsName(san) };
        parameters.subject_alt_names.push(san);
        parameters.distinguished_name.push(DnType::CommonName, name);
        let end = tollgate::clock::since_1970() + valid - Duration::from_secs(1);
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        parameters.not_after = epoch + end;
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.0).unwrap();
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Identity {
    /// Writes both into files, and says where.
    pub(crate) fn written(&self, files: &TempDir, name: &str) -> (String, String) {
        let write = |ending: &str, pem: &str| {
            files.file(&format!("{name}.{ending}"), pem).display().to_string()
        };
        (write("pem", &self.certificate), write("key", &self.key))
    }
}

/// A client that trusts an authority, and may have something to show.
pub(crate) struct TlsClient {
    config: ClientConfig,
}

impl TlsClient {
    pub(crate) fn new(trusted: &Authority, shown: Option<&Identity>) -> Self {
        Self::with_versions(trusted, shown, rustls::ALL_VERSIONS)
    }

    pub(crate) fn with_versions(
        trusted: &Authority,
        shown: Option<&Identity>,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(trusted.pem().as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let config = match shown {
            None => config.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        };
        Self { config }
    }

    /// A connection that speaks one of these protocols.
    pub(crate) async fn connect(
        &self,
        to: SocketAddr,
        protocols: &[&str],
    ) -> io::Result<TlsStream<TcpStream>> {
        let mut config = self.config.clone();
        config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(to).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// A channel for gRPC.
    pub(crate) async fn channel(&self, to: SocketAddr) -> Result<Channel, tonic::transport::Error> {
        let client = Self { config: self.config.clone() };
        let client = Arc::new(client);
        let connector = service_fn(move |_| {
            let client = Arc::clone(&client);
            async move { client.connect(to, &["h2"]).await.map(TokioIo::new) }
        });
        Endpoint::from_static("http://localhost").connect_with_connector(connector).await
    }

    /// Asks over HTTP/1; with a body, as a POST.
    pub(crate) async fn ask(
        &self,
        to: SocketAddr,
        path: &str,
        headers: &str,
        body: &str,
    ) -> io::Result<Response> {
        let mut stream = self.connect(to, &["http/1.1"]).await?;
        let method = if body.is_empty() { "GET" } else { "POST" };
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        let mut answer = Vec::new();
        time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await??;
        read_response(answer)
    }
}
