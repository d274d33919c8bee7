//! The tables of the two mints as they are on Postgres, and whether they are there.

use std::collections::HashMap;

use super::session::Session;
use crate::Kind;
use crate::source::{MintType, SourceError};

/// Everything that this crate knows of one mint's database.
pub(super) struct Schema {
    pub(super) mint: MintType,
    pub(super) keysets: Table,
    spent: Notes,
    issued: Notes,
}

/// A table and the columns of it that are read.
pub(super) struct Table {
    pub(super) name: &'static str,
    columns: &'static [&'static str],
}

/// The notes of one kind.
pub(super) struct Notes {
    pub(super) table: Table,
    /// The column with the keyset's id.
    pub(super) keyset: &'static str,
    /// The column with the item.
    pub(super) item: &'static str,
    /// Whether items are hex in TEXT, as against bytes in a BYTEA.
    pub(super) hex: bool,
    /// What is true of a row that counts.
    pub(super) member: &'static str,
}

impl Notes {
    /// What the item's column should be.
    pub(super) fn item_type(&self) -> &'static str {
        if self.hex { "text" } else { "bytea" }
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
        member: "true",
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
    },
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
    },
};

/// The column that every table has, with the transaction that wrote the row.
const XMIN: &str = "xmin";

/// The tables of both mints that the connection's search path leads to.
pub(super) struct Found {
    database: String,
    tables: HashMap<String, FoundTable>,
}

struct FoundTable {
    /// What Postgres says it is; `r` is a table.
    kind: String,
    /// The type of each column, and whether it may be read.
    columns: HashMap<String, (String, bool)>,
}

impl Found {
    /// Looks up the tables of both mints.
    pub(super) fn look(session: &mut Session<'_>, database: String) -> Result<Self, SourceError> {
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
        let mut tables: HashMap<String, FoundTable> = HashMap::new();
        for row in session.rows("reading the schema", &sql)? {
            let mut row = row.into_iter().map(Option::unwrap_or_default);
            let mut next = || row.next().unwrap_or_default();
            let (name, kind, column) = (next(), next(), next());
            let table = tables.entry(name).or_insert_with(|| FoundTable {
                kind,
                columns: HashMap::new(),
            });
            table.columns.insert(column, (next(), next() == "t"));
        }
        Ok(Self { database, tables })
    }

    /// Tells the mint by its tables of notes. (The table of keysets would not do: wallets have one too.)
    pub(super) fn recognise(&self) -> Result<MintType, SourceError> {
        let mut present = Vec::new();
        let mut missing = Vec::new();
        for mint in MintType::ALL {
            let schema = Schema::of(mint);
            let notes = [&schema.spent, &schema.issued];
            let mut names = notes.iter().map(|notes| notes.table.name);
            match names.find(|&name| !self.tables.contains_key(name)) {
                None => present.push(mint),
                Some(table) => missing.push((mint, table)),
            }
        }
        let path = self.database.clone().into();
        match present[..] {
            [mint] => Ok(mint),
            [] => Err(SourceError::UnknownSchema { path, missing }),
            _ => Err(SourceError::AmbiguousSchema { path }),
        }
    }

    /// Holds the database against what will be asked of it, so that a changed schema or a missing privilege is
    /// named and not met as a failed statement.
    pub(super) fn verify(&self, schema: &Schema) -> Result<(), SourceError> {
        for table in schema.tables() {
            self.verify_table(schema.mint, table)?;
        }
        for notes in [&schema.spent, &schema.issued] {
            let table = &self.tables[notes.table.name];
            self.verify_type(notes, table, notes.item, notes.item_type())?;
            self.verify_type(notes, table, notes.keyset, "text")?;
        }
        Ok(())
    }

    /// Whether what is new in a table of notes can be told.
    pub(super) fn may_read_xmin(&self, notes: &Notes) -> bool {
        let table = self.tables.get(notes.table.name);
        let column = table.and_then(|table| table.columns.get(XMIN));
        column.is_some_and(|&(_, readable)| readable)
    }

    fn verify_table(&self, mint: MintType, table: &Table) -> Result<(), SourceError> {
        let name = table.name;
        let Some(found) = self.tables.get(name) else {
            let path = self.database.clone().into();
            return Err(SourceError::MissingTable {
                path,
                mint,
                table: name,
            });
        };
        for &column in table.columns {
            if !found.columns.contains_key(column) {
                let path = self.database.clone().into();
                return Err(SourceError::MissingColumn {
                    path,
                    mint,
                    table: name,
                    column,
                });
            }
        }
        if found.kind != "r" {
            return Err(SourceError::NotATable {
                database: self.database.clone(),
                table: name,
                found: found.kind.clone(),
            });
        }
        if table.columns.iter().any(|&column| !found.columns[column].1) {
            return Err(SourceError::NoPrivilege {
                database: self.database.clone(),
                table: name,
                columns: table.columns.join(", "),
            });
        }
        Ok(())
    }

    fn verify_type(
        &self,
        notes: &Notes,
        table: &FoundTable,
        column: &'static str,
        expected: &'static str,
    ) -> Result<(), SourceError> {
        let found = &table.columns[column].0;
        // In binary they are all the text itself.
        let same = expected == "text" && (found == "character varying" || found == "character");
        match found == expected || same {
            true => Ok(()),
            false => Err(SourceError::ColumnType {
                database: self.database.clone(),
                table: notes.table.name,
                column,
                found: found.clone(),
                expected,
            }),
        }
    }
}
