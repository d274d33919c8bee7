//! A connection over rustls, in the form that `tokio-postgres` takes. (The crate `tokio-postgres-rustls` does this too, and takes
//! eight crates to find the hash of a certificate's signature.)

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls::pki_types::{InvalidDnsNameError, ServerName, alg_id};
use sha2::{Digest, Sha256, Sha384, Sha512};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

/// Makes connections over TLS.
#[derive(Clone)]
pub(super) struct Connector(pub(super) Arc<ClientConfig>);

/// The same for one server.
pub(super) struct ServerConnector(
    TlsConnector,
    Result<ServerName<'static>, InvalidDnsNameError>,
);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Connector {
    type Stream = Stream<S>;
    type TlsConnect = ServerConnector;
    type Error = Infallible;

    fn make_tls_connect(&mut self, domain: &str) -> Result<ServerConnector, Infallible> {
        // Only TLS needs the name; sockets have none.
        let name = ServerName::try_from(domain).map(|name| name.to_owned());
        Ok(ServerConnector(Arc::clone(&self.0).into(), name))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for ServerConnector {
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let name = self.1.map_err(io::Error::other)?;
            Ok(Stream(self.0.connect(name, stream).await?))
        })
    }
}

pub(super) struct Stream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        let (_, session) = self.0.get_ref();
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        let digest = certificate.and_then(|certificate| end_point(certificate));
        digest.map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// The `tls-server-end-point` of RFC 5929: the hash of the server's certificate by the hash function of its signature. `None` for
/// other signatures: then the login is not bound to the connection, or fails if the URL requires that.
fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let (certificate_content, _) = element(certificate)?;
    let (_to_be_signed, rest) = element(certificate_content)?;
    let (algorithm, _) = element(rest)?;
    let is = |known: &[alg_id::AlgorithmIdentifier]| known.iter().any(|one| **one == *algorithm);
    if is(&[alg_id::RSA_PKCS1_SHA256, alg_id::ECDSA_SHA256]) {
        Some(Sha256::digest(certificate).to_vec())
    } else if is(&[alg_id::RSA_PKCS1_SHA384, alg_id::ECDSA_SHA384]) {
        Some(Sha384::digest(certificate).to_vec())
    } else if is(&[alg_id::RSA_PKCS1_SHA512, alg_id::ECDSA_SHA512]) {
        Some(Sha512::digest(certificate).to_vec())
    } else {
        None
    }
}

/// The contents of the first element of DER, and what is after it.
fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[_tag, first], rest) = der.split_first_chunk()?;
    // Up to 127, or the number of bytes of the length.
    let (length, rest) = match first {
        0..=0x7F => (usize::from(first), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            let join = |sum, &byte| sum << 8 | usize::from(byte);
            (length.iter().fold(0, join), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_point_is_hashed_as_the_certificate_was_signed() {
        for (algorithm, bytes) in [
            (&rcgen::PKCS_ECDSA_P256_SHA256, Some(32)),
            (&rcgen::PKCS_ECDSA_P384_SHA384, Some(48)),
            (&rcgen::PKCS_ED25519, None),
        ] {
            let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
            let parameters = rcgen::CertificateParams::new(vec!["db".to_owned()]).unwrap();
            let certificate = parameters.self_signed(&key).unwrap();
            let end_point = end_point(certificate.der());
            assert_eq!(end_point.map(|digest| digest.len()), bytes);
        }
    }

    #[test]
    fn malformed_certificate_has_no_end_point() {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::default()
            .self_signed(&key)
            .unwrap();
        let der = certificate.der();
        for length in 0..der.len() {
            assert_eq!(end_point(&der[..length]), None, "{length} bytes");
        }
        assert_eq!(element(&[0x30, 0x85, 0, 0, 0, 0, 1, 2]), None);
    }
}
