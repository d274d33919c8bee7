//! Databases with an unexpected schema: the error names what is missing, and where.

use std::path::Path;

use nutfilter_mint::MintType;
use nutfilter_mint::source::{DatabaseLocation, MintSource as _, SourceError, SqliteSource};

use crate::sql::tables_of_notes;
use crate::support::{MintDatabase, tables};

/// The tables that are read, and their columns.
const TABLES: [(MintType, &str, &[&str]); 6] = [
    (MintType::Nutshell, "proofs_used", &["id", "y"]),
    (MintType::Nutshell, "promises", &["id", "b_", "c_"]),
    (MintType::Nutshell, "keysets", KEYSETS),
    (MintType::Cdk, "proof", &["keyset_id", "y", "state"]),
    (MintType::Cdk, "blind_signature", &["keyset_id", "blinded_message", "c"]),
    (MintType::Cdk, "keyset", KEYSETS),
];

const KEYSETS: &[&str] = &["id", "unit", "active", "input_fee_ppk"];

fn open(path: &Path, mint: Option<MintType>) -> Result<SqliteSource, SourceError> {
    SqliteSource::open(&DatabaseLocation::from(path), mint)
}

fn refusal(database: &MintDatabase) -> String {
    open(&database.path, None).unwrap_err().to_string()
}

#[test]
fn missing_tables_and_columns_are_named() {
    for (mint, table, columns) in TABLES {
        for column in [None].into_iter().chain(columns.iter().map(Some)) {
            let database = MintDatabase::new(mint);
            // Renamed, as a later version of the mint might do.
            let (change, missing) = match column {
                Some(column) => (
                    format!("ALTER TABLE {table} RENAME COLUMN {column} TO {column}_of_old"),
                    format!("column `{column}` of table `{table}` is missing"),
                ),
                None => (format!("DROP TABLE {table}"), format!("table `{table}` is missing")),
            };
            database.execute(&change);
            for told in [None, Some(mint)] {
                let text = open(&database.path, told).unwrap_err().to_string();
                assert!(text.contains(&format!("{mint} ")), "{text}");
                assert!(text.contains(&missing), "{text}");
            }
        }
    }
}

#[test]
fn tables_without_row_ids_are_refused() {
    for (mint, kind) in tables_of_notes() {
        let [table, _, item] = crate::sql::table(mint, kind);
        let create = format!("DROP TABLE {table}; CREATE TABLE {table}");
        let columns = "id, keyset_id, state, c, c_";
        let is_a_view = format!("`{table}` is a view");
        let hides = |column: &str| {
            let said = format!("column `{}` of table `{table}` hides", column.to_lowercase());
            (format!("{create} ({item}, {columns}, {column} INTEGER)"), said)
        };
        for (change, said) in [
            (
                format!(
                    "ALTER TABLE {table} RENAME TO real; CREATE VIEW {table} AS SELECT * FROM real"
                ),
                is_a_view.clone(),
            ),
            (format!("{create} ({item} PRIMARY KEY, {columns}) WITHOUT ROWID"), is_a_view),
            hides("rowid"),
            hides("OID"),
            hides("_rowid_"),
        ] {
            let database = MintDatabase::new(mint);
            database.execute(&change);
            let text = refusal(&database);
            assert!(text.contains(&said), "{text}");
        }
    }
}

#[test]
fn tables_of_both_mints_need_the_mint_option() {
    let database = MintDatabase::new(MintType::Nutshell);
    database.execute(&tables(MintType::Cdk));
    let error = refusal(&database);
    assert!(error.contains("tables of more than one mint"), "{error}");
    for mint in MintType::ALL {
        let source = open(&database.path, Some(mint)).unwrap();
        assert_eq!(source.mint(), mint.as_str());
    }
}

#[test]
fn other_files_are_not_accepted_as_databases() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mint.db");
    // As long as a page, and as random as an encrypted database.
    let noise: Vec<u8> =
        (0..4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(&path, noise).unwrap();
    let error = open(&path, None).unwrap_err();
    let expected = "not a SQLite database, or encrypted";
    assert!(error.to_string().ends_with(expected), "{error}");
    // An empty file is a database without tables.
    std::fs::write(&path, "").unwrap();
    let error = open(&path, None).unwrap_err();
    let expected = ": unknown mint schema: for cdk table `proof` is missing, for nutshell table `proofs_used` is missing";
    assert!(error.to_string().ends_with(expected), "{error}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn later_schema_change_fails_the_refresh_and_is_named() {
    let database = MintDatabase::new(MintType::Cdk);
    let mut refresher = database.refreshed();
    database.execute("ALTER TABLE proof RENAME COLUMN state TO status;");
    let error = refresher.refresh(false).unwrap_err().to_string();
    assert!(error.contains("`state`") && error.contains("`proof`"), "{error}");
    assert_eq!(refresher.monitor().table().objects().len(), 1);
}

#[cfg(unix)]
#[test]
fn fifo_is_refused_without_waiting_for_a_writer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mint.sqlite3");
    let status = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(status.unwrap().success());
    let location = nutfilter_mint::source::DatabaseLocation::from(path.as_path());
    let error = nutfilter_mint::source::open(&location, None).err().unwrap();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}
