//! Machines, compilers, method and bias, in words.

use maud::{Markup, html};
use nutfilter_benchmarks::record::Record;

use super::figure::Figure;
use super::table::{Cell, Row, Table};
use crate::number::significant;
use crate::records::{Kept, day, short_commit};

/// How it was measured, what that favours, and on what.
#[must_use]
pub fn draw(records: &[Kept]) -> Markup {
    html! {
        (words())
        (machines(records).draw())
    }
}

fn words() -> Markup {
    html! {
        h3 { "Method" }
        ul {
            li { "Every answer is asserted before it is timed, against a slow implementation that shares no code with the library. A row that checks its input must also refuse it with one note less." }
            li { "Notes are 33 pseudo-random bytes from a fixed seed; P = 19, M = 784,931, the parameters of NUT-25, NUT-23 and BIP158. One thread unless a name says more." }
            li { "Rows that answer the same question are measured in turns, a sample of each in every round, so that a machine that is slower for a minute is slower for all. A sample of a quick call is a mean over half a millisecond; a row has 3 to 101 samples." }
            li { "Times differ between machines, and between hours on a shared one: hold the ratios, of rows from one run. Charts have medians; minima are in the tables." }
            li { "Instruction counts are taken under callgrind. They depend on the commit, the compiler and the C library, and on nothing else that the machine does; AVX-512 cannot be counted there." }
            li { "The limit is the time to move the bytes with the plainest loop: to read the filter (decode, match), to read the notes and write as many bytes as the filter has (build), to load from one random place of it (look-up)." }
        }
        h3 { "Bias" }
        ul {
            li { strong { "In our favour: " } "sets and parameters are those that the library was made for. Everything is in memory, and caches are as warm as the size allows; a build that reads a database spends most of its time there. Filter libraries remove equal notes first, which takes most of their build time. The levels shown are those of this machine: without AVX-512 or AVX2, look at the lines below." }
            li { strong { "Against us: " } "the best parts put together get their words laid out before the clock starts, check less of what they read, and hash with the faster of two hashes. Other formats are asked with the fastest hash there is." }
            li { strong { "Another matter: " } "Elias-Fano, binary fuse and Bloom filters are other formats, there to compare designs; a wallet cannot be sent one in place of a filter." }
            li { strong { "Left out: " } "implementations in other languages, cold caches, and hardware counters, which virtual machines hide." }
        }
        p {
            "More of it is in " a href="../benchmarking.md" { "docs/benchmarking.md" } "; how to make this page, and to compare two records, in "
            a href="../dashboard.md" { "docs/dashboard.md" } "."
        }
    }
}

fn machines(records: &[Kept]) -> Figure {
    Figure {
        id: "records".to_owned(),
        title: "Records, machines and compilers".to_owned(),
        caption: html! {
            p { "Every record that this page was made from, the newest last. A + after a commit: files had been changed since." }
        },
        legend: Vec::new(),
        drawings: None,
        table: Table {
            columns: vec![
                "record",
                "date",
                "commit",
                "parts",
                "CPU",
                "CPUs",
                "used",
                "caches",
                "memory, GiB",
                "hypervisor",
                "system",
                "huge pages",
                "compiler",
                "flags",
                "levels",
            ],
            rows: records
                .iter()
                .map(|kept| row(&kept.path, &kept.record))
                .collect(),
        },
        choices: Vec::new(),
    }
}

fn row(path: &str, record: &Record) -> Row {
    let machine = &record.machine;
    let gibibytes = machine.memory as f64 / f64::from(1 << 30);
    let cells = vec![
        Cell::text(path),
        Cell::text(day(record)),
        Cell::text(short_commit(record)),
        Cell::text(parts(record)),
        Cell::text(format!("{} ({})", machine.cpu, machine.cpu_version)),
        Cell::number(machine.cpus as f64, machine.cpus.to_string()),
        Cell::text(machine.affinity.clone()),
        Cell::text(machine.caches.join(", ")),
        Cell::known((machine.memory > 0).then_some(gibibytes), |memory| {
            significant(memory, 3)
        }),
        Cell::text(machine.hypervisor.clone()),
        Cell::text(format!("{}, {}", machine.os, machine.kernel)),
        Cell::text(machine.huge_pages.clone()),
        Cell::text(record.build.rustc.clone()),
        Cell::text(record.build.rustflags.clone()),
        Cell::text(record.levels.join(", ")),
    ];
    Row {
        series: None,
        cells,
    }
}

/// What a record has.
fn parts(record: &Record) -> String {
    let mut parts = Vec::new();
    if !record.rows.is_empty() {
        parts.push(format!("{} rows", record.rows.len()));
    }
    if let Some(instructions) = &record.instructions {
        parts.push(format!("{} counts", instructions.counts.len()));
    }
    if !record.space.is_empty() {
        parts.push(format!("{} structures", record.space.len()));
    }
    if record.names.is_some() {
        parts.push("names".to_owned());
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    #[test]
    fn every_record_is_listed_with_its_parts() {
        let mut counted = made::later("fedcba9876", 1);
        counted.rows.clear();
        counted.space.clear();
        counted.names = None;
        counted.source.dirty = true;
        let table = machines(&made::kept(vec![made::record(), counted])).table;
        assert_eq!(table.rows.len(), 2);
        assert_eq!(
            table.rows[0].cells[3].shown,
            "53 rows, 3 counts, 6 structures, names"
        );
        assert_eq!(table.rows[1].cells[3].shown, "3 counts");
        assert_eq!(table.rows[1].cells[2].shown, "fedcba9+");
    }
}
