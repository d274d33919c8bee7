//! TLS to the server, with rustls.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::url::{PostgresUrl, Verification};
use crate::source::{Result, SourceError};

/// The TLS connector for the database of a URL. The roots are read for each connection, so they may be replaced
/// while the service runs.
pub(super) fn connector(url: &PostgresUrl) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(ring::default_provider());
    let trusted = match url.verification {
        Verification::None => None,
        verification => Some(Trusted::read(verification, url.roots.as_deref())?),
    };
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|source| failed("TLS", source))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { trusted, provider }));
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

/// The certificates of a PEM file, at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let what = format!("sslrootcert {}", file.display());
    let certificates = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|source| failed(&what, source))?;
    match certificates.is_empty() {
        true => Err(failed(&what, "contains no certificate")),
        false => Ok(certificates),
    }
}

fn failed(what: &str, why: impl std::fmt::Display) -> SourceError {
    SourceError::Other(format!("{what}: {why}").into())
}

/// Trusted certificates, and what is verified with them.
#[derive(Debug)]
struct Trusted {
    verification: Verification,
    roots: RootCertStore,
    /// The roots of the given file; empty for Mozilla's.
    given: Vec<CertificateDer<'static>>,
}

impl Trusted {
    fn read(verification: Verification, file: Option<&Path>) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        let mut given = vec![];
        match file {
            Some(file) => given = certificates(file)?,
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        }
        for certificate in &given {
            let added = roots.add(certificate.clone());
            added.map_err(|source| failed("sslrootcert", source))?;
        }
        Ok(Self { verification, roots, given })
    }
}

/// Verifies a server like libpq. It always verifies that the server has the certificate's key.
#[derive(Debug)]
struct Verifier {
    /// `None` accepts any certificate.
    trusted: Option<Trusted>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(trusted) = &self.trusted else {
            return Ok(ServerCertVerified::assertion());
        };
        let certificate = ParsedCertificate::try_from(end_entity)?;
        // A server may use the trusted certificate itself. `openssl req -x509` marks such a certificate as an
        // authority, and rustls refuses an authority at the end of a chain.
        if !trusted.given.contains(end_entity) {
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                &trusted.roots,
                intermediates,
                now,
                self.provider.signature_verification_algorithms.all,
            )?;
        }
        if trusted.verification == Verification::ChainAndName {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
