//! The Bloom filter of an article about smart contracts that keep names: how often it is wrong, and what else could
//! hold the names.
//!
//! The article's filter has m = 32,768 bits for 10,000 names, and sets k = 2 of them a name: the last 8 bytes of the
//! name's SHA-512/256 and of its SHA3-256, each as a big-endian integer modulo m.

use std::collections::HashSet;

use nutfilter::{Nut23, Params, SortedHashes};
use nutfilter_benchmarks::fixture::SEED;
use nutfilter_benchmarks::record::{Names, Space};
use nutfilter_harness::seeded;
use sha2::Sha512_256;
use sha3::{Digest, Sha3_256};

use crate::space::{Odds, say};

/// Names in the set.
const TAKEN: usize = 10_000;

/// m.
const BITS: u64 = 32_768;

/// k.
const K: u32 = 2;

/// Names that are not in the set.
const FREE: usize = 1_000_000;

/// The words of both digests in the order in which filters take them, the article's two first: the last words of
/// either, then the words before them.
type Words = [u64; 8];

fn words(name: &str) -> Words {
    let digests: [[u8; 32]; 2] = [
        Sha512_256::digest(name).into(),
        Sha3_256::digest(name).into(),
    ];
    std::array::from_fn(|at| {
        let (words, _) = digests[at % 2].as_chunks::<8>();
        u64::from_be_bytes(words[3 - at / 2])
    })
}

/// A Bloom filter whose places are some of a name's words, modulo its bits.
struct Bloom {
    bits: Vec<bool>,
    /// Which words.
    from: std::ops::Range<usize>,
}

impl Bloom {
    fn of(names: &[Words], from: std::ops::Range<usize>) -> Self {
        let bits = vec![false; BITS as usize];
        let mut filter = Self { bits, from };
        for name in names {
            for &word in &name[filter.from.clone()] {
                filter.bits[(word % BITS) as usize] = true;
            }
        }
        filter
    }

    fn contains(&self, name: &Words) -> bool {
        let mut places = name[self.from.clone()].iter();
        places.all(|word| self.bits[(word % BITS) as usize])
    }

    fn k(&self) -> u32 {
        self.from.len() as u32
    }

    /// How many of the free names it takes for taken, once every taken one is there; both as the formula has it, and
    /// as the bits have it that happen to be set.
    fn ask(&self, taken: &[Words], free: &[Words]) -> u64 {
        assert!(
            taken.iter().all(|name| self.contains(name)),
            "a name is missing"
        );
        let (found, asked) = (count(free, |name| self.contains(name)), free.len() as u64);
        let formula = self.odds();
        assert!(
            formula.allow(asked, found),
            "{found} of {asked}, by {formula:?}"
        );
        let set = self.bits.iter().filter(|&&bit| bit).count();
        let exact = Odds::fixed((set as f64 / BITS as f64).powi(self.k() as i32));
        assert!(
            exact.allow(asked, found),
            "{found} of {asked}, by {exact:?}"
        );
        found
    }

    fn odds(&self) -> Odds {
        Odds::of_cells(TAKEN as u64, self.k(), BITS)
    }

    fn space(&self, role: &str, taken: &[Words], free: &[Words]) -> Space {
        Space {
            structure: "bloom".to_owned(),
            parameters: format!("k = {}", self.k()),
            role: Some(role.to_owned()),
            n: TAKEN as u64,
            bits_per_item: BITS as f64 / TAKEN as f64,
            designed_rate: formula_rate(self.k()),
            asked: free.len() as u64,
            false_positives: self.ask(taken, free),
        }
    }
}

fn count<T>(names: &[T], is: impl Fn(&T) -> bool) -> u64 {
    names.iter().filter(|name| is(name)).count() as u64
}

/// `(1 - e^(-kn/m))^k`
fn formula_rate(k: u32) -> f64 {
    let load = f64::from(k) * TAKEN as f64 / BITS as f64;
    (1.0 - f64::exp(-load)).powi(k as i32)
}

/// The whole numbers on both sides of `best`, the one of the lower rate first.
fn neighbours(best: f64) -> [u32; 2] {
    let below = (best.floor() as u32).max(1);
    let mut both = [below, below + 1];
    both.sort_by(|&a, &b| formula_rate(a).total_cmp(&formula_rate(b)));
    both
}

/// The filter of this library with this M, asked about the names themselves.
fn gcs(role: &str, m: u64, taken: &[String], free: &[String]) -> Space {
    let params = Params::with_best_p(m).expect("within the limits");
    let set = SortedHashes::<Nut23>::from_items(taken);
    let filter = set.encode(params).expect("a filter of so many");
    assert!(
        filter.matches(taken).iter().all(|&maybe| maybe),
        "a name is missing"
    );
    let found = count(&filter.matches(free), |&maybe| maybe);
    let (n, asked) = (taken.len() as u64, free.len() as u64);
    let odds = Odds::of_cells(n, 1, n * m);
    assert!(odds.allow(asked, found), "{found} of {asked}, by {odds:?}");
    Space {
        structure: "gcs".to_owned(),
        parameters: format!("P = {}, M = {m}", params.p()),
        role: Some(role.to_owned()),
        n,
        bits_per_item: filter.bytes().len() as f64 * 8.0 / n as f64,
        designed_rate: odds.rate,
        asked,
        false_positives: found,
    }
}

/// The largest M whose filter fits so many bytes.
fn largest_m(taken: &[String], bytes: u64) -> u64 {
    let set = SortedHashes::<Nut23>::from_items(taken);
    let fits = |m: &u64| {
        let params = Params::with_best_p(*m).expect("within the limits");
        let filter = set.encode(params).expect("a filter of so many");
        filter.bytes().len() as u64 <= bytes
    };
    let fitting = (1..).take_while(fits);
    fitting.last().expect("M = 1 takes two bits a name")
}

/// The smallest M whose filter is wrong no more often than this.
fn smallest_m(rate: f64) -> u64 {
    let keeps = |m: &u64| Odds::of_cells(TAKEN as u64, 1, TAKEN as u64 * m).rate <= rate;
    (1..).find(keeps).expect("rates fall with M")
}

/// Builds the article's filter and its others over the same names, and asks all of them the same.
pub(crate) fn measure() -> Names {
    let mut names = plausible(TAKEN + FREE);
    let free = names.split_off(TAKEN);
    let taken = names;
    let words = |names: &[String]| names.iter().map(|name| words(name)).collect::<Vec<Words>>();
    let (taken_words, free_words) = (words(&taken), words(&free));

    let best_k = BITS as f64 / TAKEN as f64 * std::f64::consts::LN_2;
    let article = Bloom::of(&taken_words, 0..K as usize);
    let rate = formula_rate(K);
    let of_rate = smallest_m(rate);
    let [best, other] = neighbours(best_k);
    // Behind the article's words, so that this is not its filter once more where the best k is its own.
    let bloom = |role, k: u32| {
        let from = K as usize..(K + k) as usize;
        Bloom::of(&taken_words, from).space(role, &taken_words, &free_words)
    };
    let others = vec![
        gcs("same-bytes", largest_m(&taken, BITS / 8), &taken, &free),
        gcs("same-rate", of_rate, &taken, &free),
        gcs("rate-above", of_rate - 1, &taken, &free),
        bloom("best-k", best),
        bloom("other-k", other),
    ];
    let measured = Names {
        n: TAKEN as u64,
        bits: BITS,
        k: K,
        asked: FREE as u64,
        false_positives: article.ask(&taken_words, &free_words),
        formula_rate: rate,
        best_k,
        others,
    };
    eprintln!(
        "names: {} of {} (formula {rate:.6}), best k {best_k:.3}",
        measured.false_positives, measured.asked
    );
    measured.others.iter().for_each(say);
    measured
}

/// So many different names, always the same: syllables that people could speak, and a number behind one in eight.
fn plausible(count: usize) -> Vec<String> {
    const ONSETS: [&str; 20] = [
        "b", "br", "c", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "st", "t",
        "tr", "v", "z",
    ];
    const VOWELS: [&str; 8] = ["a", "e", "i", "o", "u", "ai", "ea", "io"];
    const CODAS: [&str; 8] = ["", "", "", "", "l", "n", "r", "s"];
    let mut numbers = seeded::numbers(SEED);
    let mut below = |bound: usize| {
        let number = numbers.next().expect("they do not end");
        (number % bound as u64) as usize
    };
    let (mut names, mut seen) = (Vec::with_capacity(count), HashSet::with_capacity(count));
    while names.len() < count {
        let mut name = String::new();
        for _ in 0..2 + below(2) {
            name += ONSETS[below(ONSETS.len())];
            name += VOWELS[below(VOWELS.len())];
            name += CODAS[below(CODAS.len())];
        }
        if below(8) == 0 {
            name += &below(100).to_string();
        }
        if seen.insert(name.clone()) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The examples that FIPS 180-4 and FIPS 202 come with.
    #[test]
    fn both_digests_are_those_of_the_standards() {
        assert_eq!(
            hex(&Sha512_256::digest("abc")),
            "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"
        );
        assert_eq!(
            hex(&Sha3_256::digest("abc")),
            "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532"
        );
        assert_eq!(
            hex(&Sha512_256::digest("")),
            "c672b8d1ef56ed28ab87c3622c5114069bdd3ad7b8f9737498d0c01ecef0967a"
        );
        assert_eq!(
            hex(&Sha3_256::digest("")),
            "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a"
        );
    }

    #[test]
    fn a_name_sets_the_places_of_the_last_words_of_its_digests() {
        let words = words("abc");
        assert_eq!(words[0], 0xe0e2_f131_07e7_af23);
        assert_eq!(words[1], 0x46bf_e245_1143_1532);
        assert_eq!(words[6], 0x5304_8e26_8194_1ef9);
        let filter = Bloom::of(&[words], 0..2);
        let set: Vec<usize> = (0..filter.bits.len())
            .filter(|&bit| filter.bits[bit])
            .collect();
        assert_eq!(set, [0x1532, 0x2f23]);
    }

    #[test]
    fn two_is_the_best_whole_k_of_the_articles_numbers() {
        let best = BITS as f64 / TAKEN as f64 * std::f64::consts::LN_2;
        assert!((best - 2.2713).abs() < 1e-4, "{best}");
        assert_eq!(neighbours(best), [2, 3]);
        assert!(
            (formula_rate(2) - 0.208_7).abs() < 1e-4,
            "{}",
            formula_rate(2)
        );
    }

    #[test]
    fn names_are_different_and_always_the_same() {
        let names = plausible(2_000);
        assert_eq!(names, plausible(2_000));
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        assert!(
            names
                .iter()
                .all(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        );
    }

    #[test]
    fn the_filter_of_the_same_bytes_is_the_largest_that_fits() {
        let taken = plausible(TAKEN);
        let m = largest_m(&taken, BITS / 8);
        let bytes = |m| gcs("", m, &taken, &[]).bits_per_item * TAKEN as f64 / 8.0;
        assert!(bytes(m) <= 4096.0 && bytes(m + 1) > 4096.0, "{m}");
    }

    #[test]
    #[should_panic(expected = "by Odds")]
    fn a_filter_with_half_of_its_bits_set_by_nobody_stops_the_run() {
        let names = plausible(TAKEN + 10_000);
        let words: Vec<Words> = names.iter().map(|name| words(name)).collect();
        let (taken, free) = words.split_at(TAKEN);
        let mut filter = Bloom::of(taken, 0..2);
        filter
            .bits
            .iter_mut()
            .step_by(2)
            .for_each(|bit| *bit = true);
        filter.ask(taken, free);
    }
}
