//! Whether another process has the mint's SQLite database open.

use std::io;
use std::path::Path;

/// Tells whether another process has a lock on a database or its `-shm` file, also through a hard link or a mount. This process may have no
/// connection to it: closing the file drops all of the process's locks on it.
pub(super) fn is_locked(path: &Path) -> io::Result<bool> {
    #[cfg(unix)]
    {
        use rustix::process::{Flock, FlockType, fcntl_getlk};
        let file = std::fs::File::open(path)?;
        // On any byte. A file system without locks tells nothing.
        let lock = Flock::from(FlockType::WriteLock);
        Ok(fcntl_getlk(&file, &lock).is_ok_and(|found| found.is_some()))
    }
    #[cfg(not(unix))]
    std::fs::metadata(path).and(Err(io::ErrorKind::Unsupported.into()))
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::{Command, Stdio};

    use rusqlite::Connection;

    use super::*;

    const DATABASE: &str = "NUTFILTER_TEST_LOCKED";

    /// Another process: it has a database open until its input ends.
    #[test]
    fn process_with_an_open_database() {
        let Some(path) = std::env::var_os(DATABASE) else {
            return;
        };
        let mint = Connection::open(path).unwrap();
        mint.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
        println!("open");
        io::stdin().read_line(&mut String::new()).unwrap();
    }

    #[test]
    fn lock_of_another_process_is_seen_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let [path, link] = ["a.db", "b.db"].map(|name| directory.path().join(name));
        let own = Connection::open(&path).unwrap();
        own.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (c)").unwrap();
        drop(own);
        std::fs::hard_link(&path, &link).unwrap();
        assert!(!is_locked(&link).unwrap());
        let mut mint = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg(
                concat!(module_path!(), "::process_with_an_open_database")
                    .split_once("::")
                    .unwrap()
                    .1,
            )
            .env(DATABASE, &path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = io::BufReader::new(mint.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("open") {
            line.clear();
            assert!(io::BufRead::read_line(&mut said, &mut line).unwrap() > 0);
        }
        assert!(
            is_locked(&link).unwrap() && is_locked(&directory.path().join("a.db-shm")).unwrap()
        );
        drop(mint.stdin.take());
        assert!(mint.wait().unwrap().success());
        assert!(!is_locked(&link).unwrap());
    }
}
