#!/usr/bin/env bash
# applesauce-core (npm) 6.2.0: its event store ignores the `limit` of a filter that has no date.
#
# Expected: `getByFilters({ kinds: [7376], limit: 1 })` is the newest event of the kind, as a relay answers the filter in NIP-01.
# Seen: all events come, in the order in which they were added, so the first is not the newest either. `getTimeline` sorts them, and
# returns all too. `removeByFilters` with `limit: 1` removes all. With a `since` or `until`, even `since: 0`, the limit holds and the
# newest come first.
# Why it matters: programs ask the relays and then the store with the same filter. The one that takes the first event as the last entry
# of its wallet's history is right as long as the store holds one, and reads an old one after another subscription has filled it.
# Add `since: 0` to a filter with a limit, or sort and cut.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts applesauce-core@6.2.0 nostr-tools@2.25.2 >/dev/null
cat >check.mjs <<'JAVASCRIPT'
import assert from 'node:assert'
import { EventStore } from 'applesauce-core'
import { finalizeEvent, generateSecretKey } from 'nostr-tools'

const HISTORY = 7376 // of a NIP-60 wallet
const key = generateSecretKey()
const store = new EventStore()
for (const created_at of [300, 100, 500, 200, 400]) store.add(finalizeEvent({ kind: HISTORY, created_at, tags: [], content: '' }, key))

const dates = (events) => [...events].map(({ created_at }) => created_at)
const seen = {}
for (const more of [{ limit: 1 }, { limit: 1, since: 0 }, { limit: 2, until: 400 }]) {
  const filter = { kinds: [HISTORY], ...more }
  seen[JSON.stringify(more)] = { getByFilters: dates(store.getByFilters(filter)), getTimeline: dates(store.getTimeline(filter)) }
}
console.log(seen)
assert.deepEqual(Object.values(seen), [
  { getByFilters: [300, 100, 500, 200, 400], getTimeline: [500, 400, 300, 200, 100] },
  { getByFilters: [500], getTimeline: [500] },
  { getByFilters: [400, 300], getTimeline: [400, 300] },
])
const removed = store.removeByFilters({ kinds: [HISTORY], limit: 1 })
console.log('removed with a limit of 1:', removed)
assert.equal(removed, 5)
JAVASCRIPT
node check.mjs
