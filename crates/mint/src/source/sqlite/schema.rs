//! Checks that a mint's tables exist, and which optional ones.

use std::path::Path;

use rusqlite::Connection;

use crate::source::schema::{self, Notes, Schema, Totals};
use crate::source::{MintType, SourceError};

impl Notes {
    /// SQL expression for the time at which a row began to count, in seconds; NULL if this database has no such
    /// column.
    pub(super) fn since(
        &self,
        connection: &Connection,
        path: &Path,
    ) -> Result<&'static str, SourceError> {
        let Some(column) = self.since else {
            return Ok("NULL");
        };
        let there = has(&columns(connection, path, self.table.name)?, column);
        Ok(if there { column } else { "NULL" })
    }

    /// The totals, if this database has the tables and columns to compare with them.
    pub(super) fn totals(
        &self,
        connection: &Connection,
        path: &Path,
    ) -> Result<Option<&Totals>, SourceError> {
        let Some(totals) = &self.totals else {
            return Ok(None);
        };
        let there = columns(connection, path, totals.table.name)?;
        let there = totals.table.columns.iter().all(|&name| has(&there, name))
            && has(&columns(connection, path, self.table.name)?, totals.amount);
        Ok(there.then_some(totals))
    }
}

/// Detects the mint by its tables.
pub(super) fn recognise(connection: &Connection, path: &Path) -> Result<MintType, SourceError> {
    schema::recognise(path, |table| {
        Ok(!columns(connection, path, table)?.is_empty())
    })
}

/// Compares the database with what will be queried. A changed schema is then named, instead of failing with a
/// syntax error.
pub(super) fn verify(
    connection: &Connection,
    path: &Path,
    schema: &Schema,
) -> Result<(), SourceError> {
    for table in schema.tables() {
        let there = columns(connection, path, table.name)?;
        let has_column = (!there.is_empty()).then_some(|column: &str| has(&there, column));
        schema.verify_columns(table, path, has_column)?;
    }
    Ok(())
}

fn has(columns: &[String], column: &str) -> bool {
    columns.iter().any(|name| name.eq_ignore_ascii_case(column))
}

/// The columns of a table; empty if the table does not exist.
fn columns(connection: &Connection, path: &Path, table: &str) -> Result<Vec<String>, SourceError> {
    let read = || -> rusqlite::Result<Vec<String>> {
        connection
            .prepare("SELECT name FROM pragma_table_info(?1)")?
            .query_map([table], |row| row.get(0))?
            .collect()
    };
    read().map_err(|source| super::sqlite_error(path, "reading the schema", source))
}
