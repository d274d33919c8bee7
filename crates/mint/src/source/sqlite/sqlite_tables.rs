//! Checks that a mint's tables exist, and reads values whose types are the mint's choice.

use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::connect::OpenDatabase;
use super::file_system::remote;
use crate::source::schema::{NoteTable, Schema, recognise};
use crate::source::{Keysets, MintType, Result, RowFault, SourceError};

/// Detects the mint by its tables, unless `mint` is given. Compares the database with what will be queried: a changed schema
/// is then named, instead of failing with a syntax error.
pub(super) fn verify(opened: &OpenDatabase, mint: Option<MintType>) -> Result<&'static Schema> {
    let path = opened.path.display();
    let has_table = |table: &str| Ok(!columns(opened, table)?.is_empty());
    let schema = Schema::of(mint.map_or_else(|| recognise(&path, has_table), Ok)?);
    for table in schema.tables() {
        let there = columns(opened, table.name)?;
        let has = |column: &str| there.iter().any(|name| name.eq_ignore_ascii_case(column));
        schema.verify_columns(table, &path, (!there.is_empty()).then_some(has))?;
        let sql = "SELECT 1 FROM pragma_table_list(?1) WHERE type = 'view' OR wr";
        let mut has_ids = true;
        opened.rows("reading the schema", sql, [[table.name]], |_| {
            has_ids = false;
            Ok(())
        })?;
        if !has_ids {
            let table = table.name;
            let reason = format!(
                "unsupported schema: `{table}` is a view or a table WITHOUT ROWID, whose rows have no ids"
            );
            return Err(SourceError::schema(path, reason));
        }
        // Such a column hides the row id.
        let hiding = ["rowid", "oid", "_rowid_"];
        if let Some(name) = hiding.into_iter().find(|name| has(name)) {
            let table = table.name;
            let reason = format!(
                "unsupported schema: column `{name}` of table `{table}` hides SQLite's row ids"
            );
            return Err(SourceError::schema(path, reason));
        }
    }
    Ok(schema)
}

/// The columns of a table; empty if there is no such table.
fn columns(opened: &OpenDatabase, table: &str) -> Result<Vec<String>> {
    let mut names = vec![];
    let sql = "SELECT name FROM pragma_table_info(?1)";
    opened.rows("reading the schema", sql, [[table]], |row| {
        let name = value(row, 0).as_bytes().unwrap_or_default();
        names.push(String::from_utf8_lossy(name).into_owned());
        Ok(())
    })?;
    Ok(names)
}

/// The newest time, in Unix seconds, that a counting row of either kind has of its own, up to the file's last change. Everything that
/// was committed before it is in the database. A row can be older than its place tells, so many are asked. A time after the last
/// change is not when the row was written, and alone it claims no more than that change.
/// CDK's rows from before its column have the time 0, which claims nothing.
pub(super) fn newest_time(opened: &OpenDatabase, schema: &Schema) -> Result<Option<u64>> {
    let Some(modified) = opened.files.modified() else {
        return Ok(None);
    };
    let (mut newest, mut is_later) = (None, false);
    for notes in [&schema.spent, &schema.issued] {
        let there = columns(opened, notes.table.name)?;
        let times = notes
            .times
            .iter()
            .filter(|&&time| there.iter().any(|name| name.eq_ignore_ascii_case(time)));
        let times: String = times
            .map(|time| {
                format!(", iif(typeof({time}) IN ('integer', 'real'), CAST({time} AS INTEGER), -1)")
            })
            .collect();
        let sql = format!(
            "SELECT max(iif(time <= ?1, time, -1)), max(time > ?1)
             FROM (SELECT {}, max(-1, -1{times}) AS time FROM {} NOT INDEXED
             WHERE counts = 1 AND time >= 0 ORDER BY rowid DESC LIMIT 4096)",
            notes.columns(),
            notes.table.name
        );
        let until = [i64::try_from(modified).unwrap_or(i64::MAX)];
        opened.rows("looking up the newest time", &sql, [until], |row| {
            newest = newest.max(number(value(row, 0)));
            is_later |= is_true(value(row, 1));
            Ok(())
        })?;
    }
    Ok(newest.or(is_later.then_some(modified)))
}

/// Warns about how the database is accessed, if the operator should know.
pub(super) fn warn_of_access(opened: &OpenDatabase) {
    let database = opened.path.display();
    if !opened.is_wal {
        tracing::warn!(%database, "database is not in WAL mode: reads block the mint's commits");
    }
    if let Some(file_system) = remote(&opened.path) {
        tracing::warn!(
            %database,
            file_system,
            "database is not on a local file system: another machine's locks and latest notes may be invisible"
        );
    }
}

/// A column of a row; null if there is no such column.
pub(super) fn value<'r>(row: &'r Row<'_>, column: usize) -> ValueRef<'r> {
    row.get_ref(column).unwrap_or(ValueRef::Null)
}

/// The keyset of a row, as stored; if it is not text, its type, which is not a valid id.
pub(super) fn keyset<'r>(row: &'r Row<'_>) -> &'r [u8] {
    match value(row, 1) {
        ValueRef::Text(id) => id,
        other => type_name(other).as_bytes(),
    }
}

/// The item of a row, or what is wrong with it.
pub(super) fn item<'r>(notes: &NoteTable, value: ValueRef<'r>) -> Result<&'r [u8], RowFault> {
    match value {
        ValueRef::Text(text) if notes.hex => Ok(text),
        ValueRef::Blob(bytes) if !notes.hex => Ok(bytes),
        ValueRef::Text(b"") | ValueRef::Blob(b"") => Err(RowFault::Empty),
        other => Err(RowFault::WrongType {
            found: type_name(other),
            expected: if notes.hex { "hex text" } else { "a blob" },
        }),
    }
}

pub(super) fn keysets(opened: &OpenDatabase, schema: &Schema) -> Result<Keysets> {
    let mut listed = Keysets::default();
    let has_end = |name: &String| name.eq_ignore_ascii_case(schema.final_expiry);
    let has_end = columns(opened, schema.keysets.name)?.iter().any(has_end);
    opened.rows("listing keysets", &schema.list_keysets(has_end), [()], |row| {
        let id = match value(row, 0) {
            ValueRef::Text(id) => String::from_utf8_lossy(id),
            // None of these names is a valid id.
            other => type_name(other).into(),
        };
        let unit = value(row, 1).as_str().ok().map(str::to_owned);
        let (fee, end) = (number(value(row, 3)).unwrap_or(0), number(value(row, 4)));
        listed.add(&id, unit, is_true(value(row, 2)), fee, end);
        Ok(())
    })?;
    Ok(listed)
}

fn type_name(value: ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::Null => "null",
        ValueRef::Integer(_) => "an integer",
        ValueRef::Real(_) => "a real number",
        ValueRef::Text(_) => "text",
        ValueRef::Blob(_) => "a blob",
    }
}

/// SQLite has no type `BOOL`. The stored value depends on the mint's driver.
fn is_true(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::Integer(number) => number != 0,
        ValueRef::Text(text) => text.eq_ignore_ascii_case(b"true") || text == b"1",
        _ => false,
    }
}

fn number(value: ValueRef<'_>) -> Option<u64> {
    value.as_i64().ok().and_then(|number| u64::try_from(number).ok())
}
