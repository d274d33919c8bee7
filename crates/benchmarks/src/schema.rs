//! Holds a record against its description in docs/benchmarking.md, which is the only one.
//!
//! There, a heading `#### Name` begins the description of an object, and each line of the table below it
//! that begins with a name in backquotes is a field: its name, its type, its meaning. A type is `string`,
//! `integer`, `number`, `boolean`, the name of an object, or `list of` one of these; `, optional` may follow.

use std::collections::BTreeMap;

use serde_json::Value;

/// The description as it is in the repository.
pub const DOCUMENTATION: &str = include_str!("../../../docs/benchmarking.md");

/// The object that a document is.
const DOCUMENT: &str = "Record";

/// The fields of an object: name and type.
type Fields = Vec<(String, String)>;

fn described(documentation: &str) -> BTreeMap<String, Fields> {
    let mut objects: BTreeMap<String, Fields> = BTreeMap::new();
    let mut object = None;
    for line in documentation.lines() {
        if let Some(heading) = line.strip_prefix('#') {
            object = heading.strip_prefix("### ").map(str::to_owned);
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let (Some(object), ["", name, kind, ..]) = (&object, cells.as_slice())
            && let Some(name) = name.strip_prefix('`')
        {
            let field = (name.trim_end_matches('`').to_owned(), (*kind).to_owned());
            objects.entry(object.clone()).or_default().push(field);
        }
    }
    objects
}

/// Whether `record` is what `documentation` describes: every field that is not optional is there, every
/// field has its type, and there is no other.
///
/// # Errors
///
/// What differs, one line each.
pub fn check(record: &Value, documentation: &str) -> Result<(), Vec<String>> {
    let mut faults = Vec::new();
    check_type(record, DOCUMENT, "", &described(documentation), &mut faults);
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults),
    }
}

fn check_type(
    value: &Value,
    kind: &str,
    at: &str,
    objects: &BTreeMap<String, Fields>,
    faults: &mut Vec<String>,
) {
    if let Some(kind) = kind.strip_prefix("list of ") {
        match value.as_array() {
            None => faults.push(format!("{at} is no list")),
            Some(list) => {
                for (i, value) in list.iter().enumerate() {
                    check_type(value, kind, &format!("{at}[{i}]"), objects, faults);
                }
            }
        }
        return;
    }
    let right = match kind {
        "string" => value.is_string(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        object => match (objects.get(object), value.as_object()) {
            (Some(fields), Some(value)) => {
                for (name, kind) in fields {
                    let optional = kind.strip_suffix(", optional");
                    let at = format!("{at}.{name}");
                    match value.get(name) {
                        None if optional.is_some() => {}
                        None => faults.push(format!("{at} is missing")),
                        Some(value) => {
                            check_type(value, optional.unwrap_or(kind), &at, objects, faults)
                        }
                    }
                }
                let known = |name: &String| fields.iter().any(|(field, _)| field == name);
                let unknown = value.keys().filter(|name| !known(name));
                faults.extend(unknown.map(|name| format!("{at}.{name} is not described")));
                true
            }
            (None, _) => {
                faults.push(format!(
                    "{at} is of the type {object}, which is not described"
                ));
                true
            }
            (Some(_), None) => false,
        },
    };
    if !right {
        faults.push(format!("{at} is no {kind}: {value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::schedule::{Effort, interleave};
    use crate::{Fixture, Selection, rows};
    use serde_json::json;
    use std::time::Duration;

    const TOY: &str = "\
#### Record

| field | type | meaning |
|---|---|---|
| `schema` | integer | the version |
| `rows` | list of Row | all |
| `note` | string, optional | |

#### Row

| `name` | string | a path |

## Something else

| `no field` | string | |
";

    #[test]
    fn a_document_has_the_fields_that_are_described_and_no_other() {
        let faults = |record| check(&record, TOY).err().unwrap_or_default();
        assert!(faults(json!({"schema": 1, "rows": [{"name": "a"}]})).is_empty());
        assert!(faults(json!({"schema": 1, "rows": [], "note": ""})).is_empty());
        assert_eq!(faults(json!({"schema": 1})), [".rows is missing"]);
        assert_eq!(
            faults(json!({"schema": -1, "rows": [{"name": 7}, {}], "more": 1})),
            [
                ".schema is no integer: -1",
                ".rows[0].name is no string: 7",
                ".rows[1].name is missing",
                ".more is not described"
            ]
        );
        assert_eq!(faults(json!([])), [" is no Record: []"]);
    }

    #[test]
    fn what_a_run_writes_is_what_the_documentation_describes() {
        let fixture = Fixture::new("2k".parse().unwrap());
        let selection = Selection::new(vec!["decode/plain".into(), "lookup/batched".into()]);
        let effort = Effort {
            per_group: Duration::ZERO,
            most_samples: 1,
            least_samples: 1,
        };
        let levels = nutfilter::Level::available().map(|level| level.name().to_owned());
        let mut record = Record::new(effort, levels.collect(), vec!["std".to_owned()]);
        rows::each(&fixture, &selection, &mut |mut group| {
            let series = interleave(&mut group, effort, |_| vec![1], &|_, run| run());
            record.add(&group, &series);
        });
        record.finish();
        assert!(record.rows.iter().any(|row| row.bits_per_item.is_some()));
        assert!(!record.ratios.is_empty());
        let written = serde_json::to_value(&record).unwrap();
        assert_eq!(check(&written, DOCUMENTATION), Ok(()));
        let again: Record = serde_json::from_value(written).unwrap();
        assert_eq!(again.rows.len(), record.rows.len());
    }

    #[test]
    fn records_that_were_kept_are_still_what_the_documentation_describes_and_lie_where_they_belong()
    {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/record");
        let mut found = 0;
        for machine in std::fs::read_dir(folder).unwrap() {
            // A file beside the folders is in no machine's history.
            for entry in std::fs::read_dir(machine.unwrap().path()).unwrap() {
                let path = entry.unwrap().path();
                let text = std::fs::read_to_string(&path).unwrap();
                let value = serde_json::from_str(&text).unwrap();
                assert_eq!(check(&value, DOCUMENTATION), Ok(()), "{}", path.display());
                let record: Record = serde_json::from_value(value).unwrap();
                assert!(path.ends_with(record.path()), "{}", path.display());
                found += 1;
            }
        }
        assert!(found >= 2, "{found} records in {folder}");
    }
}
