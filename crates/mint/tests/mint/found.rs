//! What a reading passes on.

use core::ops::ControlFlow;
use std::collections::{BTreeMap, BTreeSet};

use nutfilter_mint::KeysetId;
use nutfilter_mint::source::{ItemBatch, ItemSink, SourceError};

/// What readings passed on. After each batch `each` is called, if it is there.
#[derive(Default)]
pub(crate) struct Found<'a> {
    pub(crate) items: BTreeMap<Option<KeysetId>, BTreeSet<Vec<u8>>>,
    /// The number of items, those that came twice too.
    pub(crate) passed: usize,
    pub(crate) bad: Vec<(Option<KeysetId>, SourceError)>,
    each: Option<Box<dyn FnMut() -> ControlFlow<()> + 'a>>,
}

impl<'a> Found<'a> {
    pub(crate) fn with(each: impl FnMut() -> ControlFlow<()> + 'a) -> Self {
        let each: Option<Box<dyn FnMut() -> _>> = Some(Box::new(each));
        Self { each, ..Self::default() }
    }

    /// Calls this at the first batch.
    pub(crate) fn at_first(action: impl FnOnce() + 'a) -> Self {
        let mut action = Some(action);
        Self::with(move || {
            action.take().into_iter().for_each(|action| action());
            ControlFlow::Continue(())
        })
    }
}

impl ItemSink for Found<'_> {
    fn items(&mut self, keyset: Option<&KeysetId>, items: &ItemBatch) -> ControlFlow<()> {
        let known = self.items.entry(keyset.cloned()).or_default();
        known.extend(items.items().map(<[u8]>::to_vec));
        self.passed += items.len();
        self.each.as_mut().map_or(ControlFlow::Continue(()), |each| each())
    }

    fn bad_row(&mut self, keyset: Option<&KeysetId>, error: SourceError) -> ControlFlow<()> {
        self.bad.push((keyset.cloned(), error));
        ControlFlow::Continue(())
    }
}
