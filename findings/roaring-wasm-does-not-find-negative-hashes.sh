#!/usr/bin/env bash
# roaring-wasm (npm) 1.1.0: a signed hash that was added is not found.
#
# Expected: a 32-bit hash in JavaScript is signed more often than not (`| 0`, Math.imul, readInt32LE, Int32Array). A bitmap of unsigned
# numbers refuses negative ones, or takes each for its unsigned twin, as `x >>> 0` does: in all calls alike.
# Seen: `add` and an Int32Array store the unsigned twin. `has` of the number that was added is false. `remove` of it removes the
# twin. A plain array or a Set of numbers leaves negative ones out without an error. So of 1,000 hashes 517 are found, whatever
# way they were added, and the size says 1,000 or 517.
# Why it matters: half of the members are "absent", which for a list of spent notes is the wrong direction. `tryAdd` of each says that
# it is new, so nothing looks wrong until a look-up. Convert with `>>> 0` at each call.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts roaring-wasm@1.1.0 >/dev/null
cat >check.mjs <<'JAVASCRIPT'
import assert from 'node:assert'
import { createHash } from 'node:crypto'
import { RoaringBitmap32, roaringLibraryInitialize } from 'roaring-wasm'

await roaringLibraryInitialize()
const hashes = Array.from({ length: 1000 }, (_, i) => createHash('sha256').update(`note ${i}`).digest().readInt32LE())
const positive = hashes.filter((hash) => hash >= 0).length
const ways = {
  add: (set) => hashes.forEach((hash) => set.add(hash)),
  'addMany(Int32Array)': (set) => set.addMany(Int32Array.from(hashes)),
  'addMany(array)': (set) => set.addMany(hashes),
  'addMany(Set)': (set) => set.addMany(new Set(hashes))
}
const seen = {}
for (const [name, fill] of Object.entries(ways)) {
  const set = new RoaringBitmap32()
  fill(set)
  const { size } = set
  const found = hashes.filter((hash) => set.has(hash)).length
  const twins = hashes.filter((hash) => set.has(hash >>> 0)).length
  seen[name] = { size, found, twins, removed: hashes.filter((hash) => set.remove(hash)).length }
}
console.log(`hashes: ${hashes.length}, not negative: ${positive}`)
console.table(seen)
const [all, half] = [{ size: 1000, found: positive, twins: 1000, removed: 1000 }, { size: positive, found: positive, twins: positive, removed: positive }]
assert.deepEqual(Object.values(seen), [all, all, half, half])
JAVASCRIPT
node check.mjs
