//! Notifies the service manager by systemd's `sd_notify` protocol: lines in a datagram to the socket in
//! `NOTIFY_SOCKET`. Without that variable nothing is sent. Failures are ignored, because the service must survive
//! the manager.

use std::ffi::OsString;
use std::time::Duration;

/// The connection to the service manager, if there is one.
#[derive(Debug, Default)]
pub(super) struct Manager {
    #[cfg(unix)]
    socket: Option<unix::Socket>,
    watchdog: Option<Duration>,
}

impl Manager {
    /// Configured by the environment.
    pub(super) fn of(variable: &dyn Fn(&str) -> Option<OsString>) -> Self {
        Self {
            #[cfg(unix)]
            socket: variable("NOTIFY_SOCKET").and_then(|address| unix::Socket::to(&address)),
            watchdog: watchdog(variable, std::process::id()),
        }
    }

    /// Sends a line such as `READY=1`.
    pub(super) fn send(&self, line: &str) {
        #[cfg(unix)]
        if let Some(socket) = &self.socket {
            socket.send(line.as_bytes());
        }
        #[cfg(not(unix))]
        let _ = line;
    }

    /// Interval of keep-alive messages: half the manager's timeout. `None` if the watchdog is off.
    pub(super) fn heartbeat(&self) -> Option<Duration> {
        self.watchdog.map(|watchdog| watchdog / 2)
    }
}

/// The manager's watchdog timeout, if it watches this process.
fn watchdog(variable: &dyn Fn(&str) -> Option<OsString>, process: u32) -> Option<Duration> {
    let number = |name| -> Option<u64> { variable(name)?.to_str()?.parse().ok() };
    if number("WATCHDOG_PID").is_some_and(|watched| watched != u64::from(process)) {
        return None;
    }
    match number("WATCHDOG_USEC") {
        None | Some(0) => None,
        Some(microseconds) => Some(Duration::from_micros(microseconds)),
    }
}

#[cfg(unix)]
mod unix {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    #[derive(Debug)]
    pub(super) struct Socket {
        own: UnixDatagram,
        manager: SocketAddr,
    }

    impl Socket {
        /// `None` if the address is invalid or no socket can be created.
        pub(super) fn to(address: &OsStr) -> Option<Self> {
            let own = UnixDatagram::unbound().ok()?;
            // A manager that does not read must not block the service.
            own.set_nonblocking(true).ok()?;
            let manager = match address.as_bytes() {
                [b'@', name @ ..] => of_abstract_name(name)?,
                [b'/', ..] => SocketAddr::from_pathname(address).ok()?,
                _ => return None,
            };
            Some(Self { own, manager })
        }

        pub(super) fn send(&self, line: &[u8]) {
            if let Err(error) = self.own.send_to_addr(line, &self.manager) {
                tracing::debug!(%error, "could not notify the service manager");
            }
        }
    }

    #[cfg(target_os = "linux")]
    fn of_abstract_name(name: &[u8]) -> Option<SocketAddr> {
        use std::os::linux::net::SocketAddrExt;
        SocketAddr::from_abstract_name(name).ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn of_abstract_name(_: &[u8]) -> Option<SocketAddr> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_watched_process_sends_heartbeats() {
        let heartbeat = |microseconds: &str, process: Option<&str>| {
            watchdog(
                &|name| match name {
                    "WATCHDOG_USEC" => Some(microseconds.into()),
                    "WATCHDOG_PID" => process.map(Into::into),
                    _ => None,
                },
                7,
            )
        };
        let second = Some(Duration::from_secs(1));
        assert_eq!(heartbeat("1000000", None), second);
        assert_eq!(heartbeat("1000000", Some("7")), second);
        assert_eq!(heartbeat("1000000", Some("8")), None);
        assert_eq!(heartbeat("0", None), None);
        assert_eq!(heartbeat("soon", None), None);
        assert_eq!(watchdog(&|_| None, 7), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn notifications_reach_a_path_or_name_and_survive_the_manager() {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::{SocketAddr, UnixDatagram};

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("nutfilter-test-{}", std::process::id());
        let by_path = (
            UnixDatagram::bind(&path).unwrap(),
            path.clone().into_os_string(),
        );
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let by_name = (
            UnixDatagram::bind_addr(&address).unwrap(),
            format!("@{name}").into(),
        );
        for (listener, address) in [by_path, by_name] {
            let environment = |name: &str| (name == "NOTIFY_SOCKET").then(|| address.clone());
            let manager = Manager::of(&environment);
            manager.send("READY=1");
            let mut heard = [0; 64];
            let length = listener.recv(&mut heard).unwrap();
            assert_eq!(&heard[..length], b"READY=1");
            drop(listener);
            manager.send("STOPPING=1");
        }
        Manager::of(&|_| Some("nowhere".into())).send("READY=1");
    }
}
