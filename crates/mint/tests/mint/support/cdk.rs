//! The rows of the Cashu Development Kit.

use nutfilter_mint::NoteKind;
use rusqlite::{Connection, params};

use super::history::Event;
use super::insert_all;

pub(super) const INSERT_KEYSET: &str = "
    INSERT INTO keyset (id, unit, active, input_fee_ppk, valid_from, derivation_path)
    VALUES (?1, ?2, ?3, ?4, 1700000000, '0''/0''/0''')";

pub(super) fn add_proofs(
    connection: &mut Connection,
    keyset: &str,
    items: &[Vec<u8>],
    state: &str,
) {
    let sql = "INSERT INTO proof (y, amount, keyset_id, secret, c, state)
         VALUES (?1, 1, ?2, 'secret', x'02', ?3)";
    insert_all(
        connection,
        sql,
        items.iter().map(|item| (item, keyset, state)),
    );
}

pub(super) fn add_signatures(
    connection: &mut Connection,
    keyset: &str,
    items: &[Vec<u8>],
    signed: bool,
) {
    let sql = "INSERT INTO blind_signature (blinded_message, amount, keyset_id, c)
         VALUES (?1, 1, ?2, ?3)";
    let signature = signed.then_some([2_u8; 33]);
    let rows = items.iter().map(|item| (item, keyset, signature));
    insert_all(connection, sql, rows);
}

pub(super) fn apply(connection: &Connection, event: &Event) -> rusqlite::Result<()> {
    let (note, table, item) = match event {
        Event::Insert(note) | Event::Flip(note) | Event::Delete(note) => match note.kind {
            NoteKind::Spent => (note, "proof", "y"),
            NoteKind::Issued => (note, "blind_signature", "blinded_message"),
        },
        _ => return Ok(()),
    };
    match event {
        Event::Insert(_) if note.kind == NoteKind::Spent => {
            // The states of an unspent proof.
            let states = ["PENDING", "UNSPENT", "RESERVED"];
            let state = match note.counts {
                true => "SPENT",
                false => states[usize::from(note.item[note.item.len() - 1]) % states.len()],
            };
            connection
                .prepare(
                    "INSERT INTO proof (y, amount, keyset_id, secret, c, state)
                     VALUES (?1, ?2, ?3, 'secret', x'02', ?4)",
                )?
                .execute(params![note.item, note.amount, note.keyset, state])?;
        }
        Event::Insert(_) => {
            let signature = note.counts.then_some([2_u8; 33]);
            connection
                .prepare(
                    "INSERT INTO blind_signature (blinded_message, amount, keyset_id, c)
                     VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(params![note.item, note.amount, note.keyset, signature])?;
        }
        Event::Flip(_) => {
            let how = match note.kind {
                NoteKind::Spent => "state = 'SPENT'",
                NoteKind::Issued => "c = x'02'",
            };
            connection
                .prepare(&format!("UPDATE {table} SET {how} WHERE {item} = ?1"))?
                .execute([&note.item])?;
        }
        _ => {
            connection
                .prepare(&format!("DELETE FROM {table} WHERE {item} = ?1"))?
                .execute([&note.item])?;
            return Ok(());
        }
    }
    if note.counts {
        let total = match note.kind {
            NoteKind::Spent => "total_redeemed",
            NoteKind::Issued => "total_issued",
        };
        connection
            .prepare(&format!(
                "INSERT INTO keyset_amounts (keyset_id, {total}) VALUES (?1, ?2)
                 ON CONFLICT (keyset_id) DO UPDATE SET {total} = {total} + excluded.{total}"
            ))?
            .execute(params![note.keyset, note.amount])?;
    }
    Ok(())
}
