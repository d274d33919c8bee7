//! A mint with a store of its own, which hands its notes over. It has one keyset, and leaves out what a mint does with keys.
//!
//! ```sh
//! cargo run -p own-mint -- mint.sqlite
//! curl -d "spent $Y
//! issued $B_" http://127.0.0.1:3338/swap
//! curl http://127.0.0.1:3338/v1/filter/spent/009a1f293253e41e
//! ```

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use axum::{Router, extract::State, http::StatusCode, routing::post};
use nutfilter_mint::source::{
    ItemBatch, ItemSink, KeysetInfo, Keysets, Notes, Reading, Result, SourceError,
};
use nutfilter_mint::{Filters, KeysetId, MintSource, NoteKind, Options};
use rusqlite::Connection;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: own-mint DATABASE")?;
    let mut options = Options::default();
    options.directory = Some(format!("{path}.filters").into());
    let app = app(path.as_ref(), options)?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3338").await?;
    Ok(axum::serve(listener, app).await?)
}

fn app(path: &Path, options: Options) -> Result<Router, Box<dyn Error>> {
    let database = Connection::open(path)?;
    database.execute_batch(
        "PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS notes (kind TEXT, item BLOB UNIQUE)",
    )?;
    let (notes, source) = Notes::new(Store(path.to_owned()));
    let filters = Filters::with_source(source, options)?;
    let router = filters.router();
    let mint = Arc::new(Mint {
        database: Mutex::new(database),
        notes,
        filters,
    });
    Ok(Router::new()
        .route("/swap", post(swap))
        .with_state(mint)
        .merge(router))
}

struct Mint {
    database: Mutex<Connection>,
    notes: Notes,
    filters: Filters,
}

/// This future is dropped when its client leaves. The transaction and its commit are in a task that goes on.
async fn swap(State(mint): State<Arc<Mint>>, lines: String) -> Result<(), (StatusCode, String)> {
    let done =
        tokio::task::spawn_blocking(move || mint.swap(&lines).map_err(|error| error.to_string()));
    let done = done
        .await
        .map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    done.map_err(|error| (StatusCode::BAD_REQUEST, error))
}

impl Mint {
    fn swap(&self, lines: &str) -> Result<(), Box<dyn Error>> {
        let mut database = self.database.lock().map_err(|_| "a swap panicked")?;
        let transaction = database.transaction()?;
        let mut items = [vec![], vec![]];
        for line in lines.lines() {
            let (kind, item) = line.split_once(' ').ok_or("a line is KIND POINT")?;
            let kind = NoteKind::ALL
                .into_iter()
                .find(|known| known.as_str() == kind)
                .ok_or("unknown kind")?;
            let item: [u8; 33] = const_hex::decode_to_array(item)?;
            transaction.execute("INSERT INTO notes VALUES (?1, ?2)", (kind.as_str(), item))?;
            items[kind as usize].push(item);
        }
        // Until here, an error rolls back.
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

impl MintSource for Store {
    fn mint(&self) -> &str {
        "own"
    }

    fn keysets(&mut self) -> Result<Keysets> {
        Ok(Keysets::of([KeysetInfo::new(keyset())]))
    }

    fn read(&mut self, kind: NoteKind, _whole: bool, sink: &mut dyn ItemSink) -> Result<Reading> {
        let mut read = || -> rusqlite::Result<bool> {
            let database = Connection::open(&self.0)?;
            let mut notes = database.prepare("SELECT item FROM notes WHERE kind = ?1")?;
            let (mut rows, mut batch) = (notes.query([kind.as_str()])?, ItemBatch::new());
            while let Some(row) = rows.next()? {
                batch.push(row.get_ref(0)?.as_blob()?);
                if batch.is_full() {
                    if sink.items(Some(&keyset()), &batch).is_break() {
                        return Ok(false);
                    }
                    batch.clear();
                }
            }
            Ok(sink.items(Some(&keyset()), &batch).is_continue())
        };
        match read() {
            Ok(true) => Ok(Reading::whole()),
            Ok(false) => Err(SourceError::Stopped),
            Err(error) => Err(SourceError::Other(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use nutfilter_cashu::FilterResponse;

    /// Starts the mint, swaps, and waits until its filters have all notes.
    async fn swap_and_look(path: &Path, point: u8, all: u32) {
        let mut options = Options::default();
        options.min_interval = Duration::from_millis(100);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(axum::serve(listener, app(path, options).unwrap()).into_future());
        let client = move || {
            let [spent, issued] =
                ["02", "03"].map(|first| first.to_owned() + &const_hex::encode([point; 32]));
            let swap = || {
                ureq::post(format!("http://{address}/swap"))
                    .send(format!("spent {spent}\nissued {issued}"))
            };
            assert_eq!(swap().unwrap().status(), 200);
            assert!(matches!(swap().unwrap_err(), ureq::Error::StatusCode(400)));
            let start = Instant::now();
            for (kind, item) in [("spent", spent), ("issued", issued)] {
                let count = || {
                    let answer =
                        ureq::get(format!("http://{address}/v1/filter/{kind}/{}", keyset())).call();
                    let text = answer.ok()?.body_mut().read_to_vec().unwrap();
                    let filter = FilterResponse::from_json(text)
                        .unwrap()
                        .into_filter()
                        .unwrap();
                    filter.matches(&[const_hex::decode(&item).unwrap()])[0].then_some(filter.n())
                };
                let mut found = count();
                while found.is_none() && start.elapsed() < Duration::from_secs(30) {
                    std::thread::sleep(Duration::from_millis(20));
                    found = count();
                }
                assert_eq!(found, Some(all), "{kind}");
            }
        };
        tokio::task::spawn_blocking(client).await.unwrap();
        server.abort();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn filters_have_what_was_swapped_before_and_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mint.sqlite");
        swap_and_look(&path, 1, 1).await;
        swap_and_look(&path, 2, 2).await;
    }
}
