//! A mint with a store of its own, which hands its notes over. It has one keyset, and leaves out what a mint does with
//! keys.
//!
//! ```sh
//! cargo run -p own-mint -- mint.sqlite
//! curl http://127.0.0.1:3338/swap -d "$Y1 $Y2
//! $B_"
//! curl http://127.0.0.1:3338/v1/filter/spent/009a1f293253e41e
//! ```

use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::{Router, extract::State, http::StatusCode, routing::post};
use nutfilter_mint::source::{
    ItemBatch, ItemSink, KeysetInfo, Keysets, Notes, Reading, Result, SourceError,
};
use nutfilter_mint::{Filters, KeysetId, MintSource, NoteKind, Options};
use rusqlite::Connection;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: own-mint DATABASE [ADDRESS]")?;
    let address = args.next().unwrap_or("127.0.0.1:3338".to_owned());
    let mut options = Options::default();
    options.directory = Some(format!("{path}.filters").into());
    let mint = Arc::new(Mint::open(path.into(), options)?);
    let filters = mint.filters.router();
    let app = Router::new().route("/swap", post(swap)).with_state(mint);
    let listener = tokio::net::TcpListener::bind(address).await?;
    Ok(axum::serve(listener, app.merge(filters)).await?)
}

/// This future is dropped when its client leaves. The transaction and its commit are in a task that goes on.
async fn swap(State(mint): State<Arc<Mint>>, body: String) -> Result<(), (StatusCode, String)> {
    let swap = move || mint.swap(&body).map_err(|error| error.to_string());
    let done = tokio::task::spawn_blocking(swap).await;
    let done = done.map_err(|error| error.to_string()).flatten();
    done.map_err(|error| (StatusCode::BAD_REQUEST, error))
}

struct Mint {
    database: Mutex<Connection>,
    notes: Notes,
    filters: Filters,
}

impl Mint {
    fn open(path: PathBuf, options: Options) -> Result<Self, Box<dyn Error>> {
        let database = Connection::open(&path)?;
        database.pragma_update(None, "journal_mode", "WAL")?;
        let table = "CREATE TABLE IF NOT EXISTS notes (kind TEXT, item BLOB UNIQUE)";
        database.execute(table, [])?;
        let (notes, source) = Notes::new(Store(path));
        Ok(Self {
            database: Mutex::new(database),
            notes,
            filters: Filters::with_source(source, options)?,
        })
    }

    /// A line of spent notes and a line of signed ones.
    fn swap(&self, body: &str) -> Result<(), Box<dyn Error>> {
        let mut database = self.database.lock().map_err(|_| "a swap panicked")?;
        let transaction = database.transaction()?;
        let mut items = [vec![], vec![]];
        for (kind, line) in NoteKind::ALL.into_iter().zip(body.lines()) {
            for point in line.split_whitespace() {
                let item: [u8; 33] = const_hex::decode_to_array(point)?;
                let row = (kind.as_str(), item);
                transaction.execute("INSERT INTO notes VALUES (?1, ?2)", row)?;
                items[kind as usize].push(item);
            }
        }
        // Nothing can have landed before this.
        let mut commit = self.notes.begin();
        commit.spent(&keyset(), &items[0]);
        commit.issued(&keyset(), &items[1]);
        match transaction.commit() {
            Ok(()) => commit.done(),
            Err(error) => {
                commit.ended();
                return Err(error.into());
            }
        }
        self.filters.changed();
        Ok(())
    }
}

fn keyset() -> KeysetId {
    KeysetId::parse("009a1f293253e41e").expect("a valid id")
}

/// Reads all notes, at the start and in doubt.
struct Store(PathBuf);

impl Store {
    fn items(&self, kind: NoteKind) -> rusqlite::Result<Vec<[u8; 33]>> {
        let database = Connection::open(&self.0)?;
        let mut rows = database.prepare("SELECT item FROM notes WHERE kind = ?1")?;
        rows.query_map([kind.as_str()], |row| row.get(0))?.collect()
    }
}

impl MintSource for Store {
    fn mint(&self) -> &str {
        "own"
    }

    fn keysets(&mut self) -> Result<Keysets> {
        Ok(Keysets::of([KeysetInfo::new(keyset())]))
    }

    fn read(&mut self, kind: NoteKind, _whole: bool, sink: &mut dyn ItemSink) -> Result<Reading> {
        let items = self.items(kind);
        let items = items.map_err(|error| SourceError::Other(error.into()))?;
        for items in items.chunks(ItemBatch::FULL) {
            let mut batch = ItemBatch::new();
            items.iter().for_each(|item| batch.push(item));
            if sink.items(Some(&keyset()), &batch).is_break() {
                return Err(SourceError::Stopped);
            }
        }
        Ok(Reading::whole())
    }
}

#[test]
fn filters_have_all_notes_before_and_after_a_restart() {
    use std::time::{Duration, Instant};
    let directory = tempfile::tempdir().unwrap();
    for count in 1..3 {
        let mut options = Options::default();
        options.min_interval = Duration::from_millis(100);
        let mint = Mint::open(directory.path().join("mint.sqlite"), options).unwrap();
        let body = ["02", "03"].map(|first| first.to_owned() + &const_hex::encode([count; 32]));
        let body = body.join("\n");
        mint.swap(&body).unwrap();
        assert!(mint.swap(&body).is_err());
        let (start, all) = (Instant::now(), [u64::from(count); 2]);
        while mint.filters.status().items() != all && start.elapsed().as_secs() < 30 {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(mint.filters.status().items(), all);
    }
}
