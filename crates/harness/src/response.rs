//! Any bytes as a response: an error, or something that is written and read back the same.

use arbitrary::Arbitrary;
use nutfilter::{FilterResponse, Nut25};

/// The text.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Case<'a>(pub &'a [u8]);

impl Case<'_> {
    /// Reads, writes, reads.
    ///
    /// # Panics
    ///
    /// Where the second reading differs from the first.
    pub fn check(&self) {
        let Ok(response) = FilterResponse::from_json(self.0) else {
            return;
        };
        let json = response.to_json();
        let again = FilterResponse::from_json(json.as_bytes()).expect("our own text");
        assert_eq!(again, response, "{}", String::from_utf8_lossy(self.0));
        if let Ok(filter) = response.clone().into_filter::<Nut25>() {
            assert_eq!(FilterResponse::new(&filter, response.timestamp), response);
        }
    }
}
