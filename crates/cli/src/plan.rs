//! `nutfilter plan`: estimates the size and the false-positive rate of a filter.

use std::io::Write;

use clap::Args;
use nutfilter::Params;
use serde_json::json;

use crate::error::CliError;
use crate::output::{self, size};
use crate::value_parsers;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    /// Number of items in the set, such as 1000000, 1e6 or 1M.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = value_parsers::count::<u32>)]
    items: u32,

    /// False-positive rate, such as 0.000001, 1e-6 or 1/784931.
    #[arg(long, value_name = "R", allow_hyphen_values = true, value_parser = value_parsers::rate, conflicts_with = "m")]
    rate: Option<f64>,

    /// Inverse false-positive rate: one look-up in M matches by chance [default: 784931].
    #[arg(long, value_name = "M", allow_negative_numbers = true, value_parser = value_parsers::count::<u64>)]
    m: Option<u64>,

    /// Number of look-ups for which to print the probability of at least one false positive.
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = value_parsers::count::<u64>, default_value_t = 1000)]
    lookups: u64,

    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
P is the best one for M; `build` chooses the same.

Examples:
  nutfilter plan --items 1000000
  nutfilter plan --items 1M --rate 1e-9 --lookups 10000
  nutfilter plan --items 5000 --m 10000 --json";

pub(crate) fn run(args: &PlanArgs) -> Result<(), CliError> {
    let params = match (args.rate, args.m) {
        (Some(rate), _) => Params::for_rate(rate)?,
        (None, Some(m)) => Params::with_best_p(m)?,
        (None, None) => Params::CASHU,
    };
    let bytes = params.expected_bytes(args.items);
    let base64_bytes = bytes.div_ceil(3) * 4;
    let chance = params.false_positive_chance(args.lookups);
    if args.json {
        return output::print_json(&json!({
            "items": args.items,
            "p": params.p(),
            "m": params.m(),
            "bytes": bytes,
            "base64_bytes": base64_bytes,
            "bits_per_item": params.bits_per_item(),
            "rate": params.false_positive_rate(),
            "lookups": args.lookups,
            "false_positive_chance": chance,
        }));
    }
    let mut out = output::stdout();
    writeln!(out, "items          {}", args.items)?;
    writeln!(out, "P              {}", params.p())?;
    writeln!(out, "M              {}", params.m())?;
    writeln!(out, "bytes          {}", size(bytes))?;
    writeln!(out, "base64 bytes   {}", size(base64_bytes))?;
    writeln!(out, "bits per item  {:.3}", params.bits_per_item())?;
    writeln!(out, "rate           1 in {} look-ups", params.m())?;
    writeln!(
        out,
        "chance of at least one false positive in {} look-ups: {}",
        args.lookups,
        percent(chance)
    )?;
    Ok(out.flush()?)
}

/// Formats a probability in percent with three significant digits, however small it is.
fn percent(chance: f64) -> String {
    let percent = chance * 100.0;
    if percent >= 0.001 || percent == 0.0 {
        // 100 - 12.3 - 1.23 - 0.123 - 0.0123: as many decimals as give three digits.
        let places = (2.0 - percent.max(f64::MIN_POSITIVE).log10().floor()).clamp(0.0, 5.0);
        format!("{percent:.*} %", places as usize)
    } else {
        format!("{percent:.2e} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_keep_three_digits() {
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(percent(0.123_456), "12.3 %");
        assert_eq!(percent(0.001_273_2), "0.127 %");
        assert_eq!(percent(1.2e-9), "1.20e-7 %");
        assert_eq!(percent(0.0), "0.00000 %");
    }
}
