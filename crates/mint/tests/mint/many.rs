//! Many keysets with few descriptors, in a process with that limit.
#![cfg(unix)]

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use nutfilter_mint::source::{DatabaseLocation, SqliteSource};
use nutfilter_mint::{MintType, Monitor, NoteKind, RefreshOptions, Refresher};
use nutfilter_objects::Table;

use crate::support::{MintDatabase, items, refresh};

const DATABASE: &str = "NUTFILTER_TEST_DATABASE";

/// What the child process does.
#[test]
fn refreshes_to_a_directory_within_the_limit() {
    let Some(path) = std::env::var_os(DATABASE).map(PathBuf::from) else {
        return;
    };
    let out = path.with_extension("out");
    let open = || {
        let (table, refused) =
            Table::in_directory(&out, 0o644, |_, _| Ok(("application/json", 1))).unwrap();
        assert!(refused.is_empty());
        let source = SqliteSource::open(&DatabaseLocation::from(path.as_path()), None).unwrap();
        let monitor = Monitor::new(Arc::new(table));
        Refresher::new(source, monitor, RefreshOptions::default())
    };
    let mut refresher = open();
    let encoded = refresh(&mut refresher).encoded;
    let table = refresher.monitor().table();
    for object in table.objects() {
        assert!(table.open(object.path(), true).unwrap().is_some());
    }
    assert_eq!(table.objects().len(), encoded + 1);
    drop(refresher);
    // The next start serves all of them.
    let refresher = open();
    assert_eq!(refresher.monitor().table().objects().len(), encoded + 1);
}

#[test]
fn keysets_may_outnumber_descriptors() {
    for (keysets, descriptors) in [(700, 256), (3000, 1024)] {
        let database = MintDatabase::new(MintType::Cdk);
        let sql: Vec<String> = (0..keysets)
            .map(|number| {
                let id = format!("00{number:014x}");
                crate::sql::keyset(MintType::Cdk, &id, "sat", true, 0)
                    + &database
                        .insert(NoteKind::Spent, &id, &items(number, 2, 33), "SPENT")
                        .replace("BEGIN;", "")
                        .replace("COMMIT;", "")
            })
            .collect();
        database.execute(&format!("BEGIN; {} COMMIT;", sql.concat()));
        let output = Command::new("sh")
            .arg("-c")
            .arg(format!("ulimit -n {descriptors} && exec \"$0\" \"$@\""))
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "many::refreshes_to_a_directory_within_the_limit"])
            .env(DATABASE, &database.path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{keysets}: {said}");
        assert!(said.contains("1 passed"), "{said}");
    }
}
