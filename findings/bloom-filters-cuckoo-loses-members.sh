#!/usr/bin/env bash
# bloom-filters (npm) 3.0.4: a third of the members of a full cuckoo filter is absent, and nothing says so.
#
# Expected: a cuckoo filter has no false negatives. `CuckooFilter.create(10000, 0.001)` holds 10,000 items; `add()` returns false,
# or throws, when an item finds no place.
# Seen: `add()` returns true 10,000 times, `length` is 10,000, and 3,374 of the items are absent. It begins at half of the capacity
# (24 of 5,000). An item's second bucket is its hash XOR that of its fingerprint, modulo a number of buckets that need not be a
# power of two. So an item that was moved may lie where no look-up goes. The rate of false positives is 3 %, with 0.1 % asked for.
# The package's BloomFilter is right in both.
# Why it matters: "not in the set" is the answer that people rely on: not spent, not revoked, not seen. Ask a filter for all of its
# members once before you publish it.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts bloom-filters@3.0.4 >/dev/null
node - <<'JAVASCRIPT'
const assert = require('node:assert')
const { BloomFilter, CuckooFilter } = require('bloom-filters')

const fill = (filter, from, to) => {
  let accepted = 0
  for (let i = from; i < to; i++) accepted += filter.add(`note ${i}`) !== false
  return accepted
}
const found = (filter, from, to) => {
  let count = 0
  for (let i = from; i < to; i++) count += filter.has(`note ${i}`)
  return count
}
const cuckoo = CuckooFilter.create(10000, 0.001)
const half = { accepted: fill(cuckoo, 0, 5000), absent: 5000 - found(cuckoo, 0, 5000) }
const full = { accepted: half.accepted + fill(cuckoo, 5000, 10000), length: cuckoo.length, absent: 10000 - found(cuckoo, 0, 10000) }
const rate = found(cuckoo, 10000, 60000) / 50000
const bloom = BloomFilter.create(10000, 0.001)
fill(bloom, 0, 10000)
const other = { absent: 10000 - found(bloom, 0, 10000), rate: found(bloom, 10000, 60000) / 50000 }
console.log('cuckoo, half full:', half)
console.log('cuckoo, full:', full, 'rate of false positives:', rate, 'asked for: 0.001')
console.log('Bloom:', other)
assert(half.accepted === 5000 && half.absent > 0 && full.accepted === 10000 && full.length === 10000)
assert(full.absent > 2000 && rate > 0.01 && other.absent === 0 && other.rate < 0.002)
JAVASCRIPT
