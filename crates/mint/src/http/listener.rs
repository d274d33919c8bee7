//! Sockets that accept connections.

use core::fmt;
use std::io;
use std::path::{Path, PathBuf};

use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};

#[cfg(any(target_os = "linux", target_os = "android"))]
use super::limits::MAX_UNSENT;
use super::socket::Socket;
use super::tls::Tls;

/// A bound socket that accepts connections, with or without TLS.
#[derive(Debug)]
pub struct Listener {
    bound: Bound,
    tls: Option<Tls>,
}

#[derive(Debug)]
enum Bound {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix {
        listener: UnixListener,
        file: SocketFile,
    },
}

impl Listener {
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
        let listener = UnixListener::bind(&path)?;
        let file = SocketFile::new(path)?;
        std::fs::set_permissions(&file.path, std::fs::Permissions::from_mode(mode))?;
        let bound = Bound::Unix { listener, file };
        Ok(Self { bound, tls: None })
    }

    /// Uses TLS for every connection.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    pub(super) fn tls(&self) -> Option<Tls> {
        self.tls.clone()
    }

    pub(super) async fn accept(&self) -> io::Result<Socket> {
        match &self.bound {
            Bound::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Answers are written whole, so waiting for more data has no benefit. If this fails, the connection
                // is already gone, which the next read or write reports.
                let _ = stream.set_nodelay(true);
                #[cfg(any(target_os = "linux", target_os = "android"))]
                let _ = socket2::SockRef::from(&stream).set_tcp_notsent_lowat(MAX_UNSENT);
                Ok(Socket::Tcp(stream))
            }
            #[cfg(unix)]
            Bound::Unix { listener, .. } => Ok(Socket::Unix(listener.accept().await?.0)),
        }
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self {
            bound: Bound::Tcp(listener),
            tls: None,
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
            Bound::Unix { file, .. } => write!(f, "{scheme}+unix:{}", file.path.display()),
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
    match UnixStream::connect(path).await {
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
