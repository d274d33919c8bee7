#!/usr/bin/env bash
# nostr-tools (npm) 2.25.2: an event that two relays send is twice in the sorted list if another event has the same second.
#
# Expected: `insertEventIntoDescendingList` compares ids and leaves out an event that the list has: an event that is given twice is
# there once, as in `mergeReverseSortedLists` of the same module.
# Seen: that holds while each event has a second of its own. Among events of one second it searches for the place after all of them and
# meets the same id only by chance: 100 events of one second that come twice make 199 entries, 1,000 events in 100 seconds 1,918.
# `insertEventIntoAscendingList` does the same.
# Why it matters: programs write many events within a second (notes of a wallet, zaps, a migration), and each relay sends all of them.
# A sum over the list counts most of them twice. Keep a set of the ids, or sort with `sortEvents` after removing duplicates.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts nostr-tools@2.25.2 >/dev/null
cat >check.mjs <<'JAVASCRIPT'
import assert from 'node:assert'
import { createHash } from 'node:crypto'
import { utils } from 'nostr-tools'

const seen = []
for (const [count, seconds] of [[1000, 1000], [1000, 100], [100, 1]]) {
  const events = Array.from({ length: count }, (_, i) => ({
    id: createHash('sha256').update(`event ${i}`).digest('hex'),
    created_at: 1_700_000_000 + (i % seconds),
  }))
  const entries = (insert) => [...events, ...events].reduce(insert, []).length
  const sorted = events.toSorted((a, b) => b.created_at - a.created_at)
  seen.push({
    events: count,
    seconds,
    descending: entries((list, event) => utils.insertEventIntoDescendingList(list, event)),
    ascending: entries((list, event) => utils.insertEventIntoAscendingList(list, event)),
    merged: utils.mergeReverseSortedLists(sorted, sorted).length,
  })
}
console.log('entries after each event came twice:')
console.table(seen)
const lists = seen.map(({ descending, ascending, merged }) => [descending, ascending, merged])
assert.deepEqual(lists, [[1000, 1000, 1000], [1918, 1932, 1000], [199, 199, 100]])
JAVASCRIPT
node check.mjs
