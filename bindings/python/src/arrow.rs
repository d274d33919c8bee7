//! Items from Arrow data, through the PyCapsule interface: pyarrow, polars, DuckDB and others.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::num::NonZeroUsize;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{
    Array, ArrayReader as _, ArrayRef, GenericBinaryArray, OffsetSizeTrait, make_array,
    new_empty_array,
};
use arrow_schema::{ArrowError, DataType};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::sink::Sink;

/// Takes the items of `object`. Returns whether it is Arrow data.
pub(crate) fn take(object: &Bound<'_, PyAny>, sink: &mut Sink<'_>) -> PyResult<bool> {
    let py = object.py();
    if let Some(method) = object.getattr_opt("__arrow_c_array__")? {
        let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
            method.call0()?.extract()?;
        let array = import_array(&schema, &array)?;
        py.detach(|| take_array(&array, sink))?;
        return Ok(true);
    }
    if let Some(method) = object.getattr_opt("__arrow_c_stream__")? {
        let capsule: Bound<'_, PyCapsule> = method.call0()?.extract()?;
        let mut stream = import_stream(&capsule)?;
        // The producer may need the GIL for its next array, so none of this holds it.
        py.detach(|| {
            check_stream(&mut stream)?;
            let arrays = ArrayStreamReader::try_new(stream).map_err(invalid)?;
            // A stream without arrays has a type, too.
            take_array(&new_empty_array(arrays.field().data_type()), sink)?;
            for array in arrays {
                take_array(&array.map_err(invalid)?, sink)?;
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

fn check_stream(stream: &mut FFI_ArrowArrayStream) -> PyResult<()> {
    let mut schema = FFI_ArrowSchema::empty();
    if let (Some(get_schema), Some(_)) = (stream.get_schema(), stream.release()) {
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

fn take_array(array: &ArrayRef, sink: &mut Sink<'_>) -> PyResult<()> {
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
                    sink.records(&array.value_data()[..used], width)
                }
                None => {
                    let items = std::iter::repeat_n(Some(&[][..]), array.len());
                    take_slices(items, sink)
                }
            }
        }
        DataType::Binary => take_slices(slices(array.as_binary::<i32>()), sink),
        DataType::LargeBinary => take_slices(slices(array.as_binary::<i64>()), sink),
        DataType::BinaryView => {
            array.to_data().validate_full().map_err(invalid)?;
            let array = array.as_binary_view();
            let items = (0..array.len()).map(|i| Some(array.value(i)));
            take_slices(items, sink)
        }
        DataType::Struct(fields) if fields.len() == 1 => {
            take_array(array.as_struct().column(0), sink)
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
    offsets.windows(2).map(|ends| values.get(ends[0].to_usize()?..ends[1].to_usize()?))
}

/// Enough items to fill any vector unit; their references stay in cache.
const BATCH: usize = 4096;

fn take_slices<'a>(
    items: impl Iterator<Item = Option<&'a [u8]>>,
    sink: &mut Sink<'_>,
) -> PyResult<()> {
    let mut batch = Vec::with_capacity(BATCH);
    for item in items {
        batch.push(item.ok_or_else(|| {
            let at = sink.len() + batch.len();
            PyValueError::new_err(format!("invalid Arrow data: wrong offsets of item {at}"))
        })?);
        if batch.len() == BATCH {
            sink.items(&batch)?;
            batch.clear();
        }
    }
    sink.items(&batch)
}

fn invalid(error: ArrowError) -> PyErr {
    PyValueError::new_err(format!("invalid Arrow data: {error}"))
}
