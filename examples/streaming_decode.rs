//! Walks through two filters at once without storing their values: `cargo run --example streaming_decode`.
//!
//! Two filters can be compared value by value if their N, M and hasher are equal.

use nutfilter::{Filter, Params, SortedHashes};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let filter = |from: u32| {
        let items = (from..from + 1_000_000).map(u32::to_le_bytes);
        SortedHashes::from_items(items).encode(Params::default())
    };
    let (old, new) = (filter(0)?, filter(10_000)?);
    println!("{} values in common", common(&old, &new));

    // Reading all values of one filter is three times as fast with `fold`, `sum`, `for_each` and their like.
    let mean = new.values().map(|value| value as f64).sum::<f64>() / f64::from(new.n());
    println!("mean value: {:.4} of the range", mean / new.range() as f64);
    Ok(())
}

fn common(a: &Filter, b: &Filter) -> u32 {
    let (mut a, mut b) = (a.values().peekable(), b.values().peekable());
    let mut count = 0;
    while let (Some(left), Some(right)) = (a.peek(), b.peek()) {
        match left.cmp(right) {
            std::cmp::Ordering::Less => drop(a.next()),
            std::cmp::Ordering::Greater => drop(b.next()),
            std::cmp::Ordering::Equal => {
                count += 1;
                a.next();
                b.next();
            }
        }
    }
    count
}
