//! "Is this name free?": `cargo run --example exclusion`.
//!
//! A registrar publishes a filter of the names that are taken, with its index. Who wants a name looks there, without
//! telling anybody which name it is: "not in the filter" is certain as of the moment of publishing, and the rest, one
//! free name in a thousand, is asked about. It ends with what that takes, beside a contract that keeps a Bloom filter of
//! 4,096 bytes for as many names.

use std::error::Error;

use nutfilter::{
    Filter, IndexInterval, ItemHash, Params, SeekIndex, SipHash, SortedHashes, map_to_range,
};

/// Names that are taken.
const TAKEN: u32 = 10_000;

/// The Bloom filter of a smart-contract article: bits, and bits a name sets.
const ARTICLE: (f64, i32) = (32_768.0, 2);

/// What the registrar publishes. The bytes are not to be trusted: a client validates both.
struct Published {
    n: u64,
    params: Params,
    /// Drawn when all names were taken, so that nobody could look for names that collide with others.
    key: (u64, u64),
    filter: Vec<u8>,
    index: Vec<u8>,
}

/// What a client learns without asking.
#[derive(Debug, PartialEq)]
enum Answer {
    /// No name in the set has a value between these two, and the value of this one lies there.
    SurelyFree {
        above: Option<u64>,
        below: Option<u64>,
    },
    /// A taken name has the same value: most likely this very one.
    ProbablyTaken,
}

fn publish(
    names: &[String],
    params: Params,
    key: (u64, u64),
) -> Result<Published, nutfilter::BuildError> {
    let hasher = SipHash::new(key.0, key.1);
    let filter = SortedHashes::from_items_with(hasher, names).encode(params)?;
    // One entry for 64 names: about a bit a name.
    let index = SeekIndex::build(&filter, IndexInterval::Items(64));
    Ok(Published {
        n: u64::from(filter.n()),
        params,
        key,
        index: index.to_bytes(),
        filter: filter.into_bytes(),
    })
}

impl Published {
    fn bytes(&self) -> usize {
        self.filter.len() + self.index.len()
    }

    /// The filter, every bit of it validated.
    fn received(&self) -> Result<Filter<'_, SipHash>, nutfilter::DecodeError> {
        let hasher = SipHash::new(self.key.0, self.key.1);
        Filter::parse_with(hasher, self.filter.as_slice(), self.n, self.params)
    }
}

/// Whether a name is free, and the proof: anyone with the same bytes finds the same two neighbours.
fn ask(filter: &Filter<'_, SipHash>, name: &str) -> Answer {
    let value = map_to_range(filter.hasher().hash(name.as_bytes()), filter.range());
    let mut above = None;
    for other in filter.values() {
        if other == value {
            return Answer::ProbablyTaken;
        }
        if other > value {
            let below = Some(other);
            return Answer::SurelyFree { above, below };
        }
        above = Some(other);
    }
    Answer::SurelyFree { above, below: None }
}

/// The name with this number; no two of less than thirty million have the same.
fn name(number: u32) -> String {
    const CONSONANTS: &[u8; 15] = b"bdfghklmnprstvz";
    const VOWELS: &[u8; 5] = b"aeiou";
    const SYLLABLES: u32 = 75;
    // The factor has no divisor in common with 75, so this mixes them up and loses none.
    let mut left = (u64::from(number) * 9_876_541 % u64::from(SYLLABLES.pow(4))) as u32;
    let mut name = String::new();
    for _ in 0..4 {
        let syllable = (left % SYLLABLES) as usize;
        name.push(char::from(CONSONANTS[syllable / 5]));
        name.push(char::from(VOWELS[syllable % 5]));
        left /= SYLLABLES;
    }
    name
}

fn main() -> Result<(), Box<dyn Error>> {
    let taken: Vec<String> = (0..TAKEN).map(name).collect();
    let free: Vec<String> = (TAKEN..TAKEN + 100_000).map(name).collect();

    // The registrar: one free name in a thousand may be taken for a taken one.
    let key = (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
    let published = publish(&taken, Params::for_rate(0.001)?, key)?;
    println!(
        "{TAKEN} names are taken; the registrar publishes {} bytes and an index of {}",
        published.filter.len(),
        published.index.len()
    );

    // A client, one name at a time, with the evidence.
    let filter = published.received()?;
    for candidate in [&free[0], &taken[4_711], &free[1]] {
        match ask(&filter, candidate) {
            Answer::SurelyFree { above, below } => println!(
                "{candidate} is surely free: nothing lies between {} and {}",
                above.map_or("the start".to_owned(), |value| value.to_string()),
                below.map_or("the end".to_owned(), |value| value.to_string()),
            ),
            Answer::ProbablyTaken => println!("{candidate} is probably taken: ask"),
        }
    }

    // Many names, through the index.
    let index = SeekIndex::from_bytes(&published.index)?;
    let indexed = filter.with_index(&index)?;
    assert!(indexed.matches(&taken).iter().all(|&maybe| maybe));
    let answers = indexed.matches(&free);
    for (name, &maybe) in free.iter().zip(&answers).take(200) {
        assert_eq!(ask(&filter, name) == Answer::ProbablyTaken, maybe);
    }
    let to_ask = answers.iter().filter(|&&maybe| maybe).count();
    assert!((50..200).contains(&to_ask), "{to_ask}");
    println!("of {} free names {to_ask} must be asked about", free.len());

    sizes(&taken, key)
}

/// What other rates take, beside the article's filter and the Bloom filter of the same rate.
fn sizes(taken: &[String], key: (u64, u64)) -> Result<(), Box<dyn Error>> {
    let n = taken.len() as f64;
    let (bits, k) = ARTICLE;
    let rate = (1.0 - (-f64::from(k) * n / bits).exp()).powi(k);
    println!("\n   wrong once in    filter  its index  Bloom of that rate  (bytes)");
    println!(
        "{:>16.1} {:>9} {:>10} {:>19}  the article's",
        1.0 / rate,
        "",
        "",
        bits / 8.0
    );
    for m in [5, 20, 1_000, 784_931] {
        let published = publish(taken, Params::with_best_p(m)?, key)?;
        // Each of N names marks one of NM values.
        let rate = -(-1.0 / m as f64).exp_m1();
        let bloom = n * -rate.ln() / std::f64::consts::LN_2.powi(2) / 8.0;
        println!(
            "{:>16.1} {:>9} {:>10} {bloom:>19.0}",
            1.0 / rate,
            published.filter.len(),
            published.index.len(),
        );
        // Where names are hardly ever taken for taken, the filter is smaller with its index, too.
        assert!(m < 1_000 || (published.bytes() as f64) < bloom, "{m}");
    }
    Ok(())
}
