//! Measures full and incremental readings of a mint's SQLite database: `reading cdk 1000000 10000 0 /tmp/sample.db`
//! (mint, rows of each kind, added rows, number of issued rows that do not count yet, path of the sample).

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use nutfilter_mint::source::{
    DatabaseLocation, ItemBatch, ItemSink, MintSource, Reading, SourceError, SqliteSource,
    Watermark,
};
use nutfilter_mint::{KeysetId, MintType, NoteKind};
use nutfilter_sample::Sample;
use rusqlite::Connection;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mint, rows, more, pending, path] = &arguments[..] else {
        return Err("usage: reading cdk|nutshell ROWS MORE PENDING PATH".into());
    };
    let mint = MintType::ALL
        .into_iter()
        .find(|known| known.as_str() == mint);
    let mint = mint.ok_or("no such mint")?;
    let (rows, more, path): (u64, u64, &Path) = (rows.parse()?, more.parse()?, Path::new(path));
    let mut sample = Sample::of(mint, rows, rows);
    sample.write(path, &mut |_| ())?;
    let (table, signature) = match mint {
        MintType::Nutshell => ("promises", "c_"),
        _ => ("blind_signature", "c"),
    };
    // Spread over the table, like unpaid quotes.
    let pending: u64 = pending.parse()?;
    if let Some(every) = rows.checked_div(pending) {
        let update = format!("UPDATE {table} SET {signature} = NULL WHERE rowid % {every} = 0");
        Connection::open(path)?.execute_batch(&update)?;
    }
    let mut source = SqliteSource::open(&DatabaseLocation::from(path), None)?;
    for kind in NoteKind::ALL {
        let whole = timed(&mut source, kind, "whole", None)?;
        let whole = timed(&mut source, kind, "whole again", None).and(Ok(whole))?;
        let since = whole.watermark.as_ref();
        timed(&mut source, kind, "nothing new", since)?;
        sample.grow(path, kind, more)?;
        timed(&mut source, kind, "what is new", since)?;
    }
    Ok(())
}

fn timed(
    source: &mut SqliteSource,
    kind: NoteKind,
    what: &str,
    since: Option<&Watermark>,
) -> Result<Reading, SourceError> {
    let mut count = Count(0);
    let start = Instant::now();
    let reading = source.read(kind, since, &mut count)?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} {kind}, {what}: {} items in {:.1} ms, {:.2} million/s; a watermark of {} bytes",
        source.mint(),
        count.0,
        seconds * 1e3,
        count.0 as f64 / seconds / 1e6,
        reading.watermark.as_ref().map_or(0, |w| w.as_bytes().len())
    );
    Ok(reading)
}

struct Count(u64);

impl ItemSink for Count {
    fn items(&mut self, _: &KeysetId, items: &ItemBatch) -> ControlFlow<()> {
        self.0 += items.len() as u64;
        ControlFlow::Continue(())
    }

    fn bad_row(&mut self, _: &KeysetId, _: SourceError) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}
