//! Filters that are well-formed JSON but must be rejected or limited.

use crate::*;

#[test]
fn rolled_back_filter_returns_an_error() {
    let then = now() - 100;
    let mint = Loopback::saying(json(honest(then).to_json()));
    let client = MintClient::new(&mint.url(), Policy::default()).expect("a good URL");
    for (last_seen, rolled_back) in [(then - 1, false), (then, false), (then + 1, true)] {
        let filter = client
            .fetch_as::<Nut25>(&keyset(), NoteKind::Spent, Some(last_seen))
            .expect("a filter");
        assert_eq!(filter.rolled_back_from().is_some(), rolled_back);
        let answers = look_up(&filter, &[item(0)]);
        if !rolled_back {
            assert_eq!(answers, Ok(vec![Answer::MaybePresent]));
            continue;
        }
        assert_eq!(
            answers,
            Err(CheckError::RolledBack {
                timestamp: then,
                last_seen
            })
        );
    }
}

#[test]
fn filter_of_zeros_matches_no_note() {
    // This filter is valid but wrong: "absent" is only as reliable as the mint, and it reveals nothing.
    let n = 8_000;
    let mut zeros = honest(now() - 10);
    zeros.n = n;
    zeros.content = vec![0; n as usize * 20 / 8];
    let mint = Loopback::saying(json(zeros.to_json()));
    let client = MintClient::new(&mint.url(), Policy::default()).expect("a good URL");
    let filter = client.fetch(&keyset(), NoteKind::Spent).expect("a filter");
    let items: Vec<_> = (0..2 * ITEMS).map(item).collect();
    let matches = filter.matches(&items, Some(0)).expect("believable");
    let absent = Answer::Absent {
        as_of: zeros.timestamp,
    };
    assert_eq!(matches.answers, vec![absent; items.len()]);
}
