//! The allocator: a bump arena that JavaScript empties before each operation.
//!
//! No operation leaves anything in memory that a later one needs. Freeing everything at once is therefore
//! enough, and nothing can leak. Only the last block is ever freed or resized in place.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::{memory_grow, memory_size};
use core::cell::Cell;
use core::ptr::null_mut;

const PAGE: usize = 1 << 16;

unsafe extern "C" {
    /// The linker puts this symbol behind the stack and all static data.
    static __heap_base: u8;
}

pub(crate) struct Arena {
    /// The first free address; 0 before the first reset.
    free: Cell<usize>,
}

// SAFETY: the module has no threads.
unsafe impl Sync for Arena {}

#[global_allocator]
pub(crate) static ARENA: Arena = Arena { free: Cell::new(0) };

impl Arena {
    pub(crate) fn reset(&self) {
        self.free.set((&raw const __heap_base).addr());
    }

    /// Moves the first free address to `end`, and grows the memory if necessary.
    fn extend_to(&self, end: Option<usize>) -> bool {
        let Some(end) = end else { return false };
        let missing = end.div_ceil(PAGE).saturating_sub(memory_size(0));
        if missing > 0 && memory_grow(0, missing) == usize::MAX {
            return false;
        }
        self.free.set(end);
        true
    }
}

// SAFETY: `alloc` returns blocks that do not overlap: each begins at or behind the first free address, and ends
// at the next one. That address only decreases when the last block is freed or shrunk.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = self.free.get().next_multiple_of(layout.align());
        if self.extend_to(start.checked_add(layout.size())) {
            core::ptr::with_exposed_provenance_mut(start)
        } else {
            null_mut()
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if block.addr() + layout.size() == self.free.get() {
            self.free.set(block.addr());
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if block.addr() + layout.size() == self.free.get() {
            let resized = self.extend_to(block.addr().checked_add(size));
            return if resized { block } else { null_mut() };
        }
        if size <= layout.size() {
            return block;
        }
        // SAFETY: the caller promises that `size` is valid for this alignment.
        let moved = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !moved.is_null() {
            // SAFETY: both blocks have at least this size, and they do not overlap.
            unsafe { moved.copy_from_nonoverlapping(block, layout.size()) };
        }
        moved
    }
}
