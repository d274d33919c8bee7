//! Items from Python objects: lists of bytes, packed records, numpy arrays and Arrow data.

use std::num::NonZeroUsize;

use nutfilter::map_to_range;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PySlice, PyString};

use crate::arrow;
use crate::buffer::Buffer;
use crate::number::Number;
use crate::profile::Profile;
use crate::sink::{Made, Sink};

/// Calls `with` with the bytes of one item.
pub(crate) fn with_item<R>(item: &Bound<'_, PyAny>, with: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
    if let Ok(bytes) = item.cast::<PyBytes>() {
        refuse_stripped(bytes, || "item".to_owned())?;
        return Ok(with(bytes.as_bytes()));
    }
    Ok(with(memory_of(item, || "item".to_owned())?.bytes()))
}

/// The memory of an item that is not `bytes`: one row of bytes, or one record.
fn memory_of<'py>(
    item: &Bound<'py, PyAny>,
    what: impl FnOnce() -> String,
) -> PyResult<Buffer<'py>> {
    let Some(buffer) = Buffer::of(item)?.filter(Buffer::has_bytes) else {
        return Err(not_bytes(item, &what()));
    };
    if is_text(item)? {
        return Err(not_bytes(item, &what()));
    }
    if buffer.shape.len() != usize::from(buffer.is_bytes()) {
        // A number, or many items.
        return Err(PyTypeError::new_err(format!(
            "{} is {} of shape {:?}; items are bytes, of one dimension",
            what(),
            type_name(item),
            buffer.shape
        )));
    }
    match is_masked(item)? {
        true => Err(PyValueError::new_err(format!("{} is masked; drop it first", what()))),
        false => Ok(buffer),
    }
}

/// Whether an item is text whose memory looks like bytes: a string of pyarrow.
fn is_text(item: &Bound<'_, PyAny>) -> PyResult<bool> {
    match item.getattr_opt("as_py")? {
        Some(as_py) => Ok(as_py.call0()?.is_instance_of::<PyString>()),
        None => Ok(false),
    }
}

/// The hashes of all items, in the order of the items. Each must have `record_bytes` bytes.
pub(crate) fn hash_all(
    items: &Bound<'_, PyAny>,
    record_bytes: Option<Number>,
    profile: Profile,
) -> PyResult<Vec<u64>> {
    let width = record_bytes.map(|number| {
        let out_of_range = |_| format!("record_bytes is {number}; use 1 or more");
        usize::try_from(number).map_err(out_of_range)
    });
    let width = width.transpose().map_err(PyValueError::new_err)?;
    let mut hashes = Vec::new();
    let made = Made::Hashes(profile, &mut hashes);
    take(items, Sink { width, made })?;
    Ok(hashes)
}

/// Copies of all items, in their order.
pub(crate) fn collect(items: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    let (width, mut copies) = (None, Vec::new());
    let made = Made::Copies(&mut copies);
    take(items, Sink { width, made })?;
    Ok(copies)
}

fn take(items: &Bound<'_, PyAny>, mut sink: Sink<'_>) -> PyResult<()> {
    let items = &column_of(items)?;
    refuse_masked(items, sink.width)?;
    refuse_padded(items)?;
    // The Arrow form of Python objects takes text for bytes.
    let holds_objects = items.getattr_opt("dtype")?.is_some_and(|dtype| kind_of(&dtype) == "O");
    if !holds_objects && arrow::take(items, &mut sink)? {
        return Ok(());
    }
    // An array of Python objects is an iterable like any other.
    if let Some(buffer) = Buffer::of(items)?.filter(|buffer| buffer.format != "O") {
        let width = record_width(&buffer, sink.width).map_err(|error| match sink.made {
            Made::Hashes(..) => error,
            Made::Copies(_) => PyTypeError::new_err(format!(
                "items is a buffer of shape {:?} and format '{}'; pass a list of bytes, or uint8 of shape (n, bytes)",
                buffer.shape, buffer.format
            )),
        })?;
        let records = buffer.bytes();
        return items.py().detach(|| sink.records(records, width));
    }
    let mut iterator = iterate(items)?;
    loop {
        let mut batch = Vec::with_capacity(BATCH.min(iterator.size_hint().0.max(16)));
        for item in iterator.by_ref().take(BATCH) {
            let at = sink.len() + batch.len();
            batch.push(item_of(item?, || format!("item {at}"))?);
        }
        if batch.is_empty() {
            return Ok(());
        }
        let slices: Vec<&[u8]> = batch.iter().map(Item::bytes).collect();
        items.py().detach(|| sink.items(&slices))?;
    }
}

/// The column of a frame of pandas: iterated, a frame gives the names of its columns, and its Arrow form has the index.
fn column_of<'py>(items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let Some(places) = items.getattr_opt("iloc")? else {
        return Ok(items.clone());
    };
    match items.getattr("shape")?.extract::<Vec<usize>>()?[..] {
        [_, 1] => places.get_item((PySlice::full(items.py()), 0)),
        [_, columns] => Err(PyTypeError::new_err(format!(
            "{} has {columns} columns; select the one with the items",
            type_name(items)
        ))),
        _ => Ok(items.clone()),
    }
}

/// The kind of a dtype of numpy.
fn kind_of(dtype: &Bound<'_, PyAny>) -> String {
    let kind = dtype.getattr("kind").and_then(|kind| kind.extract());
    kind.unwrap_or_default()
}

/// Refuses containers whose elements are not the bytes that they seem to be, whatever their package: byte strings of numpy's kind `S` in
/// a column of pandas, xarray or h5py lost the NUL bytes at their ends, and as Arrow data they end at the first one; polars gives
/// pointers for Python objects.
fn refuse_padded(items: &Bound<'_, PyAny>) -> PyResult<()> {
    if type_name(items) == "LazyFrame" {
        return Err(PyTypeError::new_err("LazyFrame has no rows yet; pass its collect()"));
    }
    let mut dtypes: Vec<Bound<'_, PyAny>> = items.getattr_opt("dtype")?.into_iter().collect();
    if let Some(of_columns) = items.getattr_opt("dtypes")? {
        let values = of_columns.call_method0("values");
        let values = values.unwrap_or_else(|_| of_columns.getattr("values").unwrap_or(of_columns));
        if let Ok(columns) = values.try_iter() {
            dtypes.extend(columns.filter_map(Result::ok));
        }
    }
    // Whole numpy arrays say so by their format, and have their width.
    let is_array = || Buffer::of(items).is_ok_and(|buffer| buffer.is_some());
    for dtype in dtypes {
        let name = dtype.str()?.to_string();
        if kind_of(&dtype) == "S" && !is_array() {
            return Err(PyTypeError::new_err(format!(
                "{} holds byte strings of '{name}', whose NUL bytes are lost; pass the numpy array itself with record_bytes, if \
                 every item has that many bytes",
                type_name(items)
            )));
        }
        if name == "Object" && type_name(&dtype) == "Object" {
            return Err(PyTypeError::new_err(format!(
                "{} holds Python objects, which it gives as pointers; pass to_list()",
                type_name(items)
            )));
        }
        if name == "BIT" {
            return Err(PyTypeError::new_err(format!(
                "{} holds bit strings, which DuckDB gives with a byte before them; cast them to BLOB",
                type_name(items)
            )));
        }
    }
    Ok(())
}

/// Refuses records of a masked array that are masked. A mask of some bytes of a record does not mask it: netCDF4 masks each byte
/// of value 255.
fn refuse_masked(items: &Bound<'_, PyAny>, record_bytes: Option<usize>) -> PyResult<()> {
    let Some(mask) = mask_of_array(items)? else {
        return Ok(());
    };
    let rows = match (mask.getattr("ndim")?.extract::<usize>()?, record_bytes) {
        (2, _) => mask.call_method1("all", (1,))?,
        (1, None) => mask,
        (1, Some(width)) => {
            // Of single bytes, or of whole records. What does not divide is refused with its width.
            let per_record = width / items.getattr("itemsize")?.extract::<usize>()?.max(1);
            if per_record == 0 || mask.len()? % per_record != 0 {
                return Ok(());
            }
            let rows = mask.call_method1("reshape", (mask.len()? / per_record, per_record))?;
            rows.call_method1("all", (1,))?
        }
        _ => return Ok(()),
    };
    let places = rows.call_method0("nonzero")?.get_item(0)?;
    match places.len()? {
        0 => Ok(()),
        masked => {
            let first = places.get_item(0)?;
            Err(PyValueError::new_err(format!(
                "{masked} records are masked, the first is record {first}; drop them first (array.compressed())"
            )))
        }
    }
}

/// The mask of a masked array of numpy.
fn mask_of_array<'py>(items: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let mask = items.getattr_opt("mask")?;
    Ok(mask.filter(|mask| mask.hasattr("ndim").unwrap_or(false)))
}

/// Whether all bytes of an item are masked.
fn is_masked(item: &Bound<'_, PyAny>) -> PyResult<bool> {
    match mask_of_array(item)? {
        Some(mask) => mask.call_method0("all")?.is_truthy(),
        None => Ok(false),
    }
}

/// The mapped value of one item.
pub(crate) fn value_of(item: &Bound<'_, PyAny>, profile: Profile, range: u64) -> PyResult<u64> {
    with_item(item, |bytes| map_to_range(profile.hash(bytes), range))
}

/// The mapped values of `items`, in the order of the items.
pub(crate) fn values_of(
    items: &Bound<'_, PyAny>,
    record_bytes: Option<Number>,
    profile: Profile,
    range: u64,
) -> PyResult<Vec<u64>> {
    let mut values = hash_all(items, record_bytes, profile)?;
    items.py().detach(|| {
        for value in &mut values {
            *value = map_to_range(*value, range);
        }
    });
    Ok(values)
}

/// One byte for each answer about an item.
pub(crate) fn mask_of<'py>(py: Python<'py>, found: &[bool]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, found.len(), |bytes| {
        for (byte, &found) in bytes.iter_mut().zip(found) {
            *byte = u8::from(found);
        }
        Ok(())
    })
}

/// The look-ups of many items, which all classes of filters have.
macro_rules! look_ups {
    ($class:ident, $core:ident => $range:expr) => {
        #[pymethods]
        impl $class {
            /// Returns for each item whether it may be in the set: a list of bool in the order of the items.
            ///
            /// `items`, `record_bytes` and the errors are those of `SortedHashes.add`.
            ///
            /// Cost: less than 0.1 ms per 1,000 items; Filter decodes itself once, about 0.5 ms per million items of it.
            #[pyo3(signature = (items, record_bytes=None))]
            fn matches(
                &self,
                items: &Bound<'_, PyAny>,
                record_bytes: Option<$crate::number::Number>,
            ) -> PyResult<Vec<bool>> {
                let $core = &self.core;
                let values = $crate::items::values_of(items, record_bytes, self.profile, $range)?;
                Ok(items.py().detach(|| $core.matches_values(&values)))
            }

            /// `matches` as bytes, 1 for a match and 0 for none. `numpy.frombuffer(mask, bool)` makes an array of it
            /// without a copy.
            #[pyo3(signature = (items, record_bytes=None))]
            fn mask<'py>(
                &self,
                items: &Bound<'py, PyAny>,
                record_bytes: Option<$crate::number::Number>,
            ) -> PyResult<Bound<'py, PyBytes>> {
                let found = self.matches(items, record_bytes)?;
                $crate::items::mask_of(items.py(), &found)
            }
        }
    };
}
pub(crate) use look_ups;

/// The number of bytes per record of a buffer.
///
/// Records are the rows of a two-dimensional array of bytes, the elements of an array of records, packed bytes with a
/// given `record_bytes`, or byte strings that all have `record_bytes` bytes.
fn record_width(buffer: &Buffer<'_>, record_bytes: Option<usize>) -> PyResult<NonZeroUsize> {
    let (shape, format) = (&buffer.shape, &buffer.format);
    let is_bytes = buffer.is_bytes();
    let width = match (shape.as_slice(), record_bytes) {
        ([len], Some(width)) if is_bytes => {
            if width == 0 || len % width != 0 {
                return Err(PyValueError::new_err(format!(
                    "{len} bytes are not a whole number of records of {width} bytes"
                )));
            }
            width
        }
        ([_], None) if buffer.is_record() => buffer.element_bytes,
        ([_], Some(width)) if buffer.is_padded() => {
            if width != buffer.element_bytes {
                return Err(PyTypeError::new_err(format!(
                    "record_bytes is {width}, and the items have {} bytes",
                    buffer.element_bytes
                )));
            }
            width
        }
        ([_], None) if buffer.is_padded() => {
            let width = buffer.element_bytes;
            return Err(PyTypeError::new_err(format!(
                "byte strings of '{format}' are padded with NUL bytes, which would be hashed; pass record_bytes={width} if \
                 every item has {width} bytes"
            )));
        }
        ([_, width], None) if is_bytes => *width,
        ([_], None) if is_bytes => {
            return Err(PyTypeError::new_err(
                "items is one buffer of bytes; pass a list of items, or record_bytes for packed records",
            ));
        }
        (_, Some(_)) => {
            return Err(PyTypeError::new_err(format!(
                "record_bytes is for a one-dimensional buffer of bytes, not for shape {shape:?} of '{format}'"
            )));
        }
        _ => {
            return Err(PyTypeError::new_err(format!(
                "items is a buffer of shape {shape:?} and format '{format}'; use uint8 of shape (n, record bytes)"
            )));
        }
    };
    NonZeroUsize::new(width).ok_or_else(|| PyValueError::new_err("records have 0 bytes"))
}

/// One item of an iterable. Bytes cannot change, so they are not copied.
pub(crate) enum Item<'py> {
    Bytes(Bound<'py, PyBytes>),
    Copy(Vec<u8>),
}

impl Item<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes.as_bytes(),
            Self::Copy(bytes) => bytes,
        }
    }
}

/// Items that are hashed together without the GIL.
const BATCH: usize = 16 * 1024;

/// The bytes of one element of an iterable; `what` names it in errors.
pub(crate) fn item_of<'py>(
    item: Bound<'py, PyAny>,
    what: impl FnOnce() -> String,
) -> PyResult<Item<'py>> {
    match item.cast_into::<PyBytes>() {
        Ok(bytes) => refuse_stripped(&bytes, what).map(|()| Item::Bytes(bytes)),
        Err(error) => Ok(Item::Copy(memory_of(&error.into_inner(), what)?.bytes().to_vec())),
    }
}

fn iterate<'py>(items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    let py = items.py();
    if items.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(
            "items is str; pass a list of bytes (bytes.fromhex decodes hexadecimal text)",
        ));
    }
    if items.hasattr("readlines")? {
        return Err(PyTypeError::new_err(format!(
            "items is a file ({}), whose lines have line ends; pass its lines without them, or read() with record_bytes",
            type_name(items)
        )));
    }
    items.try_iter().map_err(|cause| {
        if !cause.is_instance_of::<PyTypeError>(py) {
            return cause;
        }
        let error = PyTypeError::new_err(format!(
            "items must be an iterable of bytes, an array of records or Arrow data, not {}",
            type_name(items)
        ));
        error.set_cause(py, Some(cause));
        error
    })
}

/// An element of a numpy array of byte strings has lost the NUL bytes at its end: one point in 256 ends in one.
fn refuse_stripped(bytes: &Bound<'_, PyBytes>, what: impl FnOnce() -> String) -> PyResult<()> {
    match !bytes.is_exact_instance_of::<PyBytes>() && bytes.hasattr("dtype")? {
        false => Ok(()),
        true => Err(PyTypeError::new_err(format!(
            "{} is {} of numpy, which loses NUL bytes at its end; pass the whole array with record_bytes",
            what(),
            type_name(bytes)
        ))),
    }
}

fn not_bytes(item: &Bound<'_, PyAny>, what: &str) -> PyErr {
    let hint = if item.is_instance_of::<PyString>() {
        " (bytes.fromhex decodes hexadecimal text)"
    } else {
        ""
    };
    PyTypeError::new_err(format!("{what} is {}; items are bytes{hint}", type_name(item)))
}

fn type_name(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().name();
    name.map_or_else(|_| "an object".into(), |name| name.to_string())
}
