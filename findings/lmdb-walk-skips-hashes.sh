#!/usr/bin/env bash
# lmdb (npm) 3.5.6: a walk over hashes skips one in fifty.
#
# Expected: keys may be Buffers, and are "used directly". The documentation warns that a walk does not return them as Buffers, but
# each row comes once, and `getKeysCount()` counts all.
# Seen: without a `start`, a walk leaves out what would be null or a symbol as a key: all rows whose key begins with a byte below 5,
# 85 of 5,000 hashes of 8 bytes. `get` finds each of them, and the statistics have 5,000 entries. Backwards it is the same. With
# `keyEncoding: 'binary'`, or `start: Buffer.from([0])`, all 5,000 come.
# Why it matters: an export, a sum or a migration lacks 2 % of the rows, and the count agrees with it. A test with ten rows is right.
# Open stores of hashes with `keyEncoding: 'binary'`.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts lmdb@3.5.6 >/dev/null
cat >check.mjs <<'JAVASCRIPT'
import assert from 'node:assert'
import { createHash } from 'node:crypto'
import { open } from 'lmdb'

const hashes = Array.from({ length: 5000 }, (_, i) => createHash('sha256').update(`note ${i}`).digest().subarray(0, 8))
const low = hashes.filter(([first]) => first < 5).length
const seen = {}
for (const keyEncoding of ['ordered-binary', 'binary']) {
  const store = open({ path: keyEncoding, keyEncoding })
  await Promise.all(hashes.map((hash, i) => store.put(hash, i)))
  const walk = (options) => new Set([...store.getRange(options)].map(({ value }) => value)).size
  seen[keyEncoding] = {
    get: hashes.filter((hash, i) => store.get(hash) === i).length,
    entries: store.getStats().entryCount,
    walk: walk(),
    backwards: walk({ reverse: true }),
    'walk from 0': walk({ start: Buffer.from([0]) }),
    getKeysCount: store.getKeysCount()
  }
  await store.close()
}
console.log(`hashes: ${hashes.length}, ${low} of them begin with a byte below 5`)
console.log(seen)
const [all, some] = [5000, 5000 - low]
assert.deepEqual(Object.values(seen['ordered-binary']), [all, all, some, some, all, some])
assert.deepEqual(Object.values(seen.binary), [all, all, all, all, all, all])
JAVASCRIPT
node check.mjs
