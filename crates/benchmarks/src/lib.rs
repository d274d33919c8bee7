//! The rows that the benchmarks measure, how they are measured, and the records they write.
//!
//! A [`Row`] is one measurement: a call whose answer is asserted before anything is timed. Rows that
//! answer the same question form a [`Group`]. Three programs run the same rows: `benches/codec.rs` with
//! criterion, `benches/instructions.rs` with gungraun, and the program that adds rows of other libraries and writes
//! records (`benches/peers`). docs/benchmarking.md describes the method.
//!
//! A name is a path of four parts: stage, task, size, who; as in `decode/plain/1m/avx512`.

#![forbid(unsafe_code)]

pub mod fixture;
pub mod machine;
pub mod record;
pub mod rows;
pub mod schedule;

use std::hint::black_box;

use nutfilter::internals::SimdLevel;

pub use fixture::Fixture;

/// Rows that answer the same question of the same data.
pub struct Group<'a> {
    /// What is done: `decode`, `hash`, ...
    pub stage: &'static str,
    /// To what, or how: `plain`, `nut25`, ...
    pub task: String,
    /// Number of items, as in the name: `1m`.
    pub size: String,
    /// Units per call.
    pub n: u64,
    /// The unit of times: `item`, `target` or `call`.
    pub per: &'static str,
    /// In the order in which they were added.
    pub rows: Vec<Row<'a>>,
    selection: &'a Selection,
}

/// Whose code a row runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contender {
    /// `nutfilter-reference`: bit by bit.
    Reference,
    /// This library at one level.
    Ours(SimdLevel),
    /// Another library, or several combined.
    Peer {
        /// The last part of the row's name.
        name: &'static str,
        /// Whether it reads or writes the same bits. Rows of other formats compare designs.
        same_format: bool,
    },
}

impl Contender {
    /// A peer that reads or writes the same bits.
    pub const fn peer(name: &'static str) -> Self {
        let same_format = true;
        Self::Peer { name, same_format }
    }

    /// A peer with a format of its own.
    pub const fn other_format(name: &'static str) -> Self {
        let same_format = false;
        Self::Peer { name, same_format }
    }

    /// The last part of a row's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Ours(level) => level.name(),
            Self::Peer { name, .. } => name,
        }
    }

    /// Whether it reads or writes the bits of this format.
    pub const fn same_format(&self) -> bool {
        match self {
            Self::Reference | Self::Ours(_) => true,
            Self::Peer { same_format, .. } => *same_format,
        }
    }
}

/// Measures a call by running it exactly once.
pub type CallMeter<'m> = dyn FnMut(&mut dyn FnMut()) + 'm;

/// One measurement.
pub struct Row<'a> {
    /// Whose code it is.
    pub who: Contender,
    /// Size of the structure, if the row has one.
    pub bits_per_item: Option<f64>,
    /// Designed false-positive rate of the structure.
    pub false_positive_rate: Option<f64>,
    call: Box<dyn FnMut(&mut CallMeter<'_>) + Send + 'a>,
}

impl Row<'_> {
    /// Prepares one call and measures it. Preparation and cleanup are not measured.
    pub fn measure(&mut self, meter: &mut CallMeter<'_>) {
        (self.call)(meter);
    }

    /// Sets the size and the false-positive rate of the row's structure.
    pub fn structure(&mut self, bits_per_item: f64, false_positive_rate: f64) -> &mut Self {
        self.bits_per_item = Some(bits_per_item);
        self.false_positive_rate = Some(false_positive_rate);
        self
    }
}

impl<'a> Group<'a> {
    /// A group without rows.
    pub fn new(
        selection: &'a Selection,
        (stage, task, size): (&'static str, &str, &str),
        (n, per): (u64, &'static str),
    ) -> Self {
        Self {
            stage,
            task: task.to_owned(),
            size: size.to_owned(),
            n,
            per,
            rows: Vec::new(),
            selection,
        }
    }

    /// The first three parts of its rows' names.
    pub fn path(&self) -> String {
        format!("{}/{}/{}", self.stage, self.task, self.size)
    }

    /// Adds a row if it is selected. The call is made once, and its answer must be `right`.
    pub fn add<T>(
        &mut self,
        who: Contender,
        mut call: impl FnMut() -> T + Send + 'a,
        right: impl FnOnce(&T) -> bool,
    ) -> Option<&mut Row<'a>> {
        self.add_with(who, (), |()| (), move |()| call(), |(), answer| right(answer))
    }

    /// Adds a row whose call works on a `state`. `prepare` runs before each call and is not measured; nor is
    /// dropping the answer.
    pub fn add_with<S: Send + 'a, T>(
        &mut self,
        who: Contender,
        mut state: S,
        mut prepare: impl FnMut(&mut S) + Send + 'a,
        mut call: impl FnMut(&mut S) -> T + Send + 'a,
        right: impl FnOnce(&S, &T) -> bool,
    ) -> Option<&mut Row<'a>> {
        let name = format!("{}/{}", self.path(), who.name());
        if !self.selection.row(&name) {
            return None;
        }
        prepare(&mut state);
        let answer = call(&mut state);
        assert!(right(&state, &answer), "{name}: a wrong answer");
        drop(answer);
        let call = move |meter: &mut CallMeter<'_>| {
            prepare(&mut state);
            let mut answer = None;
            meter(&mut || answer = Some(black_box(call(black_box(&mut state)))));
        };
        self.rows.push(Row {
            who,
            bits_per_item: None,
            false_positive_rate: None,
            call: Box::new(call),
        });
        self.rows.last_mut()
    }
}

/// Selects the rows whose names begin with one of the prefixes, or all.
#[derive(Clone, Debug, Default)]
pub struct Selection(Vec<String>);

impl Selection {
    /// Selects rows by prefix; without prefixes, all rows.
    pub fn new(prefixes: Vec<String>) -> Self {
        Self(prefixes)
    }

    /// Whether a group with this path can contain a selected row.
    pub fn group(&self, path: &str) -> bool {
        let names = format!("{path}/");
        let may = |prefix: &String| names.starts_with(prefix) || prefix.starts_with(&names);
        self.0.is_empty() || self.0.iter().any(may)
    }

    fn row(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|prefix| name.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_selects_rows_and_their_groups() {
        let selection = Selection::new(vec!["decode/plain/1m".into(), "hash/nut25/1m/avx2".into()]);
        assert!(selection.group("decode/plain/1m") && selection.row("decode/plain/1m/avx2"));
        assert!(!selection.group("decode/plain/10m") && !selection.row("decode/plain/10m/avx2"));
        assert!(selection.group("hash/nut25/1m") && !selection.group("hash/nut23/1m"));
        assert!(selection.row("hash/nut25/1m/avx2") && !selection.row("hash/nut25/1m/reference"));
        assert!(Selection::default().group("any/thing/1") && Selection::default().row("any"));
    }

    #[test]
    #[should_panic(expected = "decode/plain/1/reference: a wrong answer")]
    fn a_wrong_answer_panics_before_anything_is_timed() {
        let selection = Selection::default();
        let mut group = Group::new(&selection, ("decode", "plain", "1"), (1, "item"));
        group.add(Contender::Reference, || 1, |&answer| answer == 2);
    }

    #[test]
    fn each_measurement_prepares_once_and_calls_once() {
        let selection = Selection::default();
        let mut group = Group::new(&selection, ("sort", "equal", "1"), (1, "item"));
        let prepare = |state: &mut (u32, u32)| state.0 += 1;
        let call = |state: &mut (u32, u32)| {
            state.1 += 1;
            assert_eq!(state.0, state.1);
        };
        group.add_with(Contender::Reference, (0, 0), prepare, call, |_, ()| true);
        let mut calls = 0;
        for _ in 0..3 {
            group.rows[0].measure(&mut |call| {
                call();
                calls += 1;
            });
        }
        assert_eq!(calls, 3);
    }
}
