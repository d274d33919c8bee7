//! Sockets that accept connections, and their certificate.

use core::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use axum_server::Control;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

use crate::connection::MakeConnection;
use crate::server::{Limits, run};

/// Bytes that the system may hold unsent for a client. By default it takes up to 4 MB at once, and a client that reads
/// 20 kB/s then seems to take nothing for minutes.
#[cfg(any(target_os = "linux", target_os = "android"))]
const MAX_UNSENT: u32 = 128 << 10;

/// A bound socket that accepts connections, with or without TLS.
#[derive(Debug)]
pub struct Listener {
    bound: Bound,
    tls: Option<Tls>,
}

#[derive(Debug)]
enum Bound {
    Tcp(std::net::TcpListener),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixListener, SocketFile),
}

impl Listener {
    /// Binds a TCP socket at `HOST:PORT`.
    ///
    /// # Errors
    ///
    /// If the host is unknown, or if binding fails.
    pub async fn tcp(address: &str) -> io::Result<Self> {
        let listener = tokio::net::TcpListener::bind(address).await?.into_std()?;
        // Accepted sockets inherit these options. Answers are written whole, so waiting for more data has no benefit.
        let socket = socket2::SockRef::from(&listener);
        socket.set_tcp_nodelay(true)?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        socket.set_tcp_notsent_lowat(MAX_UNSENT)?;
        let bound = Bound::Tcp(listener);
        Ok(Self { bound, tls: None })
    }

    /// Binds a Unix socket at this path with these permissions, such as `0o660`. A process that may write to the
    /// socket may connect. A socket left by a killed process is replaced. The file is removed when the listener
    /// ends.
    ///
    /// # Errors
    ///
    /// If a process listens at the path, if something other than a socket exists there, or if binding fails.
    #[cfg(unix)]
    pub async fn unix(path: impl Into<PathBuf>, mode: u32) -> io::Result<Self> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = path.into();
        remove_stale(&path).await?;
        let listener = std::os::unix::net::UnixListener::bind(&path)?;
        let file = SocketFile::new(path)?;
        std::fs::set_permissions(&file.path, std::fs::Permissions::from_mode(mode))?;
        let bound = Bound::Unix(listener, file);
        Ok(Self { bound, tls: None })
    }

    /// Uses TLS for every connection over TCP.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The TCP address.
    #[must_use]
    pub fn address(&self) -> Option<std::net::SocketAddr> {
        match &self.bound {
            Bound::Tcp(listener) => listener.local_addr().ok(),
            #[cfg(unix)]
            Bound::Unix(..) => None,
        }
    }

    pub(crate) async fn serve(
        self,
        control: Control,
        connections: MakeConnection,
        limits: Limits,
    ) -> io::Result<()> {
        match (self.bound, self.tls) {
            (Bound::Tcp(listener), None) => {
                let server = axum_server::from_tcp(listener)?;
                run(server, control, connections, limits).await
            }
            (Bound::Tcp(listener), Some(tls)) => {
                let acceptor = RustlsAcceptor::new(tls.config);
                let acceptor = acceptor.handshake_timeout(limits.first_request);
                let server = axum_server::from_tcp(listener)?.acceptor(acceptor);
                run(server, control, connections, limits).await
            }
            #[cfg(unix)]
            (Bound::Unix(listener, _file), _) => {
                let server = axum_server::from_unix(listener)?;
                run(server, control, connections, limits).await
            }
        }
    }
}

/// The address in URL form.
impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        match &self.bound {
            Bound::Tcp(listener) => match listener.local_addr() {
                Ok(address) => write!(f, "{scheme}://{address}"),
                Err(_) => write!(f, "{scheme}://?"),
            },
            #[cfg(unix)]
            Bound::Unix(_, file) => write!(f, "http+unix:{}", file.path.display()),
        }
    }
}

/// Removes a socket on which no process listens, and nothing else.
#[cfg(unix)]
async fn remove_stale(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt as _;
    let said = |kind, what: &str| io::Error::new(kind, format!("{}: {what}", path.display()));
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(said(
                io::ErrorKind::AlreadyExists,
                "exists and is not a socket",
            ));
        }
        Ok(_) => {}
    }
    match tokio::net::UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        // After any other error, the socket may be in use by a busy process or by another user.
        _ => Err(said(io::ErrorKind::AddrInUse, "in use by another process")),
    }
}

/// The file of a Unix socket. It is removed on drop, if it is still the same file.
#[cfg(unix)]
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

#[cfg(unix)]
impl SocketFile {
    fn new(path: PathBuf) -> io::Result<Self> {
        let identity = identity(&path)?;
        Ok(Self { path, identity })
    }
}

#[cfg(unix)]
impl Drop for SocketFile {
    fn drop(&mut self) {
        // A successor may have bound its own socket in the meantime.
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// A certificate and its key, from two files. Clones are handles to the same certificate. After a reload of any of
/// them, all use the new certificate for later connections.
#[derive(Clone, Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    config: RustlsConfig,
}

impl Tls {
    /// Reads a certificate chain, with the server's own certificate first, and its private key. Both files are PEM.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or lacks its contents, or if the key does not match the certificate.
    pub async fn open(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> io::Result<Self> {
        let (certificate, key) = (certificate.into(), key.into());
        let config = RustlsConfig::from_pem_file(&certificate, &key).await;
        let config = config.map_err(|error| invalid(&certificate, &key, &error))?;
        Ok(Self {
            certificate,
            key,
            config,
        })
    }

    /// When the server's own certificate ends; `None` if that cannot be read.
    #[must_use]
    pub fn expires(&self) -> Option<SystemTime> {
        let der = CertificateDer::from_pem_file(&self.certificate).ok()?;
        let certificate = Certificate::from_der(&der).ok()?;
        let end = certificate.tbs_certificate.validity.not_after;
        Some(end.to_system_time())
    }

    /// Reads both files again, after a renewal. Open connections are not affected.
    ///
    /// # Errors
    ///
    /// Like [`Tls::open`]. The previous certificate then stays in use.
    pub async fn reload(&self) -> io::Result<()> {
        let Self {
            certificate, key, ..
        } = self;
        let read = self.config.reload_from_pem_file(certificate, key).await;
        read.map_err(|error| invalid(certificate, key, &error))
    }
}

fn invalid(certificate: &Path, key: &Path, error: &io::Error) -> io::Error {
    let (certificate, key) = (certificate.display(), key.display());
    let said = format!("invalid certificate or key in {certificate} and {key}: {error}");
    io::Error::new(error.kind(), said)
}
