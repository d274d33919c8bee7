//! Publications, their crashes and their rivals, as a wallet sees them.

#[cfg(feature = "object-store")]
mod bucket;
mod directory;
mod file_server;
mod state_filters;
mod support;

use nutfilter_mint::{Body, NoteKind, Object};
use nutfilter_publish::Destination;

use self::file_server::serve_files;
use self::support::{
    KEYSET, MemoryStore, fetch, keysets, now, objects, one_keyset, snapshot, spent,
};

#[test]
fn any_crash_leaves_the_old_or_the_new_state() {
    let (older, newer) = (now() - 120, now() - 60);
    let before = snapshot(&[("00aa000000000001", 3), ("00aa000000000002", 4)], older);
    let after = snapshot(
        &[
            ("00aa000000000000", 1),
            ("00aa000000000001", 30),
            ("00aa000000000002", 40),
        ],
        newer,
    );
    let (before, after) = (objects(before), objects(after));
    assert_eq!((before.len(), after.len()), (5, 7));
    for crash_at in 0..=after.len() {
        let store = MemoryStore::default();
        Destination::new(store.clone()).publish(&before).unwrap();
        store.fail_at(crash_at);
        let crashed = Destination::new(store.clone()).publish(&after).is_err();
        assert_eq!(crashed, crash_at < after.len());

        let server = serve_files(store.clone());
        let listed = keysets(&server);
        assert_eq!(listed.len(), if crashed { 2 } else { 3 }, "{crash_at}");
        for id in &listed {
            for kind in NoteKind::ALL {
                let filter = fetch(&server, id, kind).unwrap();
                let (old, new) = (spent(&before, id), spent(&after, id));
                let state = (Some(filter.n()), filter.as_of());
                assert!(
                    state == (old, older) || state == (new, newer),
                    "{id} after {crash_at} objects: {state:?}"
                );
            }
        }
        store.fail_at(usize::MAX);
        let report = Destination::new(store.clone()).publish(&after).unwrap();
        assert_eq!(report.written, after.len() - crash_at);
        assert_eq!(keysets(&server).len(), 3);
    }
}

#[test]
fn older_publisher_does_not_undo_a_newer_one() {
    let store = MemoryStore::default();
    let (old, new) = (one_keyset(3, now() - 90), one_keyset(5, now() - 30));
    Destination::new(store.clone()).publish(&new).unwrap();
    let report = Destination::new(store.clone()).publish(&old).unwrap();
    // The list of keysets is the same.
    assert_eq!((report.written, report.superseded.len()), (0, 2));
    let server = serve_files(store);
    let filter = fetch(&server, KEYSET, NoteKind::Spent).unwrap();
    assert_eq!(filter.n(), 5);
}

#[test]
fn publisher_that_is_overtaken_gives_way() {
    let (store, rival) = (MemoryStore::default(), MemoryStore::default());
    let (old, new) = (one_keyset(3, now() - 90), one_keyset(5, now() - 30));
    Destination::new(rival.clone()).publish(&new).unwrap();
    // The rival's objects appear after the older publisher has looked, and before it writes.
    store.appear_before_next_put(rival.contents());
    let report = Destination::new(store.clone()).publish(&old).unwrap();
    // The list of keysets is the same.
    assert_eq!((report.written, report.superseded.len()), (0, 2));
    assert_eq!(store.contents(), rival.contents());
}

#[test]
fn object_dated_in_the_future_is_replaced() {
    let store = MemoryStore::default();
    let object = |text: &'static str, date| Object::json("v1/info", Body::new(text, None), date);
    let publish = |object| Destination::new(store.clone()).publish(&[object]);
    assert_eq!(
        publish(object("wrong clock", now() + 3600))
            .unwrap()
            .written,
        1
    );
    assert_eq!(publish(object("right clock", now())).unwrap().written, 1);
    assert_eq!(store.contents()["v1/info"].bytes, b"right clock");
}

#[test]
fn list_is_not_published_before_its_filters() {
    let complete = snapshot(&[("00aa000000000001", 3), ("00aa000000000002", 3)], now());
    let mut entries: Vec<_> = complete.keysets().cloned().collect();
    entries[1].issued = None;
    let partial = nutfilter_mint::Snapshot::new(entries, now());
    let paths = |snapshot| -> Vec<_> {
        let objects = objects(snapshot).into_iter();
        objects.map(|object| object.path).collect()
    };
    assert_eq!(&**paths(complete).last().unwrap(), "v1/keysets");
    let paths = paths(partial);
    assert_eq!(paths.len(), 3);
    assert!(paths.iter().all(|path| &**path != "v1/keysets"));
}
