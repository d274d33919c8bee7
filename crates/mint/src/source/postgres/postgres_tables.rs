//! Checks that a mint's tables exist on Postgres with the required types and privileges.

use std::collections::HashMap;

use super::session::{STANDBY, Session, TextRow};
use crate::source::schema::{self, NoteTable, Schema, SqlTable};
use crate::source::{Keysets, MintType, Result, SourceError};

/// A system column of every table: the transaction that wrote the row.
pub(super) const XMIN: &str = "xmin";

/// The tables of both mints that are on the connection's search path.
pub(super) struct FoundTables {
    database: String,
    tables: HashMap<String, FoundTable>,
}

struct FoundTable {
    /// The kind of the relation; `r` is a table.
    kind: String,
    /// The type of each column, and whether the role may read it.
    columns: HashMap<String, (String, bool)>,
}

impl FoundTables {
    /// Looks up the tables of both mints.
    pub(super) fn look(session: &mut Session<'_>) -> Result<Self> {
        let names: Vec<String> = MintType::ALL
            .into_iter()
            .flat_map(|mint| Schema::of(mint).tables())
            .map(|table| format!("('{}')", table.name))
            .collect();
        let sql = format!(
            "SELECT t.name, c.relkind, a.attname, pg_catalog.format_type(a.atttypid, NULL),
                 pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')
             FROM (VALUES {}) AS t(name)
             JOIN pg_catalog.pg_class c ON c.oid = pg_catalog.to_regclass(t.name)
             JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
             WHERE NOT a.attisdropped AND (a.attnum > 0 OR a.attname = '{XMIN}')",
            names.join(",")
        );
        if session.url().schema.is_none() {
            refuse_two_of_one_name(session, &names.join(","))?;
        }
        let mut tables: HashMap<String, FoundTable> = HashMap::new();
        for row in session.rows("reading the schema", &sql)? {
            let [name, kind, column, of_type] = [0, 1, 2, 3].map(|at| text(&row, at).to_owned());
            let columns = HashMap::new();
            let table = tables.entry(name).or_insert(FoundTable { kind, columns });
            table.columns.insert(column, (of_type, text(&row, 4) == "t"));
        }
        Ok(Self { database: session.url().to_string(), tables })
    }

    /// Detects the mint by its tables, unless `mint` is given. Compares the database with what will be queried: a changed
    /// schema or a missing privilege is then named, instead of failing in a later statement.
    pub(super) fn verify(&self, mint: Option<MintType>) -> Result<&'static Schema> {
        let has_table = |table: &str| Ok(self.tables.contains_key(table));
        let recognise = || schema::recognise(&self.database, has_table);
        let schema = Schema::of(mint.map_or_else(recognise, Ok)?);
        for table in schema.tables() {
            self.verify_table(schema, table)?;
        }
        for notes in [&schema.spent, &schema.issued] {
            let table = &self.tables[notes.table.name];
            let item_type = if notes.hex { "text" } else { "bytea" };
            self.verify_type(notes, table, notes.item, item_type)?;
            self.verify_type(notes, table, notes.keyset, "text")?;
        }
        Ok(schema)
    }

    /// Whether a column is there, and the role may read it.
    pub(super) fn may_read(&self, table: &str, column: &str) -> bool {
        let table = self.tables.get(table);
        let column = table.and_then(|table| table.columns.get(column));
        column.is_some_and(|&(_, readable)| readable)
    }

    pub(super) fn warn_of_xmin(&self, schema: &Schema) {
        for notes in [&schema.spent, &schema.issued] {
            if !self.may_read(notes.table.name, XMIN) {
                tracing::warn!(
                    table = notes.table.name,
                    "role cannot read column `xmin`, so every refresh rereads the full table; grant SELECT (xmin) on the \
                     table to the role"
                );
            }
        }
    }

    fn refused(&self, reason: String) -> SourceError {
        SourceError::schema(&self.database, reason)
    }

    fn verify_table(&self, schema: &Schema, table: &SqlTable) -> Result<()> {
        let name = table.name;
        let found = self.tables.get(name);
        let has_column = found.map(|found| |column: &str| found.columns.contains_key(column));
        schema.verify_columns(table, &self.database, has_column)?;
        let found = &self.tables[name];
        let kind = &found.kind;
        if kind != "r" {
            return Err(self.refused(format!(
                "`{name}` is not a table but a relation of kind `{kind}`; views and partitioned tables are not supported"
            )));
        }
        if table.columns.iter().any(|&column| !found.columns[column].1) {
            let columns = table.columns.join(", ");
            return Err(self.refused(format!(
                "the role cannot read table `{name}`; to allow it: GRANT SELECT ({columns}) ON {name} TO the role"
            )));
        }
        Ok(())
    }

    fn verify_type(
        &self,
        notes: &NoteTable,
        table: &FoundTable,
        column: &str,
        expected: &str,
    ) -> Result<()> {
        let found = &table.columns[column].0;
        // In binary format, all of these types are plain text.
        let same = expected == "text" && (found == "character varying" || found == "character");
        let table = notes.table.name;
        match found == expected || same {
            true => Ok(()),
            false => Err(self.refused(format!(
                "column `{column}` of table `{table}` has type {found}, expected {expected}"
            ))),
        }
    }
}

/// Refuses several tables of one name when the URL does not say in which schema the mint's are. A table that a mint no longer
/// writes to would be read for ever.
fn refuse_two_of_one_name(session: &mut Session<'_>, names: &str) -> Result<()> {
    let sql = format!(
        "SELECT t.name, pg_catalog.string_agg(n.nspname, ', ' ORDER BY n.nspname)
         FROM (VALUES {names}) AS t(name)
         JOIN pg_catalog.pg_class c ON c.relname = t.name AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname !~ '^(pg_|information_schema$)'
         GROUP BY t.name HAVING count(*) > 1"
    );
    let rows = session.rows("looking for tables of the same name", &sql)?;
    let Some([table, schemas]) = rows.first().map(|row| [0, 1].map(|at| text(row, at))) else {
        return Ok(());
    };
    let reason = format!(
        "table `{table}` exists in several schemas: {schemas}; add schema=NAME to the URL, with the mint's schema"
    );
    Err(SourceError::schema(session.url(), reason))
}

/// A column of a row; empty for null.
fn text(row: &TextRow, column: usize) -> &str {
    row.get(column).and_then(Option::as_deref).unwrap_or_default()
}

/// The keysets of a listing, behind a column that tells whether the server is a standby.
pub(super) fn keysets(session: &Session<'_>, rows: Vec<TextRow>) -> Result<Keysets> {
    let mut listed = Keysets::default();
    for mut row in rows {
        if text(&row, 0) != "f" {
            return Err(SourceError::schema(session.url(), STANDBY));
        }
        let active = ["t", "true", "1"].contains(&text(&row, 3));
        let fee = text(&row, 4).parse().unwrap_or(0);
        let expiry = text(&row, 5).parse().ok();
        let unit = row[2].take();
        if row[1].is_some() {
            listed.add(text(&row, 1), unit, active, fee, expiry);
        }
    }
    Ok(listed)
}
