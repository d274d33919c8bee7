//! nutshell's rows.

use nutfilter_mint::NoteKind;
use rusqlite::{Connection, params};

use super::history::Event;
use super::insert_all;

pub(super) const INSERT_KEYSET: &str = "
    INSERT INTO keysets (id, derivation_path, unit, active, input_fee_ppk)
    VALUES (?1, 'm/0''/0''/0''', ?2, ?3, ?4)";

pub(super) fn add_spent(connection: &mut Connection, keyset: &str, items: &[Vec<u8>]) {
    let sql = "INSERT INTO proofs_used (amount, id, c, secret, y)
         VALUES (1, ?1, '02', 'secret of ' || ?2, ?2)";
    insert_all(
        connection,
        sql,
        items.iter().map(|item| (keyset, hex(item))),
    );
}

pub(super) fn add_promises(
    connection: &mut Connection,
    keyset: &str,
    items: &[Vec<u8>],
    signed: bool,
) {
    let sql = "INSERT INTO promises (amount, id, b_, c_) VALUES (1, ?1, ?2, ?3)";
    let signature = signed.then_some("02");
    let rows = items.iter().map(|item| (keyset, hex(item), signature));
    insert_all(connection, sql, rows);
}

pub(super) fn apply(connection: &Connection, event: &Event) -> rusqlite::Result<()> {
    let (note, table, item) = match event {
        Event::Insert(note) | Event::Flip(note) | Event::Delete(note) => match note.kind {
            NoteKind::Spent => (note, "proofs_used", "y"),
            NoteKind::Issued => (note, "promises", "b_"),
        },
        _ => return Ok(()),
    };
    let hex = hex(&note.item);
    let count = match event {
        Event::Insert(_) if note.kind == NoteKind::Spent => connection
            .prepare(
                "INSERT INTO proofs_used (amount, id, c, secret, y) VALUES (?1, ?2, '02', '', ?3)",
            )?
            .execute(params![note.amount, note.keyset, hex])?,
        Event::Insert(_) => connection
            .prepare(
                "INSERT INTO promises (amount, id, b_, c_, signed_at) VALUES (?1, ?2, ?3, ?4,
                    IIF(?4 IS NULL, NULL, (SELECT ifnull(max(signed_at), 0) + 1 FROM promises)))",
            )?
            .execute(params![
                note.amount,
                note.keyset,
                hex,
                note.counts.then_some("02")
            ])?,
        Event::Flip(_) => connection
            .prepare(
                "UPDATE promises SET c_ = '02',
                    signed_at = (SELECT ifnull(max(signed_at), 0) + 1 FROM promises)
                 WHERE b_ = ?1",
            )?
            .execute([&hex])?,
        _ => connection
            .prepare(&format!("DELETE FROM {table} WHERE {item} = ?1"))?
            .execute([&hex])?,
    };
    assert_eq!(count, 1);
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
