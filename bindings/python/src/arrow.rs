//! Items from Arrow data, through the PyCapsule interface: pyarrow, polars, DuckDB, DataFusion and others.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::num::NonZeroUsize;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, ArrayRef, make_array};
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
        let stream = import_stream(&capsule)?;
        // The producer may need the GIL for its next array, so none of this holds it.
        py.detach(|| {
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
    // SAFETY: the interface requires that the array is valid for the schema.
    let data = unsafe { from_ffi(array, schema) }.map_err(invalid)?;
    Ok(make_array(data))
}

fn import_stream(capsule: &Bound<'_, PyCapsule>) -> PyResult<FFI_ArrowArrayStream> {
    let stream = checked::<FFI_ArrowArrayStream>(capsule, c"arrow_array_stream")?;
    // SAFETY: a capsule of this name holds this structure; it is moved out, and the capsule keeps an empty one.
    Ok(unsafe { FFI_ArrowArrayStream::from_raw(stream) })
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
                None => hash_slices(std::iter::repeat_n(&[][..], array.len()), profile, hashes),
            }
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            hash_slices((0..array.len()).map(|i| array.value(i)), profile, hashes)
        }
        DataType::LargeBinary => {
            let array = array.as_binary::<i64>();
            hash_slices((0..array.len()).map(|i| array.value(i)), profile, hashes)
        }
        DataType::BinaryView => {
            let array = array.as_binary_view();
            hash_slices((0..array.len()).map(|i| array.value(i)), profile, hashes)
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

/// Enough items to fill any vector unit; their references stay in cache.
const BATCH: usize = 4096;

fn hash_slices<'a>(
    mut items: impl Iterator<Item = &'a [u8]>,
    profile: Profile,
    hashes: &mut Vec<u64>,
) -> PyResult<()> {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        batch.clear();
        batch.extend(items.by_ref().take(BATCH));
        if batch.is_empty() {
            return Ok(());
        }
        profile.hash_items(&batch, hashes)?;
    }
}

fn invalid(error: ArrowError) -> PyErr {
    PyValueError::new_err(format!("invalid Arrow data: {error}"))
}
