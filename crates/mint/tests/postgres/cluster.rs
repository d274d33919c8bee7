//! A Postgres server for the tests, in a temporary directory.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

/// Variables that turn a missing Postgres into a failure.
const REQUIRED_BY: [&str; 2] = ["CI", "NUTFILTER_REQUIRE_POSTGRES"];

/// Users that can run the server, because it refuses to run as root.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// Time that any server needs for what is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. It is stopped and removed when this process ends, for any reason.
pub(crate) struct Cluster {
    programs: PathBuf,
    directory: PathBuf,
    port: u16,
    /// The user and the group that run the server, if they are not the current ones.
    user: Option<[u32; 2]>,
    /// A library that stops the server's clock.
    clock: Option<PathBuf>,
    /// The options of the server.
    options: String,
    /// Its processes.
    running: Mutex<Vec<Child>>,
    /// Waits for the end of its input, which is the end of this process, and cleans up.
    _janitor: Child,
}

impl Cluster {
    /// The server shared by most tests. `None`, with a message, if Postgres is missing and not required.
    pub(crate) fn shared() -> Option<&'static Cluster> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        SHARED.get_or_init(|| Cluster::start(None, &[])).as_ref()
    }

    /// A server for a single test, with these files in its data directory. If a port is given, it listens on local
    /// TCP with TLS.
    pub(crate) fn start(port: Option<u16>, files: &[(&str, &str)]) -> Option<Cluster> {
        let Some(programs) = programs() else {
            let required = REQUIRED_BY.iter().any(|name| std::env::var_os(name).is_some());
            assert!(!required, "no initdb of Postgres was found, and it is demanded");
            eprintln!("skipped: there is no Postgres here (Debian's package is `postgresql`)");
            return None;
        };
        // In memory, if there is such a file system: volumes are copied.
        let mut name = tempfile::Builder::new();
        let name = name.prefix("nutfilter-pg-");
        let directory = name.tempdir_in("/dev/shm").or_else(|_| name.tempdir());
        let directory = directory.unwrap().keep();
        let user = (id(&["-u"]) == Some(0)).then(|| {
            let mut users = USERS.into_iter();
            let user = users.find_map(|user| Some([id(&["-u", user])?, id(&["-g", user])?]));
            let user = user.expect("root needs a user to run Postgres as");
            chown(&directory, Some(user[0]), Some(user[1])).unwrap();
            user
        });
        let janitor = janitor(&directory);
        let reached = match port {
            None => "-p 5432 -c listen_addresses=".to_owned(),
            Some(port) => format!("-p {port} -c listen_addresses=127.0.0.1 -c ssl=on"),
        };
        let cluster = Cluster {
            options: format!(
                "-k {} {reached} -c fsync=off -c max_connections=200 \
                 -c max_prepared_transactions=40 -c autovacuum=off \
                 -c min_parallel_table_scan_size=0 -c max_parallel_maintenance_workers=0",
                directory.display()
            ),
            port: port.unwrap_or(5432),
            programs,
            directory,
            user,
            clock: None,
            running: Mutex::new(vec![]),
            _janitor: janitor,
        };
        let data = cluster.data();
        run(cluster
            .program("initdb")
            .args(["-A", "trust", "-U", "owner", "-N", "--wal-segsize=1", "-D"])
            .arg(&data));
        for (name, content) in files {
            cluster.write(&format!("data/{name}"), content);
        }
        cluster.start_again();
        Some(cluster)
    }

    /// Writes a file, such as `data/standby.signal`.
    /// A server may remove a file as soon as it is there, so that is the last step.
    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.directory.join("unfinished");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        if let Some([user, group]) = self.user {
            chown(&path, Some(user), Some(group)).unwrap();
        }
        std::fs::rename(path, self.directory.join(name)).unwrap();
    }

    pub(crate) fn start_again(&self) {
        self.start_with("data", &self.options);
    }

    pub(crate) fn start_again_without_tls(&self) {
        self.start_with("data", &self.options.replace("ssl=on", "ssl=off"));
    }

    /// Stops the server's clock, so that it starts at the same time once its volume was put back: like a machine that is
    /// reverted together with its memory. False without a C compiler.
    pub(crate) fn freeze(&mut self) -> bool {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        self.write(
            "clock.c",
            &format!(
                "#include <sys/time.h>\nint gettimeofday(struct timeval *t, void *z) {{ t->tv_sec = {now}; t->tv_usec = 0; return 0; }}"
            ),
        );
        let [source, library] = ["clock.c", "clock.so"].map(|name| self.directory.join(name));
        let mut compiler = Command::new("cc");
        if !succeeds(compiler.args(["-shared", "-fPIC", "-o"]).args([&library, &source])) {
            eprintln!("skipped: there is no C compiler here");
            return false;
        }
        self.stop("fast");
        self.clock = Some(library);
        self.start_again();
        true
    }

    /// Starts a server and waits until it takes connections. `pg_ctl` would look only each 100 ms.
    fn start_with(&self, data: &str, options: &str) {
        let log = self.directory.join("log");
        let said = std::fs::File::options().create(true).append(true).open(&log).unwrap();
        let mut server = self.program("/bin/sh");
        server.args(["-c", &format!("exec \"$0\" -D \"$1\" {options}")]);
        server.arg(self.programs.join("postgres")).arg(self.directory.join(data));
        server.process_group(0);
        let mut child = server.stderr(said).spawn().unwrap();
        self.wait_until(data, &mut child, &["ready", "standby"]);
        self.running.lock().unwrap().push(child);
    }

    /// Waits for a state of a server, which is in its file.
    fn wait_until(&self, data: &str, child: &mut Child, states: &[&str]) {
        let (start, file) = (Instant::now(), self.directory.join(data).join("postmaster.pid"));
        loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            let is_its = lines.first().is_some_and(|pid| *pid == child.id().to_string());
            if is_its && lines.get(7).is_some_and(|state| states.contains(state)) {
                return;
            }
            let is_there = child.try_wait().unwrap().is_none() && start.elapsed() < PATIENCE;
            let said = || std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
            assert!(is_there, "the server is not {states:?}: {}", said());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops the server: `fast`, or `immediate`, which is like a crash.
    pub(crate) fn stop(&self, mode: &str) {
        self.stop_at("data", mode);
    }

    fn stop_at(&self, data: &str, mode: &str) {
        let mut child = self.take(data);
        signal(&child, if mode == "fast" { "INT" } else { "QUIT" });
        child.wait().unwrap();
    }

    /// The process of a server.
    fn take(&self, data: &str) -> Child {
        let text = std::fs::read_to_string(self.directory.join(data).join("postmaster.pid"));
        let text = text.unwrap();
        let mut running = self.running.lock().unwrap();
        let is_its = |child: &Child| text.lines().next() == Some(&child.id().to_string());
        let at = running.iter().position(is_its).expect("a server");
        running.swap_remove(at)
    }

    /// Copies the volume of a server that is stopped, whose name is `data`.
    pub(crate) fn copy(&self, from: &str, to: &str) {
        let [from, to] = [from, to].map(|name| self.directory.join(name));
        let _ = std::fs::remove_file(&to);
        let _ = std::fs::remove_dir_all(&to);
        run(Command::new("cp").arg("-a").args([from, to]));
    }

    /// Puts the saved volume back, and starts a server on it that recovers to a position of the log that came later.
    pub(crate) fn restore_until(&self, position: &str) {
        let log = self.directory.join("wal");
        let _ = std::fs::remove_dir_all(&log);
        std::fs::rename(self.data().join("pg_wal"), &log).unwrap();
        self.copy("saved", "data");
        self.write("data/recovery.signal", "");
        let options = format!(
            "{} -c recovery_target_lsn={position} -c recovery_target_action=promote -c recovery_target_timeline=current \
             -c 'restore_command=cp {}/%f %p'",
            self.options,
            log.display()
        );
        self.start_with("data", &options);
    }

    /// Copies a server that is stopped, and starts it. Then starts the copy as its standby.
    pub(crate) fn start_with_standby(&self) {
        self.copy("data", "standby");
        self.write("standby/standby.signal", "");
        self.start_again();
        self.start_standby();
    }

    pub(crate) fn start_standby(&self) {
        let directory = self.directory.display();
        let primary = format!("-c 'primary_conninfo=host={directory} user=owner'");
        let options = self.options.replace("-p 5432", "-p 5433");
        self.start_with("standby", &format!("{options} {primary}"));
    }

    /// Promotes the standby beside the server that it followed.
    pub(crate) fn promote_standby(&self) {
        let mut child = self.take("standby");
        self.write("standby/promote", "");
        signal(&child, "USR1");
        self.wait_until("standby", &mut child, &["ready"]);
        self.running.lock().unwrap().push(child);
    }

    /// Starts the promoted standby again.
    pub(crate) fn start_standby_as_primary(&self) {
        self.start_with("standby", &self.options.replace("-p 5432", "-p 5433"));
    }

    pub(crate) fn stop_standby(&self) {
        self.stop_at("standby", "immediate");
    }

    /// Lets the standby take the address of the server, which is stopped.
    pub(crate) fn move_address(&self) {
        let [to, from] = self.sockets();
        std::fs::rename(from, to).unwrap();
    }

    /// A promoted standby stays instead of the server that it followed.
    pub(crate) fn forget_primary(&self) {
        std::fs::remove_dir_all(self.data()).unwrap();
        let standby = self.directory.join("standby");
        std::fs::rename(&standby, self.data()).unwrap();
        // It still runs, and knows its files by this name.
        std::os::unix::fs::symlink(self.data(), standby).unwrap();
    }

    /// Starts PgBouncer, which gives the same connection to one transaction after the other. The directory of its socket; `None`
    /// without PgBouncer.
    pub(crate) fn start_pooler(&self) -> Option<PathBuf> {
        let directory = self.directory.join("pooler");
        std::fs::create_dir(&directory).unwrap();
        if let Some([user, group]) = self.user {
            chown(&directory, Some(user), Some(group)).unwrap();
        }
        let (server, pooler) = (self.directory.display(), directory.display());
        // The janitor looks for this file.
        self.write(
            "pooler/ini",
            &format!(
                "[databases]\n* = host={server} port=5432 user=owner\n[pgbouncer]\nlisten_port = 5432\nunix_socket_dir = {pooler}\n\
                 auth_type = any\nadmin_users = owner\npool_mode = transaction\npidfile = {pooler}/postmaster.pid\n"
            ),
        );
        let mut command = self.program("/usr/sbin/pgbouncer");
        let child = command.arg(directory.join("ini")).process_group(0).spawn().ok()?;
        self.running.lock().unwrap().push(child);
        Writer::wait_for(&format!("postgres://owner@/mint?host={pooler}"));
        Some(directory)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The sockets of the server and of its standby.
    pub(crate) fn sockets(&self) -> [PathBuf; 2] {
        [5432, 5433].map(|port| self.directory.join(format!(".s.PGSQL.{port}")))
    }

    /// A directory for `host=`, whose socket leads to another one: an address that moves.
    pub(crate) fn lead(&self, to: &Path) -> PathBuf {
        let directory = self.directory.join("address");
        let _ = std::fs::create_dir(&directory);
        let socket = directory.join(".s.PGSQL.5432");
        let _ = std::fs::remove_file(&socket);
        std::os::unix::fs::symlink(to, socket).unwrap();
        directory
    }

    /// The directory of the socket.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// A name that no database of this server has yet.
    pub(crate) fn fresh_name() -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        format!("mint_{}", NUMBER.fetch_add(1, Ordering::Relaxed))
    }

    /// The URL of a database, through the socket.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://owner@/{database}?host={}&port={}", self.directory.display(), self.port)
    }

    /// A Postgres program, run as the server's user.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        if let Some([user, group]) = self.user {
            command.uid(user).gid(group);
        }
        // The server would inherit the output, and a reader of the output would wait for the server.
        command
            .current_dir("/")
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(clock) = &self.clock {
            command.env("LD_PRELOAD", clock);
        }
        command
    }
}

/// Stops the server and removes its directory when this process ends, even if it is killed. What a shell starts in the background
/// ignores SIGQUIT, and PgBouncer leaves it at that.
fn janitor(directory: &Path) -> Child {
    const CLEAR: &str = r#"trap '' INT TERM; cat >/dev/null
        for pid in $(head -qn 1 "$0"/*/postmaster.pid 2>/dev/null); do
            kill -QUIT "$pid"
            for wait in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.05; done
            kill -KILL "$pid" 2>/dev/null
        done
        rm -rf "$0""#;
    Command::new("sh")
        .args(["-c", CLEAR])
        .arg(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The directory of the server's programs, which Debian keeps out of `PATH`.
fn programs() -> Option<PathBuf> {
    let mut places: Vec<PathBuf> = vec![];
    if let Some(place) = std::env::var_os("NUTFILTER_POSTGRES") {
        return Some(place.into());
    }
    if let Ok(entries) = std::fs::read_dir("/usr/lib/postgresql") {
        places.extend(entries.flatten().map(|entry| entry.path().join("bin")));
    }
    places.sort();
    if let Ok(output) = Command::new("pg_config").arg("--bindir").output() {
        places.push(String::from_utf8_lossy(&output.stdout).trim().into());
    }
    places.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    places.into_iter().find(|place| {
        ["initdb", "pg_ctl", "postgres"].iter().all(|name| place.join(name).is_file())
    })
}

fn id(of: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(of).output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

fn signal(server: &Child, name: &str) {
    run(Command::new("kill").args(["-s", name, &server.id().to_string()]));
}

fn succeeds(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[track_caller]
fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

/// A connection that may write, like the mint's own.
pub(crate) struct Writer {
    runtime: Runtime,
    client: Client,
}

impl Writer {
    pub(crate) fn connect(url: &str) -> Self {
        Self::try_connect(url).unwrap()
    }

    pub(crate) fn try_connect(url: &str) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            Ok(client)
        })?;
        Ok(Self { runtime, client })
    }

    /// Waits until a server answers that can be written to.
    pub(crate) fn wait_for(url: &str) -> Self {
        let start = Instant::now();
        loop {
            let writer = Self::try_connect(url);
            match writer
                .and_then(|writer| Ok((writer.try_value("SHOW transaction_read_only")?, writer)))
            {
                Ok((read_only, writer)) if read_only == "off" => return writer,
                _ => assert!(start.elapsed() < PATIENCE, "{url} does not come back"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn try_run(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Error> {
        let work = self.client.simple_query(sql);
        self.runtime
            .block_on(async { tokio::time::timeout(PATIENCE, work).await })
            .expect("a statement of a test takes no minute")
    }

    #[track_caller]
    pub(crate) fn run(&self, sql: &str) {
        if let Err(error) = self.try_run(sql) {
            panic!("{sql}: {:?}", error.as_db_error());
        }
    }

    /// The first column of the first row.
    #[track_caller]
    pub(crate) fn value(&self, sql: &str) -> String {
        self.try_value(sql).unwrap()
    }

    pub(crate) fn try_value(&self, sql: &str) -> Result<String, Error> {
        let messages = self.try_run(sql)?;
        let row = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        });
        Ok(row.expect("a row"))
    }
}
