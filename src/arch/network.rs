//! The sorting network of 16 places, for kernels of any width: a place is a number or a vector of numbers.
//!
//! 60 comparators, the smallest known number for 16 places (M. W. Green, 1969; Knuth, volume 3, 5.3.4), in ten
//! layers. It is a macro because the places must be in registers: every index is a constant and does not depend
//! on the optimiser.

/// Sorts the array `$v` of 16 places; `$exchange(a, b)` gives the lesser and the greater of two.
macro_rules! sort_16 {
    ($v:ident, $exchange:ident) => {
        sort_16!(@layers $v, $exchange,
            (0, 13) (1, 12) (2, 15) (3, 14) (4, 8) (5, 6) (7, 11) (9, 10)
            (0, 5) (1, 7) (2, 9) (3, 4) (6, 13) (8, 14) (10, 15) (11, 12)
            (0, 1) (2, 3) (4, 5) (6, 8) (7, 9) (10, 11) (12, 13) (14, 15)
            (0, 2) (1, 3) (4, 10) (5, 11) (6, 7) (8, 9) (12, 14) (13, 15)
            (1, 2) (3, 12) (4, 6) (5, 7) (8, 10) (9, 11) (13, 14)
            (1, 4) (2, 6) (5, 8) (7, 10) (9, 13) (11, 14)
            (2, 4) (3, 6) (9, 12) (11, 13)
            (3, 5) (6, 8) (7, 9) (10, 12)
            (3, 4) (5, 6) (7, 8) (9, 10) (11, 12)
            (6, 7) (8, 9))
    };
    (@layers $v:ident, $exchange:ident, $(($a:literal, $b:literal))*) => {
        $( ($v[$a], $v[$b]) = $exchange($v[$a], $v[$b]); )*
    };
}
pub(crate) use sort_16;

#[cfg(test)]
mod tests {
    #[test]
    fn every_sequence_of_zeros_and_ones_is_sorted() {
        for bits in 0..1_u32 << 16 {
            let mut places: [u32; 16] = core::array::from_fn(|place| bits >> place & 1);
            let exchange = |a: u32, b: u32| (a.min(b), a.max(b));
            sort_16!(places, exchange);
            assert!(places.is_sorted(), "{bits:#b}");
        }
    }
}
