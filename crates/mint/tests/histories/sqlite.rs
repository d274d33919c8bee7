//! A SQLite database, its mint in a process of its own, and what operators and power cuts do to its files.

use std::fs;
use std::path::PathBuf;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::mint::{Process, beside};
use crate::world::{CREATE, Database, OTHER_KEYSETS, What, World};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Checkpoint,
    Vacuum,
    /// The mint is killed, or ends in order, and starts again, perhaps with a migration.
    Restart(bool, Migration),
    Stop(bool),
    Start,
    Save(Save),
    /// One of those that were saved.
    Restore(Way, usize),
    /// The machine loses the last commits after this one; mint and service start again.
    PowerLoss(usize),
    /// The database is copied without its log, and a new service reads the copy, perhaps with another output directory.
    WithoutLog(bool),
    /// A new service reads the mint's own files again.
    Attach,
    /// The mint closes its database, and refreshes go on until nothing has to be read. Then it perhaps starts, and adds a row.
    Rest(Option<usize>),
    /// Somebody changes a closed database, and sets its time back.
    Quiet(Quiet),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Quiet {
    /// A mint opens it, adds a row of a kind, and closes it.
    Commit(usize),
    /// The same, with a refresh so many milliseconds after its start.
    CommitBeside(usize, u8),
    /// `cp` over the file, of one that was saved.
    Copy(usize),
    /// `cp -p` to a new file, which takes its place.
    Move(usize),
    /// Nothing but its time changes.
    Touch,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Migration {
    None,
    /// Every row gets another keyset, in place.
    Update,
    /// A new table takes the place of the old one, with other row ids.
    Rebuild,
    /// As `Update`, by an operator while the mint is stopped; no mint records it.
    Edit,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Save {
    /// While the mint runs.
    Running,
    Stopped,
    /// With its log: the mint was killed.
    Killed,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// `cp` over the file of a mint that was stopped.
    Copy,
    RemoveAndCopy,
    Move,
    /// `.restore` of the shell, while the mint runs.
    Api,
    /// All rows are inserted into a new file.
    Dump,
    /// `cp` over file and log of a mint that was killed.
    InPlace,
}

/// A little longer than the last change of a file must be ago so that the next one gets another date.
const SETTLED: core::time::Duration = core::time::Duration::from_millis(1_050);

pub(crate) struct Sqlite {
    _directory: TempDir,
    path: PathBuf,
    mint: Option<Process>,
    /// Database and log.
    saved: Vec<[Option<Vec<u8>>; 2]>,
    /// Lengths of the log after each commit since the last start.
    lengths: Vec<u64>,
    /// What the service reads instead of the mint's own file.
    copy: Option<PathBuf>,
}

impl Sqlite {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mint.db");
        Self {
            mint: Some(Process::start(&path)),
            _directory: directory,
            path,
            saved: vec![],
            lengths: vec![],
            copy: None,
        }
    }

    fn start(&mut self) {
        if self.mint.is_none() {
            self.mint = Some(Process::start(&self.path));
            self.lengths.clear();
        }
    }

    fn stop(&mut self, killed: bool) {
        match self.mint.take() {
            Some(mint) if killed => mint.kill(),
            Some(mint) => mint.stop(),
            None => {}
        }
    }

    /// Closes the database: after a kill, a start and a stop remove the log.
    fn close(&mut self) {
        self.stop(false);
        self.start();
        self.stop(false);
    }

    fn sql(&mut self, sql: &str) {
        self.run(0, sql);
    }

    fn save(&mut self, how: Save) {
        let files = [self.path.clone(), beside(&self.path, "-wal")];
        match how {
            Save::Running => {
                let copy = self.path.with_extension("saved");
                let _ = fs::remove_file(&copy);
                self.sql(&format!(".backup {}", copy.display()));
                if let Ok(copy) = fs::read(copy) {
                    self.saved.push([Some(copy), None]);
                }
                return;
            }
            Save::Stopped => self.close(),
            Save::Killed => self.stop(true),
        }
        self.saved.push(files.map(|file| fs::read(file).ok()));
        self.start();
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.stop(true);
    }
}

impl Database for Sqlite {
    type Event = Event;

    const BLOB: [&'static str; 2] = ["BLOB", "x'"];

    fn hex(column: &str) -> String {
        format!("iif(typeof({column}) = 'blob', lower(hex({column})), {column})")
    }

    fn location(&self) -> String {
        let path = self.copy.as_ref().unwrap_or(&self.path);
        path.to_str().unwrap().to_owned()
    }

    fn run(&mut self, _session: usize, sql: &str) {
        if let Some(mint) = &mut self.mint {
            mint.run(sql);
            let log = fs::metadata(beside(&self.path, "-wal"));
            self.lengths.extend(log.map(|log| log.len()));
        }
    }

    fn made(&mut self) {
        self.sql("PRAGMA wal_checkpoint(TRUNCATE)");
        self.lengths.clear();
    }

    fn rows(&mut self, sql: &str, is_read: bool) -> Vec<[Option<String>; 3]> {
        let path = self.copy.as_ref().filter(|_| is_read).unwrap_or(&self.path);
        let is_open = beside(path, "-wal").exists();
        let how = if is_open { "mode=ro" } else { "immutable=1" };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let uri = format!("file:{}?{how}", path.display());
        let database = Connection::open_with_flags(uri, flags).unwrap();
        let mut statement = database.prepare(sql).unwrap();
        let mut rows = statement.query([]).unwrap();
        let mut found = vec![];
        while let Some(row) = rows.next().unwrap() {
            found.push([0, 1, 2].map(|column| match row.get(column).unwrap() {
                Value::Text(text) => Some(text),
                Value::Integer(number) => Some(number.to_string()),
                _ => None,
            }));
        }
        found
    }

    fn is_stale(&self) -> bool {
        self.copy.is_some()
    }

    fn happen(world: &mut World<Self>, event: &Event) {
        let database = &mut world.database;
        match *event {
            Event::Checkpoint => database.sql("PRAGMA wal_checkpoint(TRUNCATE)"),
            Event::Vacuum => database.sql("VACUUM"),
            Event::Restart(killed, migration) => restart(world, killed, migration),
            Event::Stop(killed) => database.stop(killed),
            Event::Start => database.start(),
            Event::Save(how) => database.save(how),
            Event::Restore(way, which) => restore(world, way, which),
            Event::PowerLoss(kept) => {
                database.stop(true);
                let length = kept.checked_rem(database.lengths.len());
                // A checkpoint in between may have begun the log again, and a mint that stopped has none.
                if let Some(length) = length.map(|at| database.lengths[at])
                    && let log =
                        fs::OpenOptions::new().write(true).open(beside(&database.path, "-wal"))
                    && let Ok(log) = log
                    && log.metadata().unwrap().len() > length
                {
                    log.set_len(length).unwrap();
                }
                let _ = fs::remove_file(beside(&database.path, "-shm"));
                world.new_process(false);
                world.database.start();
            }
            Event::WithoutLog(is_new) => {
                let copy = database.path.with_extension("copy");
                let _ = fs::remove_file(&copy);
                fs::copy(&database.path, &copy).unwrap();
                database.copy = Some(copy);
                if is_new { world.new_output() } else { world.new_process(false) }
            }
            Event::Attach => {
                database.copy = None;
                world.new_process(false);
            }
            Event::Rest(adds) => {
                database.close();
                std::thread::sleep(SETTLED);
                world.refresh(false);
                world.refresh(false);
                if let Some(kind) = adds {
                    world.database.start();
                    let sql = world.insert(kind, 0, What::Counts);
                    world.run(0, kind, &sql);
                    world.refresh(false);
                }
            }
            Event::Quiet(quiet) => change(world, quiet),
        }
    }
}

/// Changes a closed database, and leaves it with the time that it had.
fn change(world: &mut World<Sqlite>, quiet: Quiet) {
    let database = &mut world.database;
    if database.mint.is_some() {
        database.close();
    }
    let path = database.path.clone();
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    let set_time = |path: &PathBuf| {
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(time).unwrap();
    };
    let saved = |which: usize| {
        let saved = &database.saved;
        let at = which.checked_rem(saved.len())?;
        saved[at].clone().into_iter().next()?.filter(|_| saved[at][1].is_none())
    };
    let commit = |sql: String| {
        let path = path.clone();
        // In another process: this one must not open the file while the service reads.
        move || {
            let mut mint = Process::start(&path);
            mint.run(&sql);
            mint.stop();
        }
    };
    match quiet {
        Quiet::Commit(kind) | Quiet::CommitBeside(kind, _) => {
            let sql = world.insert(kind, 0, What::Counts);
            let commit = std::thread::spawn(commit(world.sql(kind, &sql)));
            if let Quiet::CommitBeside(_, millis) = quiet {
                std::thread::sleep(core::time::Duration::from_millis(millis.into()));
                // What is read is older or newer, or it changed too often.
                let _ = world.try_refresh(false);
            }
            commit.join().unwrap();
            set_time(&path);
        }
        Quiet::Copy(which) => {
            if let Some(saved) = saved(which) {
                fs::write(&path, saved).unwrap();
                set_time(&path);
            }
        }
        Quiet::Move(which) => {
            if let Some(saved) = saved(which) {
                let copy = path.with_extension("saved");
                fs::write(&copy, saved).unwrap();
                set_time(&copy);
                fs::rename(&copy, &path).unwrap();
            }
        }
        Quiet::Touch => set_time(&path),
    }
    world.refresh(false);
}

fn restart(world: &mut World<Sqlite>, killed: bool, migration: Migration) {
    let others = [0, 1].map(|kind| world.sql(kind, OTHER_KEYSETS));
    let database = &mut world.database;
    database.stop(killed && !matches!(migration, Migration::Edit));
    if let Migration::Edit = migration {
        database.close();
        let shell = Connection::open(&database.path).unwrap();
        shell.execute_batch(&others.join(";")).unwrap();
    }
    database.start();
    if let Migration::Update = migration {
        let next = world.next;
        database.sql(&format!("INSERT INTO migrations VALUES ('{next:09}')"));
        database.sql(&format!("INSERT INTO dbversions VALUES ('mint', {next})"));
        world.next += 1;
        others.iter().for_each(|sql| database.sql(sql));
    }
    if let Migration::Rebuild = migration {
        for kind in 0..2 {
            let sql = format!(
                "BEGIN; CREATE TABLE old AS SELECT * FROM $table; DROP TABLE $table; {CREATE}; INSERT INTO $table \
                 SELECT * FROM old ORDER BY rowid DESC; DROP TABLE old; COMMIT"
            );
            world.run(0, kind, &sql);
        }
    }
}

fn restore(world: &mut World<Sqlite>, way: Way, which: usize) {
    let tables = [0, 1].map(|kind| {
        world.sql(kind, &format!("{CREATE}; INSERT INTO $table SELECT * FROM old.$table"))
    });
    let database = &mut world.database;
    let at = which.checked_rem(database.saved.len()).unwrap_or(0);
    let Some([Some(saved), log]) = database.saved.get(at).cloned() else {
        return;
    };
    let (copy, path) = (database.path.with_extension("saved"), database.path.clone());
    // Other ways than in place fold the log in first.
    let put = |path: &PathBuf| {
        fs::write(path, &saved).unwrap();
        if let Some(log) = &log {
            fs::write(beside(path, "-wal"), log).unwrap();
        }
    };
    put(&copy);
    if !matches!(way, Way::InPlace) {
        drop(Process::start(&copy));
        Process::start(&copy).stop();
    }
    let saved = fs::read(&copy).unwrap();
    match way {
        Way::Api => return database.sql(&format!(".restore {}", copy.display())),
        Way::InPlace => {
            database.stop(true);
            let _ = fs::remove_file(beside(&path, "-shm"));
            if log.is_none() {
                let _ = fs::remove_file(beside(&path, "-wal"));
            }
            put(&path);
        }
        _ => database.close(),
    }
    match way {
        Way::Copy => fs::write(&path, &saved).unwrap(),
        Way::RemoveAndCopy => {
            fs::remove_file(&path).unwrap();
            fs::write(&path, &saved).unwrap();
        }
        Way::Move => fs::rename(&copy, &path).unwrap(),
        Way::Dump => {
            fs::remove_file(&path).unwrap();
            let new = Connection::open(&path).unwrap();
            let run = |sql: String| new.execute_batch(&sql).unwrap();
            run(format!("PRAGMA journal_mode = WAL; ATTACH '{}' AS old", copy.display()));
            for table in ["keyset", "keysets", "dbversions", "migrations"] {
                run(format!("CREATE TABLE {table} AS SELECT * FROM old.{table}"));
            }
            tables.into_iter().for_each(run);
        }
        Way::Api | Way::InPlace => {}
    }
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(beside(&copy, suffix));
    }
    database.start();
}
