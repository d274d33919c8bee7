//! The tables of the two mints: what they are called, what is asked of them, and whether they are there.

use std::path::Path;

use rusqlite::Connection;

use crate::Kind;
use crate::source::{MintType, SourceError};

/// Everything that this crate knows of one mint's database.
pub(super) struct Schema {
    pub(super) mint: MintType,
    keysets: Table,
    spent: Notes,
    issued: Notes,
    /// All keysets with their description: id, unit, active, fee.
    pub(super) list_keysets: &'static str,
}

/// A table and the columns of it that are read.
struct Table {
    name: &'static str,
    columns: &'static [&'static str],
}

/// The notes of one kind.
pub(super) struct Notes {
    table: Table,
    /// The column with the keyset's id.
    pub(super) keyset: &'static str,
    /// The column with the item; unique.
    pub(super) item: &'static str,
    /// Whether items are hex in TEXT, as against bytes in a BLOB.
    pub(super) hex: bool,
    /// Whether a row counts: whether its note is spent, its message signed. A row that does not may do so later.
    pub(super) member: &'static str,
    /// The column that says when a row came to count, in seconds, if there is one. It may be absent, and NULL.
    since: Option<&'static str>,
    /// Where the mint itself keeps the sum of the amounts of each keyset, if it does.
    pub(super) totals: Option<Totals>,
}

/// A sum that the mint keeps for each keyset. No filter depends on it, and it may be absent.
pub(super) struct Totals {
    table: Table,
    /// The column of the notes' table with what adds up to it.
    pub(super) amount: &'static str,
}

impl Notes {
    pub(super) fn table(&self) -> &'static str {
        self.table.name
    }

    /// When a row came to count, if this database says so; an expression in any case.
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

    /// The totals, if this database has what it takes to compare with them.
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

impl Totals {
    pub(super) fn select(&self) -> String {
        let Table { name, columns } = &self.table;
        format!("SELECT {} FROM {name}", columns.join(", "))
    }
}

impl Schema {
    pub(super) fn notes(&self, kind: Kind) -> &Notes {
        match kind {
            Kind::Spent => &self.spent,
            Kind::Issued => &self.issued,
        }
    }

    pub(super) fn of(mint: MintType) -> &'static Schema {
        match mint {
            MintType::Nutshell => &NUTSHELL,
            MintType::Cdk => &CDK,
        }
    }

    fn tables(&self) -> [&Table; 3] {
        [&self.spent.table, &self.issued.table, &self.keysets]
    }
}

/// A row of `proofs_used` means spent. A promise is inserted before it is signed, and may be deleted
/// unsigned: only a signed one was issued.
const NUTSHELL: Schema = Schema {
    mint: MintType::Nutshell,
    keysets: Table {
        name: "keysets",
        columns: &["id", "unit", "active", "input_fee_ppk"],
    },
    spent: Notes {
        table: Table {
            name: "proofs_used",
            columns: &["id", "y"],
        },
        keyset: "id",
        item: "y",
        hex: true,
        member: "1",
        since: None,
        totals: None,
    },
    issued: Notes {
        table: Table {
            name: "promises",
            columns: &["id", "b_", "c_"],
        },
        keyset: "id",
        item: "b_",
        hex: true,
        member: "c_ IS NOT NULL",
        since: Some("signed_at"),
        totals: None,
    },
    list_keysets: "SELECT id, unit, active, input_fee_ppk FROM keysets",
};

/// A proof passes through other states before `SPENT`, and may leave them for good without it.
const CDK: Schema = Schema {
    mint: MintType::Cdk,
    keysets: Table {
        name: "keyset",
        columns: &["id", "unit", "active", "input_fee_ppk"],
    },
    spent: Notes {
        table: Table {
            name: "proof",
            columns: &["keyset_id", "y", "state"],
        },
        keyset: "keyset_id",
        item: "y",
        hex: false,
        member: "state = 'SPENT'",
        since: None,
        totals: Some(Totals {
            table: Table {
                name: "keyset_amounts",
                columns: &["keyset_id", "total_redeemed"],
            },
            amount: "amount",
        }),
    },
    issued: Notes {
        table: Table {
            name: "blind_signature",
            columns: &["keyset_id", "blinded_message", "c"],
        },
        keyset: "keyset_id",
        item: "blinded_message",
        hex: false,
        member: "c IS NOT NULL",
        since: Some("signed_time"),
        totals: Some(Totals {
            table: Table {
                name: "keyset_amounts",
                columns: &["keyset_id", "total_issued"],
            },
            amount: "amount",
        }),
    },
    list_keysets: "SELECT id, unit, active, input_fee_ppk FROM keyset",
};

/// Tells the mint by its tables of notes. (The table of keysets would not do: wallets have one too.)
pub(super) fn recognise(connection: &Connection, path: &Path) -> Result<MintType, SourceError> {
    let mut present = Vec::new();
    let mut missing = Vec::new();
    for mint in MintType::ALL {
        let schema = Schema::of(mint);
        let mut lacking = None;
        for notes in [&schema.spent, &schema.issued] {
            if columns(connection, path, notes.table.name)?.is_empty() {
                lacking = lacking.or(Some(notes.table.name));
            }
        }
        match lacking {
            None => present.push(mint),
            Some(table) => missing.push((mint, table)),
        }
    }
    match present[..] {
        [mint] => Ok(mint),
        [] => Err(SourceError::UnknownSchema {
            path: path.into(),
            missing,
        }),
        _ => Err(SourceError::AmbiguousSchema { path: path.into() }),
    }
}

/// Holds the database against what will be asked of it, so that a changed schema is named and not met as
/// a syntax error.
pub(super) fn verify(
    connection: &Connection,
    path: &Path,
    schema: &Schema,
) -> Result<(), SourceError> {
    for table in schema.tables() {
        let there = columns(connection, path, table.name)?;
        if there.is_empty() {
            let (path, mint, table) = (path.into(), schema.mint, table.name);
            return Err(SourceError::MissingTable { path, mint, table });
        }
        for &column in table.columns {
            if !has(&there, column) {
                let (path, mint, table) = (path.into(), schema.mint, table.name);
                return Err(SourceError::MissingColumn {
                    path,
                    mint,
                    table,
                    column,
                });
            }
        }
    }
    Ok(())
}

fn has(columns: &[String], column: &str) -> bool {
    columns.iter().any(|name| name.eq_ignore_ascii_case(column))
}

/// The columns of a table; none if there is no such table.
fn columns(connection: &Connection, path: &Path, table: &str) -> Result<Vec<String>, SourceError> {
    let read = || -> rusqlite::Result<Vec<String>> {
        connection
            .prepare("SELECT name FROM pragma_table_info(?1)")?
            .query_map([table], |row| row.get(0))?
            .collect()
    };
    read().map_err(|source| super::sqlite_error(path, "reading the schema", source))
}
