//! TLS: a certificate and its key, which can be reloaded while the server runs.

use core::error::Error;
use core::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::TlsAcceptor;

/// The application protocols, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A certificate and its key, from two files. Clones are handles to the same certificate. After a reload of any of
/// them, all use the new certificate for later connections.
#[derive(Clone)]
pub struct Tls {
    shared: Arc<Shared>,
}

struct Shared {
    certificate: PathBuf,
    key: PathBuf,
    config: ArcSwap<ServerConfig>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("certificate", &self.shared.certificate)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads a certificate chain, with the server's own certificate first, and its private key. Both files are PEM.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or lacks its contents, or if the key does not match the certificate.
    pub fn open(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Result<Self, TlsError> {
        let (certificate, key) = (certificate.into(), key.into());
        let config = ArcSwap::from_pointee(read(&certificate, &key)?);
        Ok(Self {
            shared: Arc::new(Shared {
                certificate,
                key,
                config,
            }),
        })
    }

    /// Reads both files again, after a renewal. Open connections are not affected.
    ///
    /// # Errors
    ///
    /// Like [`Tls::open`]. The previous certificate then stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let Shared {
            certificate, key, ..
        } = &*self.shared;
        let config = read(certificate, key)?;
        self.shared.config.store(Arc::new(config));
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.shared.config.load_full().into()
    }
}

fn read(certificate: &Path, key: &Path) -> Result<ServerConfig, TlsError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| TlsError(Kind::Unreadable { path, error })
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(unreadable(certificate))?;
    if chain.is_empty() {
        return Err(unreadable(certificate)(pem::Error::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(unreadable(key))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| TlsError(Kind::Refused(error)))?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}

/// Why a certificate cannot be used.
#[derive(Debug)]
pub struct TlsError(Kind);

#[derive(Debug)]
enum Kind {
    Unreadable { path: PathBuf, error: pem::Error },
    Refused(rustls::Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Unreadable { path, error } => write!(f, "{}: {error}", path.display()),
            Kind::Refused(error) => write!(f, "invalid certificate or key: {error}"),
        }
    }
}

impl Error for TlsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            Kind::Unreadable { error, .. } => Some(error),
            Kind::Refused(error) => Some(error),
        }
    }
}
