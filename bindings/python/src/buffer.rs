//! [`Buffer`]: the memory of a Python object that supports the buffer protocol, without a copy.
//!
//! The stable ABI contains this protocol from Python 3.11 on, and pyo3 offers it only there. CPython 3.9 and 3.10
//! export the same two functions with the same structure, so they are declared here.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::{ptr, slice};

use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

/// `Py_buffer` of CPython's headers.
#[repr(C)]
struct View {
    buf: *mut c_void,
    obj: *mut ffi::PyObject,
    len: ffi::Py_ssize_t,
    itemsize: ffi::Py_ssize_t,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut ffi::Py_ssize_t,
    strides: *mut ffi::Py_ssize_t,
    suboffsets: *mut ffi::Py_ssize_t,
    internal: *mut c_void,
}

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut ffi::PyObject, view: *mut View, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut View);
}

/// `PyBUF_C_CONTIGUOUS | PyBUF_FORMAT`: shape, strides and element type of contiguous memory.
const CONTIGUOUS: c_int = 0x20 | 0x10 | 0x08 | 0x04;

/// The contiguous memory of an object. The object cannot resize or free it while the buffer exists.
pub(crate) struct Buffer<'py> {
    /// Boxed, because some exporters let the view point into itself.
    view: Box<View>,
    /// The size of each dimension.
    pub(crate) shape: Vec<usize>,
    /// The size of an element.
    pub(crate) element_bytes: usize,
    /// The type of an element in the notation of the module `struct`, without the byte order of this machine.
    pub(crate) format: String,
    /// The view is released with the GIL held.
    attached: PhantomData<Python<'py>>,
}

impl<'py> Buffer<'py> {
    /// The memory of `object`. `None` if it does not support the protocol. Memory that is not contiguous is
    /// copied first.
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        let py = object.py();
        match Self::contiguous(object) {
            Ok(buffer) => Ok(Some(buffer)),
            Err(error) if error.is_instance_of::<PyTypeError>(py) => Ok(None),
            // What exporters raise for memory that is not contiguous.
            Err(error)
                if error.is_instance_of::<PyBufferError>(py)
                    || error.is_instance_of::<PyValueError>(py) =>
            {
                let view = PyMemoryView::from(object)?;
                let mut copy = Self::contiguous(&view.call_method0("tobytes")?)?;
                copy.shape = view.getattr("shape")?.extract()?;
                copy.element_bytes = view.getattr("itemsize")?.extract()?;
                copy.format = native(&view.getattr("format")?.extract::<String>()?);
                Ok(Some(copy))
            }
            Err(error) => Err(error),
        }
    }

    fn contiguous(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        let mut view = Box::new(View {
            buf: ptr::null_mut(),
            obj: ptr::null_mut(),
            len: 0,
            itemsize: 0,
            readonly: 0,
            ndim: 0,
            format: ptr::null_mut(),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            suboffsets: ptr::null_mut(),
            internal: ptr::null_mut(),
        });
        // SAFETY: the object is alive, the view has the layout of CPython's, and the GIL is held.
        let failed = unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *view, CONTIGUOUS) };
        if failed != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        let dimensions = usize::try_from(view.ndim).unwrap_or(0);
        let shape = (0..dimensions)
            // SAFETY: the request was for the shape, which has as many numbers as there are dimensions.
            .map(|dimension| unsafe { *view.shape.add(dimension) })
            .map(|size| usize::try_from(size).unwrap_or(0))
            .collect();
        let format = if view.format.is_null() {
            "B".into()
        } else {
            // SAFETY: the request was for the format: a C string that lives as long as the view.
            native(&unsafe { CStr::from_ptr(view.format) }.to_string_lossy())
        };
        Ok(Self {
            shape,
            element_bytes: usize::try_from(view.itemsize).unwrap_or(0),
            format,
            view,
            attached: PhantomData,
        })
    }

    /// Whether the elements are single bytes. Those of a string of C (`c`) end before its last byte.
    pub(crate) fn is_bytes(&self) -> bool {
        ["B", "b"].contains(&self.format.as_str())
    }

    /// Whether the elements are records of one length, such as numpy's V33.
    pub(crate) fn is_record(&self) -> bool {
        self.ends_with('x')
    }

    /// Whether the elements are byte strings that are padded with NUL bytes, such as numpy's S33.
    pub(crate) fn is_padded(&self) -> bool {
        self.ends_with('s')
    }

    fn ends_with(&self, code: char) -> bool {
        self.format.ends_with(code) && !self.format.contains(['T', '{'])
    }

    /// Whether the memory can be an item. Numbers, text and references to objects are not.
    pub(crate) fn has_bytes(&self) -> bool {
        self.is_bytes() || self.is_record()
    }

    /// All bytes.
    ///
    /// Another thread must not write to them meanwhile. The package documents that for arguments that can be
    /// changed, as the hash functions of the standard library do.
    pub(crate) fn bytes(&self) -> &[u8] {
        let len = usize::try_from(self.view.len).unwrap_or(0);
        if len == 0 {
            return &[];
        }
        // SAFETY: the request was for contiguous memory, and it stays valid until the view is released.
        unsafe { slice::from_raw_parts(self.view.buf.cast(), len) }
    }
}

/// The format without a prefix for the byte order of this machine.
fn native(format: &str) -> String {
    let order = if cfg!(target_endian = "little") { '<' } else { '>' };
    format.trim_start_matches(['@', '=', order]).to_owned()
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // SAFETY: the view was filled by `PyObject_GetBuffer`, and `'py` proves that the GIL is held.
        unsafe { PyBuffer_Release(&raw mut *self.view) }
    }
}

/// The hashes in a buffer of 64-bit unsigned integers.
pub(crate) fn read_u64(object: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let buffer = Buffer::of(object)?
        .filter(|buffer| buffer.element_bytes == 8 && ["Q", "L"].contains(&buffer.format.as_str()));
    let Some(buffer) = buffer else {
        return Err(PyTypeError::new_err(
            "hashes must be a buffer of unsigned 64-bit integers, such as a numpy array of dtype uint64",
        ));
    };
    let (words, _) = buffer.bytes().as_chunks::<8>();
    let mut hashes = Vec::new();
    hashes.try_reserve_exact(words.len()).map_err(|_| crate::errors::memory(words.len()))?;
    hashes.extend(words.iter().map(|word| u64::from_ne_bytes(*word)));
    Ok(hashes)
}

/// A read-only memoryview of format "Q".
pub(crate) fn memoryview_of_u64<'py>(
    py: Python<'py>,
    numbers: &[u64],
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = PyBytes::new_with(py, numbers.len() * 8, |bytes| {
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        Ok(())
    })?;
    PyMemoryView::from(&bytes)?.call_method1("cast", ("Q",))
}
