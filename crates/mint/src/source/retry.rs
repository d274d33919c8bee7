//! Failures that are over by the time they are noticed.

use super::SourceError;

/// An error that can tell whether the same attempt is likely to succeed at once.
pub trait Passing {
    /// Whether what went wrong is over.
    fn is_passing(&self) -> bool;
}

impl Passing for SourceError {
    fn is_passing(&self) -> bool {
        matches!(self, SourceError::ChangedWhileRead { .. })
    }
}

/// Tries again, once, what failed for a reason that is gone by now: a mint that started while its
/// database was being read has started. What the first attempt read is to be thrown away.
///
/// # Errors
///
/// That of the first attempt, if it is there to stay; otherwise that of the second.
pub fn twice_if_passing<T, E: Passing>(mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    match attempt() {
        Err(error) if error.is_passing() => attempt(),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed() -> SourceError {
        SourceError::ChangedWhileRead {
            path: "mint.db".into(),
        }
    }

    #[test]
    fn what_is_over_is_tried_once_more_and_anything_else_is_not() {
        let mut attempts = 0;
        let result = twice_if_passing(|| {
            attempts += 1;
            if attempts == 1 {
                Err(changed())
            } else {
                Ok(attempts)
            }
        });
        assert_eq!((result.unwrap(), attempts), (2, 2));

        let mut attempts = 0;
        let result: Result<(), _> = twice_if_passing(|| {
            attempts += 1;
            Err(changed())
        });
        assert!(result.unwrap_err().is_passing());
        assert_eq!(attempts, 2);

        let mut attempts = 0;
        let result: Result<(), _> = twice_if_passing(|| {
            attempts += 1;
            Err(SourceError::Stopped)
        });
        assert!(matches!(result, Err(SourceError::Stopped)));
        assert_eq!(attempts, 1);
    }
}
