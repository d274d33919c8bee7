//! A store in memory that can fail, snapshots, and a server of static files with a wallet.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use nutfilter::{ItemHash, Nut25, Params, SortedHashes};
use nutfilter_mint::source::KeysetInfo;
use nutfilter_mint::{Body, BodyPlace, KeysetEntry, KeysetId, NoteKind, PublishedFilter, Snapshot};
use nutfilter_publish::{Found, Object, Put, Store, StoreError, Version};
use nutfilter_wallet::{FetchError, MintClient, MintFilter, Policy};

pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

/// A snapshot with these keysets and numbers of notes, each in both kinds.
pub(crate) fn snapshot(keysets: &[(&str, u32)], date: u64) -> Snapshot {
    let entries = keysets.iter().map(|&(id, n)| {
        let hashes = (0..n).map(|i| Nut25.hash(&[&i.to_le_bytes()[..], &[2; 29]].concat()));
        let filter = SortedHashes::<Nut25>::from_hashes(hashes.collect())
            .encode(Params::CASHU)
            .unwrap();
        let raw = Body::from_bytes(filter.bytes().to_vec());
        let filter = PublishedFilter::new(raw, n, Params::CASHU, date, &BodyPlace::Memory);
        let filter = Arc::new(filter.unwrap());
        KeysetEntry {
            info: KeysetInfo {
                id: KeysetId::parse(id).unwrap(),
                unit: Some("sat".to_owned()),
                active: true,
                input_fee_ppk: 0,
            },
            spent: Some(Arc::clone(&filter)),
            issued: Some(filter),
        }
    });
    Snapshot::new(entries.collect(), date)
}

/// The number of spent notes that these objects declare for a keyset.
pub(crate) fn spent(objects: &[Object], id: &str) -> Option<u32> {
    let object = objects.iter().find(|object| object.path().ends_with(id))?;
    let json = String::from_utf8(object.body().bytes().to_vec()).unwrap();
    let (_, n) = json.split_once("\"n\":").unwrap();
    let digits = n.split(|c: char| !c.is_ascii_digit()).next().unwrap();
    Some(digits.parse().unwrap())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) bytes: Vec<u8>,
    date: u64,
    digest: String,
}

type Contents = BTreeMap<String, Stored>;

#[derive(Default)]
struct Memory {
    contents: Contents,
    puts: usize,
    fail_at: Option<usize>,
    appearing: Option<Contents>,
}

/// Clones share their contents. The tag of an object is its digest and date.
#[derive(Clone, Default)]
pub(crate) struct MemoryStore(Arc<Mutex<Memory>>);

impl MemoryStore {
    /// Fails at this put, counted from 0 and from now on, and at all later ones.
    pub(crate) fn fail_at(&self, put: usize) {
        let mut memory = self.0.lock().unwrap();
        (memory.puts, memory.fail_at) = (0, Some(put));
    }

    pub(crate) fn appear_before_next_put(&self, contents: Contents) {
        self.0.lock().unwrap().appearing = Some(contents);
    }

    pub(crate) fn contents(&self) -> Contents {
        self.0.lock().unwrap().contents.clone()
    }
}

fn version(stored: &Stored) -> Version {
    Version {
        e_tag: Some(format!("{} {}", stored.digest, stored.date)),
        version: None,
    }
}

impl Store for MemoryStore {
    fn find(&mut self, object: &Object) -> Result<Option<Found>, StoreError> {
        let memory = self.0.lock().unwrap();
        let found = memory.contents.get(object.path());
        Ok(found.map(|stored| Found {
            version: version(stored),
            date: stored.date,
            is_same: stored.digest == object.digest(),
        }))
    }

    fn put(&mut self, object: &Object, over: Option<&Version>) -> Result<Put, StoreError> {
        let mut memory = self.0.lock().unwrap();
        if memory.fail_at.is_some_and(|put| memory.puts >= put) {
            return Err(StoreError::new("writing", "power failure"));
        }
        memory.puts += 1;
        if let Some(contents) = memory.appearing.take() {
            memory.contents = contents;
        }
        let there = memory.contents.get(object.path()).map(version);
        if there.as_ref() != over {
            return Ok(Put::Conflict);
        }
        let stored = Stored {
            bytes: object.body().bytes().to_vec(),
            date: object.date().unwrap_or(0),
            digest: object.digest().to_owned(),
        };
        memory.contents.insert(object.path().to_owned(), stored);
        Ok(Put::Written)
    }
}

/// Where a server finds its files.
pub(crate) trait Files: Send + 'static {
    fn file(&self, path: &str) -> Option<Vec<u8>>;
}

impl Files for MemoryStore {
    fn file(&self, path: &str) -> Option<Vec<u8>> {
        Some(self.contents().get(path)?.bytes.clone())
    }
}

impl Files for PathBuf {
    fn file(&self, path: &str) -> Option<Vec<u8>> {
        std::fs::read(self.join(path)).ok()
    }
}

/// A server of static files that knows nothing but GET.
pub(crate) struct FileServer {
    url: String,
}

impl FileServer {
    pub(crate) fn start(files: impl Files) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = BufReader::new(&stream).lines().map_while(Result::ok);
                let request = head.next().unwrap_or_default();
                head.find(String::is_empty);
                let path = request.split(' ').nth(1).unwrap_or("/");
                let (status, body) = match files.file(&path[1..]) {
                    Some(body) => ("200 OK", body),
                    None => ("404 Not Found", b"no such file".to_vec()),
                };
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                );
                let _ = stream.write_all(&[head.as_bytes(), &body].concat());
            }
        });
        Self { url }
    }

    pub(crate) fn fetch(&self, id: &str, kind: NoteKind) -> Result<MintFilter, FetchError> {
        fetch(&self.url, id, kind)
    }
}

/// What a wallet gets from this URL.
pub(crate) fn fetch(url: &str, id: &str, kind: NoteKind) -> Result<MintFilter, FetchError> {
    let client = MintClient::new(url, Policy::default()).unwrap();
    client.fetch(&KeysetId::parse(id).unwrap(), kind)
}

/// The ids in the published list of keysets.
pub(crate) fn keysets(server: &FileServer) -> Vec<String> {
    use std::io::Read;
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET /v1/keysets HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let ids = answer.split("\"id\":\"").skip(1);
    ids.map(|rest| rest[..16].to_owned()).collect()
}
