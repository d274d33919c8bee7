//! TLS to the server, by rustls.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::url::PostgresUrl;
use crate::source::SourceError;

/// What of a server's certificate is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verification {
    /// Nothing: TLS was not asked for.
    None,
    /// That a root signed it.
    Chain,
    /// That a root signed it for this host.
    ChainAndName,
}

/// What makes the TLS connections to the database of a URL. The file with the roots is read anew each time: it may
/// be replaced while the service runs.
pub(super) fn connector(url: &PostgresUrl) -> Result<MakeRustlsConnect, SourceError> {
    let provider = Arc::new(ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|source| failed("TLS", source))?;
    let config = match url.verification {
        Verification::None => versions
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified(provider))),
        Verification::Chain => {
            let roots = roots(url.roots.as_deref())?;
            versions
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(ChainOnly { roots, provider }))
        }
        Verification::ChainAndName => {
            let roots = Arc::new(roots(url.roots.as_deref())?);
            let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|source| failed("TLS", source))?;
            versions.with_webpki_verifier(verifier)
        }
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, SourceError> {
    let mut store = RootCertStore::empty();
    let Some(file) = file else {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        return Ok(store);
    };
    let what = format!("sslrootcert {}", file.display());
    let certificates =
        CertificateDer::pem_file_iter(file).map_err(|source| failed(&what, source))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|source| failed(&what, source))?;
        store
            .add(certificate)
            .map_err(|source| failed(&what, source))?;
    }
    match store.is_empty() {
        true => Err(failed(&what, "no certificate is in it")),
        false => Ok(store),
    }
}

fn failed(what: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> SourceError {
    SourceError::Tls {
        what: what.to_owned(),
        source: source.into(),
    }
}

/// Takes any certificate, for `sslmode=prefer`, which would also take a connection without TLS. That the server has
/// the certificate's key is verified all the same.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

/// Wants a certificate that a root signed, for whomever.
#[derive(Debug)]
struct ChainOnly {
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for ChainOnly {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(end_entity)?,
            &self.roots,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Unverified(self.provider.clone()).verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Unverified(self.provider.clone()).verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        Unverified(self.provider.clone()).supported_verify_schemes()
    }
}
