//! Guesses the format of a file, for hints in error messages.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use nutfilter::gcs;

/// Number of bytes at the beginning of a file that are inspected.
const HEAD: u64 = 4 << 10;

/// The first bytes of files that are not lines of text, what they are, and the command that turns them into text.
const ENCODED: [(&[u8], &str, &str); 8] = [
    (b"\x1f\x8b", "compressed with gzip", "zcat"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "zstdcat"),
    (b"\xfd7zXZ\0", "compressed with xz", "xzcat"),
    (b"BZh91AY&SY", "compressed with bzip2", "bzcat"),
    (b"\x04\x22\x4d\x18", "compressed with lz4", "lz4cat"),
    (b"PK\x03\x04", "a zip archive", "unzip -p"),
    (b"\xff\xfe", "in UTF-16", "iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "in UTF-16", "iconv -f UTF-16 -t UTF-8"),
];

/// What to do with a file that begins like compressed data or UTF-16.
pub(crate) fn not_text(head: &[u8]) -> Option<String> {
    let (_, what, command) = ENCODED.iter().find(|(magic, ..)| head.starts_with(magic))?;
    Some(format!(
        "the file is {what}; pipe it through `{command}`, and give `-` instead of the file"
    ))
}

/// What a first line that is not a valid item looks like, and the option for that.
pub(super) fn format_of(line: &[u8]) -> Option<(&'static str, Option<&'static str>)> {
    let line = line.trim_ascii();
    if looks_like_filter(line) {
        return Some(("like a filter, not like items", None));
    }
    let is_control = |byte: &&u8| byte.is_ascii_control() && !matches!(byte, b'\t' | 0);
    let text = str::from_utf8(line).ok();
    let (format, option) = match text {
        _ if line.iter().any(|byte| is_control(&byte)) => {
            ("like binary records", "--record-bytes LEN with build")
        }
        None => (
            "like text that is not in UTF-8",
            "`iconv -f LATIN1 -t UTF-8` in a pipe",
        ),
        Some(text) if text.contains('\0') => ("NUL-separated", "--null"),
        Some(text) if text.starts_with(['{', '"']) && is_json(text) => {
            ("like JSON lines", "--input jsonl")
        }
        // As DuckDB and Postgres print bytes.
        Some(text) if text.contains("\\x") => ("like bytes with escapes", "hex() in the query"),
        Some(text) if text.contains(',') => ("like CSV", "--input csv"),
        Some(text) if looks_like_base64(text) => ("like base64", "--input base64"),
        // Hex with errors.
        Some(text) if mostly_hex(text) => return None,
        Some(_) => ("like text", "--input text"),
    };
    Some((format, Some(option)))
}

/// Whether this is the beginning of a response object or of a .gcs file.
fn looks_like_filter(head: &[u8]) -> bool {
    let has = |member: &[u8]| head.windows(member.len()).any(|part| part == member);
    gcs::is_gcs(head) || head.starts_with(b"{") && has(b"\"n\"") && has(b"\"content\"")
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Long enough, with padding or in both cases.
fn looks_like_base64(text: &str) -> bool {
    let in_alphabet = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    let mixed = text.contains(|c: char| c.is_ascii_uppercase())
        && text.contains(|c: char| c.is_ascii_lowercase());
    text.len() >= 8
        && text.len().is_multiple_of(4)
        && text.chars().all(in_alphabet)
        && (mixed || text.ends_with('='))
}

fn mostly_hex(text: &str) -> bool {
    let digits = text.chars().filter(char::is_ascii_hexdigit).count();
    let wrong = text.len() - digits;
    match text.len() {
        // A word can have only hex digits.
        ..16 => text.len() >= 4 && wrong == 1,
        length => wrong * 10 <= length,
    }
}

/// Whether two files were given in the wrong order: only the second one is a filter.
pub(crate) fn are_swapped(filter: &Path, items: &Path) -> bool {
    let is_filter = |path: &Path| {
        let mut head = Vec::new();
        let regular = path.metadata().is_ok_and(|file| file.is_file());
        let file = regular.then(|| File::open(path).ok()).flatten()?;
        file.take(HEAD).read_to_end(&mut head).ok()?;
        Some(looks_like_filter(head.trim_ascii_start()))
    };
    is_filter(filter) == Some(false) && is_filter(items) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_the_option_to_use() {
        for (line, wanted) in [
            (&b"user@example.org"[..], "--input text"),
            (b"user@example.org,2024", "--input csv"),
            (b"{\"email\":\"a@b\"}", "--input jsonl"),
            (b"\"a@b\"", "--input jsonl"),
            (b"AqmsVJvPYGnTLjW1i8EnYA==", "--input base64"),
            (b"one\0two", "--null"),
            (b"\x02\xa9\xac\xff", "--record-bytes"),
            (b"caf\xe9", "iconv"),
            (b"bad", "--input text"),
            (br"\x02\x9A!", "hex() in the query"),
            (b"\x01\x02", "--record-bytes"),
            (b"{\"n\":1,\"content\":\"\"}", "a filter"),
        ] {
            let hint = format!("{:?}", format_of(line));
            assert!(hint.contains(wanted), "{hint}");
        }
        assert_eq!(format_of(b"02a9acg4f3b1c2d5e6f7"), None);
    }
}
