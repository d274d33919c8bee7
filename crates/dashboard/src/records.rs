//! Records of benchmarks: files of `benches/record`, each held against the schema in docs/benchmarking.md.

use std::path::Path;

use nutfilter_benchmarks::fixture::Size;
use nutfilter_benchmarks::record::{Record, RowRecord};
use nutfilter_benchmarks::schema;

use crate::error::Error;
use crate::files::{json_files, read};

/// A record and where it is kept.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Below the folder of records, with `/`.
    pub path: String,
    /// What is there.
    pub record: Record,
}

/// The record in a file.
///
/// # Errors
///
/// Where the file cannot be read or is not what docs/benchmarking.md describes.
pub fn read_record(path: &Path) -> Result<Record, Error> {
    let not_json = |error| Error::not_json(path, error);
    let value = serde_json::from_str(&read(path)?).map_err(not_json)?;
    schema::check(&value, schema::DOCUMENTATION)
        .map_err(|faults| Error::not_a_record(path, faults))?;
    let record: Record = serde_json::from_value(value).map_err(not_json)?;
    match nameless_row(&record) {
        None => Ok(record),
        Some(fault) => Err(Error::not_a_record(path, vec![fault])),
    }
}

/// The first row whose size or time is none, which the schema's types do not say.
fn nameless_row(record: &Record) -> Option<String> {
    let is_time = |time: f64| time.is_finite() && time > 0.0;
    let is_right = |row: &&RowRecord| {
        row.size.parse::<Size>().is_ok_and(|size| size.n > 0)
            && is_time(row.minimum)
            && is_time(row.median)
    };
    let row = record.rows.iter().find(|row| !is_right(row))?;
    Some(format!("{}: its size or a time is none", row.name))
}

/// All records below `folder`, the oldest first.
///
/// # Errors
///
/// Where the folder or one of the files cannot be read, or a file is no record: a page that leaves one out
/// would say less than it seems to.
pub fn read_records(folder: &Path) -> Result<Vec<Kept>, Error> {
    let mut all = Vec::new();
    for path in json_files(folder)? {
        let record = read_record(&path)?;
        let below = path.strip_prefix(folder).unwrap_or(&path);
        let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
        let path = parts.join("/");
        all.push(Kept { path, record });
    }
    // Dates are written so that their order is that of the texts.
    all.sort_by(|a, b| (&a.record.date, &a.path).cmp(&(&b.record.date, &b.path)));
    Ok(all)
}

/// The newest of the records that has what is asked for.
pub(crate) fn newest(records: &[Kept], has: impl Fn(&Record) -> bool) -> Option<&Kept> {
    records.iter().rev().find(|kept| has(&kept.record))
}

/// The number of items that a row's name says.
pub(crate) fn items(row: &RowRecord) -> u64 {
    row.size.parse::<Size>().map_or(0, |size| size.n)
}

/// Seven digits of the commit, and a mark where files had changed.
pub(crate) fn short_commit(record: &Record) -> String {
    let digits: String = record.source.commit.chars().take(7).collect();
    match record.source.dirty {
        true => format!("{digits}+"),
        false => digits,
    }
}

/// The day of a record.
pub(crate) fn day(record: &Record) -> &str {
    record.date.split('T').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;
    use std::fs;

    fn write(path: &Path, record: &Record) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, serde_json::to_string(record).unwrap()).unwrap();
    }

    #[test]
    fn records_are_found_in_folders_and_sorted_by_date() {
        let folder = tempfile::tempdir().unwrap();
        for (path, date) in [
            ("b/1.json", "2026-01-02T"),
            ("a/2.json", "2026-01-03T"),
            ("a/1.json", "2025-01-03T"),
        ] {
            let mut record = made::record();
            record.date = format!("{date}00:00:00Z");
            write(&folder.path().join(path), &record);
        }
        fs::write(folder.path().join("README.md"), "not one of them").unwrap();
        let paths: Vec<String> = read_records(folder.path())
            .unwrap()
            .into_iter()
            .map(|kept| kept.path)
            .collect();
        assert_eq!(paths, ["a/1.json", "b/1.json", "a/2.json"]);
    }

    #[test]
    fn a_file_that_is_no_record_is_named_with_its_fault() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/odd.json");
        let said = |text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            read_records(folder.path()).unwrap_err().to_string()
        };
        let error = said("{");
        assert!(
            error.contains("odd.json") && error.contains("EOF"),
            "{error}"
        );
        let error = said("{\"schema\": \"one\", \"odd\": 1}");
        assert!(
            error.contains(".schema is no integer") && error.contains("more"),
            "{error}"
        );
        let mut record = made::record();
        record.rows[0].size = "many".to_owned();
        let error = said(&serde_json::to_string(&record).unwrap());
        assert!(error.contains(&record.rows[0].name), "{error}");
        assert!(read_records(&folder.path().join("nowhere")).is_err());
    }
}
