//! The tables of the two mints: their names, the columns that are read, and the rows that count.
//!
//! A mint's tables are the same on SQLite and Postgres, except for the column types. The queries that check tables
//! and privileges are in the `schema` module of each database.

use core::fmt::Display;

use nutfilter_cashu::NoteKind;

use super::{ItemBatch, MintType, Result, RowFault, SourceError};

/// Everything that this crate knows about one mint's database.
pub(super) struct Schema {
    pub(super) mint: MintType,
    /// Its columns are [`KEYSET_COLUMNS`].
    pub(super) keysets: SqlTable,
    /// Their column with the end of a keyset, which may be missing.
    pub(super) final_expiry: &'static str,
    pub(super) spent: NoteTable,
    pub(super) issued: NoteTable,
    /// SQL for the migrations that the mint recorded. The table may be missing.
    pub(super) migrations: &'static str,
}

/// A table and the columns that are read.
pub(super) struct SqlTable {
    pub(super) name: &'static str,
    pub(super) columns: &'static [&'static str],
}

/// The notes of one kind.
pub(super) struct NoteTable {
    pub(super) table: SqlTable,
    /// The column with the keyset's id.
    pub(super) keyset: &'static str,
    /// The column with the item; unique.
    pub(super) item: &'static str,
    /// Columns with a time, in Unix seconds on SQLite, at which a counting row did not count yet, or began to. Any may be missing.
    pub(super) times: &'static [&'static str],
    /// Whether items are hex text rather than bytes.
    pub(super) hex: bool,
    /// Which rows count.
    pub(super) counts: Counts,
}

/// Which rows of a table count: the note is spent, or the message is signed. Other rows may count later.
pub(super) enum Counts {
    Every,
    /// Those with a value in this column.
    With(&'static str),
    /// Those with this state; and the other states that are known.
    State(&'static str, &'static str, &'static [&'static str]),
}

impl NoteTable {
    /// SQL for the columns that are read: the keyset, the item, and 1 if a row counts or 0 if it does not; NULL if its
    /// state is not known.
    pub(super) fn columns(&self) -> String {
        let (keyset, item, [counts, waits]) = (self.keyset, self.item, self.conditions());
        let counts = format!("CASE WHEN {counts} THEN 1 WHEN {waits} THEN 0 END");
        format!("{keyset} AS keyset, {item} AS item, {counts} AS counts")
    }

    /// SQL for the keyset, and for the item if a row counts; otherwise NULL.
    pub(super) fn counting_columns(&self) -> String {
        let (keyset, item, [counts, _]) = (self.keyset, self.item, self.conditions());
        format!("{keyset}, CASE WHEN {counts} THEN {item} END")
    }

    /// SQL that is true if a row counts, and if it does not.
    fn conditions(&self) -> [String; 2] {
        match self.counts {
            Counts::Every => ["TRUE", "FALSE"].map(str::to_owned),
            Counts::With(column) => ["NOT NULL", "NULL"].map(|is| format!("{column} IS {is}")),
            Counts::State(column, counting, others) => [
                format!("{column} = '{counting}'"),
                format!("{column} IN ('{}')", others.join("', '")),
            ],
        }
    }

    /// Adds an item that is stored as hex text or as bytes, or returns what is wrong with it.
    pub(super) fn push(&self, batch: &mut ItemBatch, stored: &[u8]) -> Result<(), RowFault> {
        let length = stored.len();
        match self.hex {
            _ if length == 0 => Err(RowFault::Empty),
            true if !batch.push_hex(stored) => Err(RowFault::NotHex(length)),
            true => Ok(()),
            false => {
                batch.push(stored);
                Ok(())
            }
        }
    }
}

/// The columns that describe a keyset, in the order of a listing.
const KEYSET_COLUMNS: &[&str] = &["id", "unit", "active", "input_fee_ppk"];

/// A row of `proofs_used` means spent. A promise is inserted before it is signed, and may be deleted unsigned. Only
/// a signed promise counts as issued.
const NUTSHELL: Schema = Schema {
    mint: MintType::Nutshell,
    keysets: SqlTable::new("keysets", KEYSET_COLUMNS),
    final_expiry: "final_expiry",
    spent: NoteTable {
        table: SqlTable::new("proofs_used", &["id", "y"]),
        keyset: "id",
        item: "y",
        times: &["created"],
        hex: true,
        counts: Counts::Every,
    },
    issued: NoteTable {
        table: SqlTable::new("promises", &["id", "b_", "c_"]),
        keyset: "id",
        item: "b_",
        times: &["signed_at", "created"],
        hex: true,
        counts: Counts::With("c_"),
    },
    migrations: "SELECT group_concat(db || ' ' || version) FROM dbversions",
};

/// A proof passes through other states before `SPENT`. It may also leave these states without ever being spent.
const CDK: Schema = Schema {
    mint: MintType::Cdk,
    keysets: SqlTable::new("keyset", KEYSET_COLUMNS),
    final_expiry: "valid_to",
    spent: NoteTable {
        table: SqlTable::new("proof", &["keyset_id", "y", "state"]),
        keyset: "keyset_id",
        item: "y",
        times: &["created_time"],
        hex: false,
        counts: Counts::State("state", "SPENT", &["UNSPENT", "PENDING", "RESERVED", "UNKNOWN"]),
    },
    issued: NoteTable {
        table: SqlTable::new("blind_signature", &["keyset_id", "blinded_message", "c"]),
        keyset: "keyset_id",
        item: "blinded_message",
        times: &["signed_time", "created_time"],
        hex: false,
        counts: Counts::With("c"),
    },
    migrations: "SELECT count(*) || ' ' || max(name) FROM migrations",
};

impl Schema {
    pub(super) fn of(mint: MintType) -> &'static Schema {
        match mint {
            MintType::Nutshell => &NUTSHELL,
            MintType::Cdk => &CDK,
        }
    }

    pub(super) fn notes(&self, kind: NoteKind) -> &NoteTable {
        match kind {
            NoteKind::Spent => &self.spent,
            NoteKind::Issued => &self.issued,
        }
    }

    /// Selects the keysets: their columns and, if `has_end`, when they end.
    pub(super) fn list_keysets(&self, has_end: bool) -> String {
        let end = if has_end { self.final_expiry } else { "NULL" };
        let SqlTable { name, columns } = &self.keysets;
        format!("SELECT {}, {end} AS ending FROM {name}", columns.join(", "))
    }

    /// The required tables.
    pub(super) fn tables(&self) -> [&SqlTable; 3] {
        [&self.spent.table, &self.issued.table, &self.keysets]
    }

    /// Checks that a table has all columns that will be read. `has_column` tells whether a column exists; it is
    /// `None` if the table does not exist.
    pub(super) fn verify_columns(
        &self,
        table: &SqlTable,
        database: impl Display,
        has_column: Option<impl Fn(&str) -> bool>,
    ) -> Result<()> {
        let (mint, name) = (self.mint, table.name);
        let refused = |reason| Err(SourceError::schema(&database, reason));
        let Some(has_column) = has_column else {
            return refused(format!("not a {mint} database: table `{name}` is missing"));
        };
        match table.columns.iter().find(|&&column| !has_column(column)) {
            None => Ok(()),
            Some(column) => refused(format!(
                "unsupported {mint} schema: column `{column}` of table `{name}` is missing"
            )),
        }
    }
}

impl SqlTable {
    const fn new(name: &'static str, columns: &'static [&'static str]) -> Self {
        Self { name, columns }
    }
}

/// Detects the mint by its tables of notes. The table of keysets is not enough, because wallets have one too.
pub(super) fn recognise(
    database: impl Display,
    is_there: impl Fn(&str) -> Result<bool>,
) -> Result<MintType> {
    let (mut present, mut missing) = (vec![], vec![]);
    for mint in MintType::ALL {
        let schema = Schema::of(mint);
        let mut lacking = None;
        for notes in [&schema.spent, &schema.issued] {
            if !is_there(notes.table.name)? {
                lacking = lacking.or(Some(notes.table.name));
            }
        }
        match lacking {
            None => present.push(mint),
            Some(table) => missing.push(format!("for {mint} table `{table}` is missing")),
        }
    }
    let fault = match present[..] {
        [mint] => return Ok(mint),
        [] => format!("unknown mint schema: {}", missing.join(", ")),
        _ => "contains the tables of more than one mint; set the mint type".to_owned(),
    };
    Err(SourceError::schema(database, fault))
}
