//! Checks the reference against vectors published by others. They are not in the repository: the tests read the
//! folder named by `NUTFILTER_VECTORS`, and skip with a message if it is not set.

use nutfilter_harness::vectors::{hex, list, published};
use nutfilter_reference::{Profile, build, decode, matches, serialize_bip158};

#[test]
fn ten_items_of_nut25_give_the_published_filter() {
    let Some(file) = published("nut25-ten-items.json") else {
        return;
    };
    let items: Vec<Vec<u8>> = list(&file["items_hex"]).iter().map(hex).collect();
    let non_members: Vec<Vec<u8>> = list(&file["non_members_hex"]).iter().map(hex).collect();
    let filter = hex(&file["filter_hex"]);

    assert_eq!(build(Profile::Nut25, &items, 19, 784_931), filter);
    assert_eq!(
        decode(&filter, 10, 19, 784_931).map(|values| values.len()),
        Ok(10)
    );
    let ask = |targets: &[Vec<u8>]| matches(&filter, 10, 19, 784_931, Profile::Nut25, targets);
    assert_eq!(ask(&items), Ok(vec![true; 10]));
    assert_eq!(ask(&non_members), Ok(vec![false; non_members.len()]));
}

#[test]
fn testnet_blocks_give_their_basic_filters() {
    let Some(file) = published("bip158-testnet-19.json") else {
        return;
    };
    let rows = &list(&file)[1..]; // the first row is the heading
    assert!(!rows.is_empty());
    for row in rows {
        let mut key = hex(&row[1]);
        key.reverse(); // displayed order to internal order
        key.truncate(16);
        let profile = Profile::bip158(key.try_into().unwrap());

        let mut scripts = Block::new(&hex(&row[2])).output_scripts();
        scripts.retain(|script| script.first() != Some(&OP_RETURN));
        scripts.extend(list(&row[3]).iter().map(hex));
        scripts.retain(|script| !script.is_empty());
        scripts.sort();
        scripts.dedup();

        let filter = build(profile, &scripts, 19, 784_931);
        let serialized = serialize_bip158(scripts.len() as u64, &filter);
        assert_eq!(serialized, hex(&row[5]), "block {}", row[0]);
    }
}

const OP_RETURN: u8 = 0x6a;

/// A minimal parser for a block, to find its output scripts.
struct Block<'a> {
    rest: &'a [u8],
}

impl<'a> Block<'a> {
    fn new(block: &'a [u8]) -> Self {
        Block { rest: block }
    }

    fn output_scripts(mut self) -> Vec<Vec<u8>> {
        let mut scripts = Vec::new();
        self.take(80); // the header
        for _ in 0..self.count() {
            self.take(4); // version
            let has_witness = self.rest.starts_with(&[0, 1]);
            if has_witness {
                self.take(2);
            }
            let inputs = self.count();
            for _ in 0..inputs {
                self.take(36); // the output it spends
                self.counted_bytes(); // its script
                self.take(4); // sequence
            }
            for _ in 0..self.count() {
                self.take(8); // amount
                scripts.push(self.counted_bytes().to_vec());
            }
            if has_witness {
                for _ in 0..inputs {
                    for _ in 0..self.count() {
                        self.counted_bytes();
                    }
                }
            }
            self.take(4); // lock time
        }
        assert!(
            self.rest.is_empty(),
            "{} bytes after the block",
            self.rest.len()
        );
        scripts
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        taken
    }

    fn count(&mut self) -> usize {
        let width = match self.take(1)[0] {
            0xfd => 2,
            0xfe => 4,
            0xff => 8,
            small => return usize::from(small),
        };
        self.take(width)
            .iter()
            .rev()
            .fold(0, |count, &byte| count << 8 | usize::from(byte))
    }

    fn counted_bytes(&mut self) -> &'a [u8] {
        let count = self.count();
        self.take(count)
    }
}
