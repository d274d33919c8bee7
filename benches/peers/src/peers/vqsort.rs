//! Highway's VQSort, as Debian builds it.

#![allow(unsafe_code)]

/// Memory for a `hwy::Sorter`, which holds one pointer.
type Sorter = [usize; 4];

#[link(name = "hwy_contrib")]
unsafe extern "C" {
    #[link_name = "_ZN3hwy6SorterC1Ev"]
    fn new(sorter: *mut Sorter);
    /// The last argument in C++ is an empty class, which is not passed.
    #[link_name = "_ZNK3hwy6SorterclEPmmNS_13SortAscendingE"]
    fn sort_ascending(sorter: *const Sorter, keys: *mut u64, count: usize);
}

pub(super) fn sort(keys: &mut [u64]) {
    let mut sorter = [0; 4];
    // SAFETY: the library writes only to its sorter and to the keys.
    unsafe {
        new(&mut sorter);
        sort_ascending(&sorter, keys.as_mut_ptr(), keys.len());
    }
}
