//! Checks that a mint's tables exist, and reads values whose types are the mint's choice.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::connect::Opened;
use super::sqlite_error;
use crate::source::SourceError;
use crate::source::schema::Schema;

/// Compares the database with what will be queried. A changed schema is then named, instead of failing with a syntax
/// error.
pub(super) fn verify(
    connection: &Connection,
    path: &Path,
    schema: &Schema,
) -> Result<(), SourceError> {
    for table in schema.tables() {
        let there = columns(connection, path, table.name)?;
        let has = |column: &str| there.iter().any(|name| name.eq_ignore_ascii_case(column));
        schema.verify_columns(table, path, (!there.is_empty()).then_some(has))?;
        // Such a column hides the row id.
        if let Some(name) = ["rowid", "oid", "_rowid_"]
            .into_iter()
            .find(|name| has(name))
        {
            let (path, table) = (path.display(), table.name);
            return Err(SourceError::Schema(format!(
                "{path}: unsupported schema: column `{name}` of table `{table}` hides SQLite's row ids"
            )));
        }
    }
    Ok(())
}

/// The columns of a table; empty if there is no such table.
pub(super) fn columns(
    connection: &Connection,
    path: &Path,
    table: &str,
) -> Result<Vec<String>, SourceError> {
    let read = || -> rusqlite::Result<Vec<String>> {
        connection
            .prepare("SELECT name FROM pragma_table_info(?1)")?
            .query_map([table], |row| row.get(0))?
            .collect()
    };
    read().map_err(|source| sqlite_error(path, "reading the schema", source))
}

/// Warns about how the database is accessed, if the operator should know.
pub(super) fn warn_of_access(opened: &Opened, path: &Path) {
    let database = path.display();
    if opened.blocks {
        tracing::warn!(%database, "database is not in WAL mode: reads block the mint's commits");
    } else if opened.is_closed {
        // A container with access to the file only sees this state, while the latest notes are in the `-wal` file.
        tracing::warn!(
            %database,
            "no process has the database open; if the mint is running, its -wal file is not visible here and reads are \
             stale: mount the whole directory"
        );
    }
}

pub(super) fn type_name(value: ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::Null => "null",
        ValueRef::Integer(_) => "an integer",
        ValueRef::Real(_) => "a real number",
        ValueRef::Text(_) => "text",
        ValueRef::Blob(_) => "a blob",
    }
}

/// SQLite has no type `BOOL`. The stored value depends on the mint's driver.
pub(super) fn is_true(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::Integer(number) => number != 0,
        ValueRef::Text(text) => text.eq_ignore_ascii_case(b"true") || text == b"1",
        _ => false,
    }
}

pub(super) fn fee(value: ValueRef<'_>) -> u64 {
    value
        .as_i64()
        .ok()
        .and_then(|fee| u64::try_from(fee).ok())
        .unwrap_or(0)
}
