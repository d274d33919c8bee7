//! Free memory goes back to the system. glibc keeps what thousands of slow readers took, as pages in use lie between
//! free ones; other C libraries have no function for it.

#![cfg_attr(all(target_os = "linux", target_env = "gnu"), expect(unsafe_code))]

use std::convert::Infallible;
use std::time::Duration;

/// Gives free pages back once a second. That takes 15 to 100 µs if little has changed.
pub(super) async fn give_back() -> Infallible {
    loop {
        trim();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim takes no pointer, and its manual calls it safe for threads.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    /// Resident memory of this process, in pages.
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn pages_between_those_in_use_are_given_back() {
        let mut blocks: Vec<_> = (0..8_000).map(|_| Some(vec![1_u8; 16 << 10])).collect();
        for (i, block) in blocks.iter_mut().enumerate() {
            // One of 16 stays in use.
            if i % 16 != 0 {
                *block = None;
            }
        }
        let before = resident();
        super::trim();
        let after = resident();
        assert!(after + 16_000 < before, "{before} pages became {after}");
    }
}
