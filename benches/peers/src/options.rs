//! What the command line asks for.

use std::path::PathBuf;
use std::time::Duration;

use nutfilter_benchmarks::Selection;
use nutfilter_benchmarks::fixture::Size;
use nutfilter_benchmarks::schedule::Effort;

use crate::space::Extent;

/// Items and strangers of a whole run's part about space.
const WHOLE: (u64, u64) = (1_000_000, 10_000_000);

/// The same of a quick one.
const QUICK: (u64, u64) = (100_000, 1_000_000);

const USAGE: &str = "\
usage: nutfilter-peers [--quick] [--sizes LIST] [--seconds S] [--only PREFIX]... [--space] [--output FILE]

    --sizes LIST     numbers of items, as in 100k,1m,10m (these unless said otherwise)
    --seconds S      time for the rows of one group (3)
    --quick          --sizes 100k --seconds 0.5, unless said otherwise, and smaller sets for space; about a minute
    --only PREFIX    rows whose names begin so, as in decode/plain/1m, and nothing else; may be repeated
    --space          what structures take and how often they are wrong, and nothing else (or beside --only)
    --output FILE    where the record goes (standard output); progress goes to standard error";

/// The command line, parsed.
pub(crate) struct Options {
    /// Whether anything is timed.
    pub(crate) rows: bool,
    pub(crate) sizes: Vec<Size>,
    pub(crate) effort: Effort,
    pub(crate) selection: Selection,
    /// What structures take, if it is wanted.
    pub(crate) space: Option<Extent>,
    pub(crate) output: Option<PathBuf>,
}

impl Options {
    /// Parses the arguments after the program's name; an error is what to tell the user.
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut sizes, mut seconds, mut output) = (None, None, None);
        let (mut quick, mut space, mut only) = (false, false, Vec::new());
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.ok_or_else(|| format!("{argument} needs a value\n{USAGE}"))
            };
            match argument.as_str() {
                "--quick" => quick = true,
                "--space" => space = true,
                "--sizes" => sizes = Some(value()?),
                "--seconds" => seconds = Some(value()?),
                "--only" => only.push(value()?),
                "--output" => output = Some(PathBuf::from(value()?)),
                _ => return Err(format!("unknown: {argument}\n{USAGE}")),
            }
        }
        let sizes = sizes
            .as_deref()
            .unwrap_or(if quick { "100k" } else { "100k,1m,10m" });
        let sizes: Result<Vec<Size>, _> = sizes.split(',').map(str::parse).collect();
        let seconds = seconds
            .as_deref()
            .unwrap_or(if quick { "0.5" } else { "3" });
        let seconds = seconds.parse().ok();
        let per_group = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let (n, strangers) = if quick { QUICK } else { WHOLE };
        let rows = !only.is_empty() || !space;
        let space = space || only.is_empty();
        Ok(Self {
            rows,
            space: space.then_some(Extent { n, strangers }),
            sizes: sizes.map_err(|error| format!("--sizes: {error}\n{USAGE}"))?,
            effort: Effort {
                per_group: per_group.ok_or_else(|| format!("--seconds: no time\n{USAGE}"))?,
                most_samples: 101,
                least_samples: 3,
            },
            selection: Selection::new(only),
            output,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn quick_gives_way_to_what_is_said() {
        let names = |line| {
            let sizes = parse(line).unwrap().sizes;
            sizes.into_iter().map(|size| size.name).collect::<Vec<_>>()
        };
        assert_eq!(names(""), ["100k", "1m", "10m"]);
        assert_eq!(names("--quick"), ["100k"]);
        assert_eq!(names("--sizes 7,2k --quick"), ["7", "2k"]);
        let seconds = |line| parse(line).unwrap().effort.per_group.as_secs_f64();
        assert_eq!(seconds("--quick"), 0.5);
        assert_eq!(seconds("--quick --seconds 0.01"), 0.01);
    }

    #[test]
    fn what_is_named_is_measured_and_all_where_nothing_is() {
        let parts = |line| {
            let options = parse(line).unwrap();
            (options.rows, options.space.map(|extent| extent.n))
        };
        assert_eq!(parts(""), (true, Some(1_000_000)));
        assert_eq!(parts("--quick"), (true, Some(100_000)));
        assert_eq!(parts("--space --quick"), (false, Some(100_000)));
        assert_eq!(parts("--only decode/"), (true, None));
        assert_eq!(parts("--only decode/ --space"), (true, Some(1_000_000)));
    }

    #[test]
    fn what_is_not_understood_is_an_error_that_says_how() {
        for line in [
            "--sizes",
            "--sizes x",
            "--seconds -1",
            "--seconds inf",
            "decode",
            "--quack",
        ] {
            let error = parse(line)
                .err()
                .unwrap_or_else(|| panic!("{line} was taken"));
            assert!(error.contains("usage"), "{line}: {error}");
        }
    }
}
