//! What a publisher keeps of a source, and how it goes on.

use core::ops::ControlFlow;
use std::collections::BTreeSet;

use nutfilter_mint::source::{ItemBatch, ItemSink, MintSource, Reading, SourceError, Watermark};
use nutfilter_mint::{KeysetId, Kind};

/// Items with their keysets.
pub(crate) type Items = BTreeSet<(String, Vec<u8>)>;

/// What came in one reading.
#[derive(Default)]
pub(crate) struct Noted {
    pub(crate) items: Items,
    /// How many came, repeats counted.
    pub(crate) count: u64,
    pub(crate) bad: Vec<String>,
}

impl ItemSink for Noted {
    fn items(&mut self, keyset: &KeysetId, items: &ItemBatch) -> ControlFlow<()> {
        for item in items.items() {
            self.items.insert((keyset.to_string(), item.to_vec()));
            self.count += 1;
        }
        ControlFlow::Continue(())
    }

    fn bad_row(&mut self, _: &KeysetId, error: SourceError) -> ControlFlow<()> {
        self.bad.push(error.to_string());
        ControlFlow::Continue(())
    }
}

impl Noted {
    /// A reading from where a watermark says.
    pub(crate) fn read(
        source: &mut impl MintSource,
        kind: Kind,
        since: Option<&Watermark>,
    ) -> Result<(Self, Reading), SourceError> {
        let mut noted = Self::default();
        let reading = source.read(kind, since, &mut noted)?;
        Ok((noted, reading))
    }

    /// All there is, counted.
    pub(crate) fn whole(source: &mut impl MintSource, kind: Kind) -> (Self, Reading) {
        let (noted, reading) = Self::read(source, kind, None).unwrap();
        assert_eq!(
            reading.total,
            Some(noted.count),
            "a whole reading is counted"
        );
        assert_eq!(noted.items.len() as u64, noted.count, "no item comes twice");
        (noted, reading)
    }
}

/// Keeps the items of a kind from reading to reading, as the publisher does.
#[derive(Default)]
pub(crate) struct Consumer {
    pub(crate) items: Items,
    watermark: Option<Watermark>,
    /// How often it was possible to go on, and how often not and why.
    pub(crate) increments: u32,
    pub(crate) started_over: Vec<String>,
}

impl Consumer {
    pub(crate) fn refresh(&mut self, source: &mut impl MintSource, kind: Kind) {
        if let Some(since) = self.watermark.take() {
            match Noted::read(source, kind, Some(&since)) {
                Ok((noted, reading)) => {
                    let mut items = self.items.clone();
                    items.extend(noted.items);
                    if reading.total == Some(items.len() as u64) {
                        self.items = items;
                        self.watermark = reading.watermark;
                        self.increments += 1;
                        return;
                    }
                    self.started_over.push("the count differs".to_owned());
                }
                Err(SourceError::StartOver { reason }) => self.started_over.push(reason),
                Err(error) => panic!("{error}"),
            }
        }
        let (noted, reading) = Noted::whole(source, kind);
        self.items = noted.items;
        self.watermark = reading.watermark;
    }

    /// The reason for the last start over.
    pub(crate) fn last_reason(&self) -> &str {
        self.started_over.last().map_or("", |reason| reason)
    }
}
