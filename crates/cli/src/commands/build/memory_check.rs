//! Whether the set of a file fits into memory, before the file is read.

use std::fs::{self, File};
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::Path;

use crate::io::output::count;
use nutfilter::Params;

use crate::error::CliError;
use crate::io::items::is_stdin;

/// Length of the part of a file whose lines are counted, in bytes.
const SAMPLE: u64 = 64 << 10;

/// About the number of items in a file. It is exact for records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Expected {
    pub(super) items: u64,
    is_exact: bool,
}

impl Expected {
    /// Counts the records of a file, or estimates the number of its lines from the first ones. `None` for a pipe, and for
    /// a file that cannot be read or has no line.
    pub(super) fn of_file(path: &Path, record_bytes: Option<NonZeroUsize>) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        if is_stdin(path) || !metadata.is_file() {
            return None;
        }
        let bytes = metadata.len();
        if let Some(width) = record_bytes {
            return Some(Self { items: bytes / width.get() as u64, is_exact: true });
        }
        let mut sample = Vec::new();
        let read = File::open(path).ok()?.take(SAMPLE).read_to_end(&mut sample);
        read.ok()?;
        // Whole lines only. There are at most as many as bytes, so the quotient fits.
        let sampled = memchr::memrchr(b'\n', &sample)? + 1;
        let lines = memchr::memchr_iter(b'\n', &sample).count();
        let items = u128::from(bytes) * lines as u128 / sampled as u128;
        Some(Self { items: u64::try_from(items).ok()?, is_exact: false })
    }

    /// Checks that a filter can hold the items, and that there is enough memory for `item_bytes` per item and the filter.
    pub(super) fn check(self, params: Params, item_bytes: u64) -> Result<(), CliError> {
        self.check_within(available(), params, item_bytes)
    }

    fn check_within(
        self,
        available: Option<u64>,
        params: Params,
        item_bytes: u64,
    ) -> Result<(), CliError> {
        let Self { items, is_exact } = self;
        let about = if is_exact { "" } else { "about " };
        let most = u64::from(u32::MAX);
        if is_exact && items > most {
            return Err(CliError::failed(format_args!(
                "{items} items are too many: a filter holds at most {most}"
            )));
        }
        let n = u32::try_from(items).unwrap_or(u32::MAX);
        let needed = items.saturating_mul(item_bytes);
        let needed = needed.saturating_add(params.expected_bytes(n));
        match available {
            Some(available) if available < needed => Err(CliError::failed(format_args!(
                "{about}{items} items need {} MiB of memory, and {} MiB are available; use a machine with more memory, \
                 or Spark (nutfilter.engines.spark in Python)",
                count(needed.div_ceil(1 << 20)),
                count(available >> 20)
            ))),
            _ => Ok(()),
        }
    }
}

/// The memory that this process can get at most, in bytes: free memory and swap space, the limits of its control group,
/// and its own limit. `None` if the system does not tell.
fn available() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let free = read("/proc/meminfo").and_then(|text| free_memory(&text));
    #[cfg(unix)]
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current;
    #[cfg(not(unix))]
    let limit = None;
    let group = read("/proc/self/cgroup");
    let group = group.as_deref().and_then(|text| text.strip_prefix("0::"));
    let group = Path::new(group.unwrap_or_default().trim_end());
    let groups = group.ancestors().filter_map(|group| {
        let group = group.strip_prefix("/").ok()?;
        let limit = Path::new("/sys/fs/cgroup").join(group).join("memory.max");
        fs::read_to_string(limit).ok()?.trim_end().parse().ok()
    });
    groups.chain(free).chain(limit).min()
}

/// The sum of two lines of `/proc/meminfo`, in bytes.
fn free_memory(text: &str) -> Option<u64> {
    let line = |name: &str| -> Option<u64> {
        let mut lines = text.lines();
        let kib = lines.find_map(|line| line.strip_prefix(name)?.strip_suffix(" kB"))?;
        kib.trim().parse().ok()
    };
    let kib = line("MemAvailable:")?.checked_add(line("SwapFree:").unwrap_or(0))?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_memory_is_an_error_with_its_numbers() {
        let check = |items, available, item_bytes| {
            let is_exact = true;
            let expected = Expected { items, is_exact };
            expected.check_within(available, Params::CASHU, item_bytes)
        };
        // 8 bytes per item, and 21.05 bits in the filter.
        let needed = 8_000_000 + 2_631_549;
        check(1_000_000, Some(needed), 8).expect("enough memory");
        check(1_000_000, None, 8).expect("unknown memory");
        let error = check(1_000_000, Some(needed - 1), 8).expect_err("a byte less");
        let words = "1000000 items need 11 MiB of memory, and 10 MiB are available; ";
        assert!(error.to_string().starts_with(words), "{error}");
        check(u64::from(u32::MAX), Some(u64::MAX), 48).expect("enough memory");
        let error = check(1 << 32, None, 8).expect_err("too many");
        let words = "4294967296 items are too many: a filter holds at most 4294967295";
        assert_eq!(error.to_string(), words);
    }

    #[test]
    fn number_of_lines_is_estimated_from_the_first() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("items");
        let expect = |contents: &[u8], width: Option<usize>| {
            fs::write(&path, contents).expect("a file");
            let width = width.and_then(NonZeroUsize::new);
            Expected::of_file(&path, width).map(|expected| expected.items)
        };
        assert_eq!(expect(&b"ab\n".repeat(100_000), None), Some(100_000));
        assert_eq!(expect(b"abcd\nef\n", None), Some(2));
        assert_eq!(expect(b"", None), None);
        assert_eq!(expect(b"one line", None), None);
        assert_eq!(expect(&[0; 100], Some(33)), Some(3));
        assert_eq!(Expected::of_file(directory.path(), None), None);
        assert_eq!(Expected::of_file("-".as_ref(), None), None);
    }

    #[test]
    fn free_memory_is_read_as_linux_writes_it() {
        let text =
            "MemTotal:       24579000 kB\nMemAvailable:   1000 kB\nSwapFree:           24 kB\n";
        assert_eq!(free_memory(text), Some(1 << 20));
        assert_eq!(free_memory("MemTotal: 1 kB\n"), None);
    }
}
