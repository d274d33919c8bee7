//! The commands for state filters.

use nutfilter_wallet::follow::{Plan, SequenceFormat};

use crate::globals::Globals;
use crate::output::utc;

/// Prints what will be downloaded.
pub(crate) fn announce(plan: &Plan, globals: &Globals) {
    let (name, limit) = match plan.format() {
        SequenceFormat::Segments => ("segments", ""),
        SequenceFormat::Blocks => ("blocks", "at most "),
    };
    let from = match plan.from() {
        0 => "the beginning".to_owned(),
        from => utc(from),
    };
    globals.note(format_args!(
        "{} {name} from {from} on, {limit}{} bytes; {:.2e} false matches expected",
        plan.objects(),
        indicatif::HumanCount(plan.bytes()),
        plan.false_matches()
    ));
}
