//! [`Buffer`]: the memory of a Python object that supports the buffer protocol, without a copy.

#![allow(unsafe_code)]

use std::slice;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

/// The contiguous memory of an object. The object cannot resize or free it while the buffer exists.
pub(crate) struct Buffer {
    /// Contiguous.
    memory: PyUntypedBuffer,
    /// The size of each dimension.
    pub(crate) shape: Vec<usize>,
    /// The size of an element.
    pub(crate) element_bytes: usize,
    /// The type of an element in the notation of the module `struct`, without the byte order of this machine.
    pub(crate) format: String,
}

impl Buffer {
    /// The memory of `object`. `None` if it does not support the protocol. Memory that is not contiguous is
    /// copied first.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = object.py();
        match PyUntypedBuffer::get(object) {
            Ok(memory) if memory.is_c_contiguous() => Ok(Some(Self {
                shape: memory.shape().to_vec(),
                element_bytes: memory.item_size(),
                format: native(&memory.format().to_string_lossy()),
                memory,
            })),
            Err(error) if error.is_instance_of::<PyTypeError>(py) => Ok(None),
            // `get` refuses memory without a shape: a single record of numpy.
            Err(error) if !error.is_instance_of::<PyBufferError>(py) => Err(error),
            _ => {
                let view = PyMemoryView::from(object)?;
                Ok(Some(Self {
                    memory: PyUntypedBuffer::get(&view.call_method0("tobytes")?)?,
                    shape: view.getattr("shape")?.extract()?,
                    element_bytes: view.getattr("itemsize")?.extract()?,
                    format: native(&view.getattr("format")?.extract::<String>()?),
                }))
            }
        }
    }

    /// Whether the elements are single bytes.
    pub(crate) fn is_bytes(&self) -> bool {
        ["B", "b", "c"].contains(&self.format.as_str())
    }

    /// Whether the elements are byte strings of one length.
    pub(crate) fn is_record(&self) -> bool {
        self.format.ends_with(['s', 'x']) && !self.format.contains(['T', '{'])
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
        match self.memory.len_bytes() {
            0 => &[],
            // SAFETY: the memory is contiguous, and stays valid until the buffer is released.
            len => unsafe { slice::from_raw_parts(self.memory.buf_ptr().cast(), len) },
        }
    }
}

/// The format without a prefix for the byte order of this machine.
fn native(format: &str) -> String {
    let order = if cfg!(target_endian = "little") {
        '<'
    } else {
        '>'
    };
    format.trim_start_matches(['@', '=', order]).to_owned()
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
    hashes
        .try_reserve_exact(words.len())
        .map_err(|_| crate::errors::memory(words.len()))?;
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
