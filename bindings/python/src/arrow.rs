//! Items from Arrow data, through the PyCapsule interface: pyarrow, polars, DuckDB and others.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::num::NonZeroUsize;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, ArrayRef, GenericBinaryArray, OffsetSizeTrait, make_array};
use arrow_schema::{ArrowError, DataType};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::profile::Profile;

/// Appends the hashes of the items of `object`. Returns whether it is Arrow data.
pub(crate) fn hash_all(
    object: &Bound<'_, PyAny>,
    profile: Profile,
    hashes: &mut Vec<u64>,
) -> PyResult<bool> {
    let py = object.py();
    if let Some(method) = object.getattr_opt("__arrow_c_array__")? {
        let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
            method.call0()?.extract()?;
        let array = import_array(&schema, &array)?;
        py.detach(|| hash_array(&array, profile, hashes))?;
        return Ok(true);
    }
    if let Some(method) = object.getattr_opt("__arrow_c_stream__")? {
        let capsule: Bound<'_, PyCapsule> = method.call0()?.extract()?;
        let mut stream = import_stream(&capsule)?;
        // The producer may need the GIL for its next array, so none of this holds it.
        py.detach(|| {
            check_stream(&mut stream)?;
            for array in ArrayStreamReader::try_new(stream).map_err(invalid)? {
                hash_array(&array.map_err(invalid)?, profile, hashes)?;
            }
            Ok::<(), PyErr>(())
        })?;
        return Ok(true);
    }
    Ok(false)
}

fn import_array(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>) -> PyResult<ArrayRef> {
    let schema = checked::<FFI_ArrowSchema>(schema, c"arrow_schema")?;
    let array = checked::<FFI_ArrowArray>(array, c"arrow_array")?;
    // SAFETY: a capsule of this name holds this structure; it is moved out, and the capsule keeps an empty one.
    let array = unsafe { FFI_ArrowArray::from_raw(array) };
    // SAFETY: a capsule of this name holds this structure, and the capsule outlives the reference.
    let schema = unsafe { &*schema };
    check_schema(schema)?;
    // SAFETY: the interface requires that the array is valid for the schema.
    let data = unsafe { from_ffi(array, schema) }.map_err(invalid)?;
    Ok(make_array(data))
}

fn import_stream(capsule: &Bound<'_, PyCapsule>) -> PyResult<FFI_ArrowArrayStream> {
    let stream = checked::<FFI_ArrowArrayStream>(capsule, c"arrow_array_stream")?;
    // SAFETY: a capsule of this name holds this structure; it is moved out, and the capsule keeps an empty one.
    Ok(unsafe { FFI_ArrowArrayStream::from_raw(stream) })
}

/// The most levels of nested types that are accepted. The import is recursive: very many would overflow the stack.
const MAX_DEPTH: usize = 64;

fn check_schema(schema: &FFI_ArrowSchema) -> PyResult<()> {
    let mut open = vec![(schema, 0)];
    while let Some((schema, depth)) = open.pop() {
        if depth > MAX_DEPTH {
            return Err(PyTypeError::new_err(format!(
                "Arrow type is nested in more than {MAX_DEPTH} levels; items are binary or fixed-size binary"
            )));
        }
        let extension = schema.metadata().map_err(invalid)?;
        if let Some(name) = extension.get("ARROW:extension:name") {
            return Err(PyTypeError::new_err(format!(
                "Arrow column has the extension type '{name}', whose bytes may mean something else; pass its storage"
            )));
        }
        let inner = schema.children().chain(schema.dictionary());
        open.extend(inner.map(|inner| (inner, depth + 1)));
    }
    Ok(())
}

/// `ArrowArrayStream` of the C stream interface. That of the crate does not show its schema before it is imported.
#[repr(C)]
struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut FFI_ArrowSchema) -> c_int>,
    get_next: *const c_void,
    get_last_error: *const c_void,
    release: *const c_void,
}

fn check_stream(stream: &mut FFI_ArrowArrayStream) -> PyResult<()> {
    let stream = (&raw mut *stream).cast::<Stream>();
    // SAFETY: both types have the layout of the C interface.
    let Stream {
        get_schema,
        release,
        ..
    } = unsafe { &*stream };
    let mut schema = FFI_ArrowSchema::empty();
    if let (Some(get_schema), false) = (get_schema, release.is_null()) {
        // SAFETY: the stream is not released, and the schema is written only. Its error is that of the import.
        if unsafe { get_schema(stream, &raw mut schema) } == 0 {
            check_schema(&schema)?;
        }
    }
    Ok(())
}

/// The pointer of a capsule, if the capsule has this name.
fn checked<T>(capsule: &Bound<'_, PyCapsule>, name: &CStr) -> PyResult<*mut T> {
    Ok(capsule.pointer_checked(Some(name))?.cast().as_ptr())
}

fn hash_array(array: &ArrayRef, profile: Profile, hashes: &mut Vec<u64>) -> PyResult<()> {
    if array.null_count() > 0 {
        return Err(PyValueError::new_err(format!(
            "Arrow column has {} nulls; drop them first",
            array.null_count()
        )));
    }
    match array.data_type() {
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            match NonZeroUsize::new(array.value_size()) {
                Some(width) => {
                    let used = array.len() * width.get();
                    profile.hash_records(&array.value_data()[..used], width, hashes)
                }
                None => {
                    let items = std::iter::repeat_n(Some(&[][..]), array.len());
                    hash_slices(items, profile, hashes)
                }
            }
        }
        DataType::Binary => hash_slices(slices(array.as_binary::<i32>()), profile, hashes),
        DataType::LargeBinary => hash_slices(slices(array.as_binary::<i64>()), profile, hashes),
        DataType::BinaryView => {
            array.to_data().validate_full().map_err(invalid)?;
            let array = array.as_binary_view();
            let items = (0..array.len()).map(|i| Some(array.value(i)));
            hash_slices(items, profile, hashes)
        }
        DataType::Struct(fields) if fields.len() == 1 => {
            hash_array(array.as_struct().column(0), profile, hashes)
        }
        DataType::Struct(fields) => Err(PyTypeError::new_err(format!(
            "Arrow table has {} columns; select the one with the items",
            fields.len()
        ))),
        other => Err(PyTypeError::new_err(format!(
            "Arrow column has the type {other}; items are binary or fixed-size binary \
             (decode hexadecimal text first)"
        ))),
    }
}

/// The items of an array; `None` for one with invalid offsets. Producers such as pyarrow do not check all offsets.
fn slices<O: OffsetSizeTrait>(
    array: &GenericBinaryArray<O>,
) -> impl Iterator<Item = Option<&[u8]>> {
    let (offsets, values) = (array.value_offsets(), array.value_data());
    offsets
        .windows(2)
        .map(|ends| values.get(ends[0].to_usize()?..ends[1].to_usize()?))
}

/// Enough items to fill any vector unit; their references stay in cache.
const BATCH: usize = 4096;

fn hash_slices<'a>(
    items: impl Iterator<Item = Option<&'a [u8]>>,
    profile: Profile,
    hashes: &mut Vec<u64>,
) -> PyResult<()> {
    let mut batch = Vec::with_capacity(BATCH);
    for item in items {
        batch.push(item.ok_or_else(|| {
            let at = hashes.len() + batch.len();
            PyValueError::new_err(format!("invalid Arrow data: wrong offsets of item {at}"))
        })?);
        if batch.len() == BATCH {
            profile.hash_items(&batch, hashes)?;
            batch.clear();
        }
    }
    profile.hash_items(&batch, hashes)
}

fn invalid(error: ArrowError) -> PyErr {
    PyValueError::new_err(format!("invalid Arrow data: {error}"))
}
