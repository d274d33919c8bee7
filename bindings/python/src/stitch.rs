//! The function `stitch`.

use nutfilter::BuildError;
use nutfilter::pieces::Piece;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::number::{Number, params, set_size};
use crate::{errors, items};

/// What can end the stitching: its own error, or an exception of the iterable or the file.
enum Fault {
    Build(BuildError),
    Python(PyErr),
}

impl From<BuildError> for Fault {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

/// Joins the pieces of a filter of `n` items, in the order of their ranges, and writes its bytes to `file`.
///
/// pieces: an iterable of what SortedHashes.encode_piece returned (bytes or buffers), read one at a time.
/// file: an object with `write`, such as a file opened with "wb" or an io.BytesIO.
///
/// n, p, m: as given to encode_piece. They bound what is written, whatever the pieces say.
///
/// The bytes are those of SortedHashes.encode() for the whole set.
///
/// Raises BuildError if a piece is damaged, of another filter or out of order, or if the pieces do not have n items
/// together; what was written is then not a filter. Raises ParamsError for p or m outside the limits of the format.
///
/// Cost: one pass. Memory: one piece.
#[pyfunction]
#[pyo3(signature = (pieces, file, n, p=19, m=784931))]
pub(crate) fn stitch(
    pieces: &Bound<'_, PyAny>,
    file: &Bound<'_, PyAny>,
    n: Number,
    p: Number,
    m: Number,
) -> PyResult<()> {
    let (n, params) = (set_size(n)?, params(p, m)?);
    let write = file.getattr("write")?;
    // The library takes pieces, not results: the first error ends the iteration and is kept.
    let mut broken = None;
    let read = pieces.try_iter()?.map_while(|item| {
        let piece = item
            .and_then(|item| items::with_item(&item, Piece::from_bytes))
            .and_then(|piece| piece.map_err(errors::build));
        piece.map_err(|error| broken = Some(error)).ok()
    });
    let stitched = nutfilter::pieces::stitch(n, params, read, |bytes| {
        let bytes = PyBytes::new(file.py(), bytes);
        write.call1((bytes,)).map(drop).map_err(Fault::Python)
    });
    match (broken, stitched) {
        (Some(error), _) | (None, Err(Fault::Python(error))) => Err(error),
        (None, Err(Fault::Build(error))) => Err(errors::build(error)),
        (None, Ok(())) => Ok(()),
    }
}
