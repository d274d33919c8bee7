//! A store in memory that can fail, snapshots, and a wallet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use nutfilter::{ItemHash, Nut25, Params, SortedHashes};
use nutfilter_mint::source::KeysetInfo;
use nutfilter_mint::{
    BodyPlace, FilterService, FinishedFilter, KeysetEntry, KeysetId, NoteKind, Object, Snapshot,
};
use nutfilter_publish::{Destination, Found, Put, Store, StoreError, Version};
use nutfilter_wallet::{FetchError, MintClient, MintFilter, Policy};

use super::file_server::{Files, request};

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
        let raw = filter.bytes().to_vec().into();
        let filter = FinishedFilter::new(raw, n, Params::CASHU, date, &BodyPlace::Memory);
        let filter = Arc::new(filter.unwrap());
        KeysetEntry {
            info: KeysetInfo::new(KeysetId::parse(id).unwrap()),
            spent: Some(Arc::clone(&filter)),
            issued: Some(filter),
        }
    });
    Snapshot::new(entries.collect(), date)
}

pub(crate) const KEYSET: &str = "00aa000000000001";

/// What is published of a snapshot.
pub(crate) fn objects(snapshot: Snapshot) -> Vec<Object> {
    let service = FilterService::default();
    service.replace(snapshot);
    service.objects().concat()
}

/// What is published of one keyset with this number of notes.
pub(crate) fn one_keyset(notes: u32, date: u64) -> Vec<Object> {
    objects(snapshot(&[(KEYSET, notes)], date))
}

/// Four publishers of one destination, each with newer objects in every step, and the newest in its last one.
/// Afterwards the newest filter is there.
pub(crate) fn compete(open: impl Fn() -> Destination + Sync, steps: u64, url: &str) {
    let newest = now() - 10;
    std::thread::scope(|scope| {
        for publisher in 0..4 {
            let open = &open;
            scope.spawn(move || {
                let mut destination = open();
                for step in 1..=steps {
                    let date = newest - (steps - step) * (publisher + 1);
                    let notes = 1 + u32::try_from(date - (newest - 100)).unwrap();
                    destination.publish(&one_keyset(notes, date)).unwrap();
                }
            });
        }
    });
    let filter = fetch(url, KEYSET, NoteKind::Spent).unwrap();
    assert_eq!((filter.n(), filter.as_of()), (101, newest));
}

/// The number of spent notes that these objects declare for a keyset.
pub(crate) fn spent(objects: &[Object], id: &str) -> Option<u32> {
    let object = objects.iter().find(|object| object.path.ends_with(id))?;
    let json = String::from_utf8(object.read().unwrap().to_vec()).unwrap();
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

impl Stored {
    pub(crate) fn damage(&mut self) {
        self.bytes[20] ^= 1;
        self.digest = "of other bytes".to_owned();
    }
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
    /// Fails after this many objects were written from now on.
    pub(crate) fn fail_at(&self, put: usize) {
        let mut memory = self.0.lock().unwrap();
        (memory.puts, memory.fail_at) = (0, Some(put));
    }

    pub(crate) fn appear_before_next_put(&self, contents: Contents) {
        self.0.lock().unwrap().appearing = Some(contents);
    }

    pub(crate) fn set_contents(&self, contents: Contents) {
        self.0.lock().unwrap().contents = contents;
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
    fn read(&mut self, path: &str) -> Result<Option<(Vec<u8>, Version)>, StoreError> {
        let memory = self.0.lock().unwrap();
        let found = memory.contents.get(path);
        Ok(found.map(|stored| (stored.bytes.clone(), version(stored))))
    }

    fn find(&mut self, object: &Object) -> Result<Option<Found>, StoreError> {
        let memory = self.0.lock().unwrap();
        let found = memory.contents.get(&*object.path);
        Ok(found.map(|stored| Found {
            version: version(stored),
            date: stored.date,
            is_same: stored.digest == object.digest(),
        }))
    }

    fn put(
        &mut self,
        object: &Object,
        bytes: Bytes,
        _cache: &str,
        over: Option<&Version>,
    ) -> Result<Put, StoreError> {
        let mut memory = self.0.lock().unwrap();
        if memory.fail_at.is_some_and(|put| memory.puts >= put) {
            return Err(StoreError::new("writing", "power failure"));
        }
        if let Some(contents) = memory.appearing.take() {
            memory.contents = contents;
        }
        let there = memory.contents.get(&*object.path).map(version);
        if there.as_ref() != over {
            return Ok(Put::Conflict);
        }
        memory.puts += 1;
        let stored = Stored {
            bytes: bytes.to_vec(),
            date: object.date.unwrap_or(0),
            digest: object.digest(),
        };
        memory.contents.insert(object.path.to_string(), stored);
        Ok(Put::Written)
    }
}

impl Files for MemoryStore {
    fn file(&self, path: &str) -> Option<Vec<u8>> {
        Some(self.contents().get(path)?.bytes.clone())
    }
}

/// What a wallet gets from this URL.
pub(crate) fn fetch(url: &str, id: &str, kind: NoteKind) -> Result<MintFilter, FetchError> {
    let client = MintClient::new(url, Policy::default()).unwrap();
    client.fetch(&KeysetId::parse(id).unwrap(), kind)
}

/// The ids in the published list of keysets.
pub(crate) fn keysets(url: &str) -> Vec<String> {
    let (_, body) = request("GET", url, "/v1/keysets", "");
    let answer = String::from_utf8(body).unwrap();
    let ids = answer.split("\"id\":\"").skip(1);
    ids.map(|rest| rest[..16].to_owned()).collect()
}
