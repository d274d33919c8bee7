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
    /// The column with the item.
    pub(super) item: &'static str,
    /// Whether items are hex in TEXT, as against bytes in a BLOB.
    pub(super) hex: bool,
    /// All items, each with its keyset's id.
    pub(super) select: &'static str,
}

impl Notes {
    pub(super) fn table(&self) -> &'static str {
        self.table.name
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
        item: "y",
        hex: true,
        select: "SELECT id, y FROM proofs_used",
    },
    issued: Notes {
        table: Table {
            name: "promises",
            columns: &["id", "b_", "c_"],
        },
        item: "b_",
        hex: true,
        select: "SELECT id, b_ FROM promises WHERE c_ IS NOT NULL",
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
        item: "y",
        hex: false,
        select: "SELECT keyset_id, y FROM proof WHERE state = 'SPENT'",
    },
    issued: Notes {
        table: Table {
            name: "blind_signature",
            columns: &["keyset_id", "blinded_message", "c"],
        },
        item: "blinded_message",
        hex: false,
        select: "SELECT keyset_id, blinded_message FROM blind_signature WHERE c IS NOT NULL",
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
            if !there.iter().any(|name| name.eq_ignore_ascii_case(column)) {
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
