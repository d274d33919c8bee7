//! Transient failures, which are over by the time they are noticed.

use super::SourceError;

/// An error that knows whether an immediate retry is likely to succeed.
pub trait Transient {
    /// Whether the cause is already gone.
    fn is_transient(&self) -> bool;
}

impl Transient for SourceError {
    fn is_transient(&self) -> bool {
        matches!(self, SourceError::ChangedWhileRead { .. })
    }
}

/// Retries once if the cause of the failure is already gone. Example: a mint that started while its database was
/// being read has finished starting. The items of the first attempt must be discarded.
///
/// # Errors
///
/// The first error if it is not transient; otherwise the error of the retry.
pub fn retry_once<T, E: Transient>(mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    match attempt() {
        Err(error) if error.is_transient() => attempt(),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_transient_errors_are_retried_once() {
        let changed = || SourceError::ChangedWhileRead("mint.db".into());
        let attempts = |results: [Result<(), SourceError>; 2]| {
            let (mut results, mut attempts) = (results.into_iter(), 0);
            let result = retry_once(|| {
                attempts += 1;
                results.next().unwrap()
            });
            (result.is_ok(), attempts)
        };
        assert_eq!(attempts([Err(changed()), Ok(())]), (true, 2));
        assert_eq!(attempts([Err(changed()), Err(changed())]), (false, 2));
        assert_eq!(attempts([Err(SourceError::Stopped), Ok(())]), (false, 1));
    }
}
