#!/usr/bin/env bash
# libsql (npm) 0.5.29: a whole number that is given to a text column loses its last digits.
#
# Expected: the package has the interface of better-sqlite3, which binds each number as a double: in a text column 5 becomes "5.0",
# as is known there, and the largest safe integer becomes "9007199254740991.0", so that `Number()` of it is right.
# Seen: from 10^15 on the text is of the form 8.10065502486898e+15, with 15 digits. Of 900 hashes of 53 bits, 807 come back as other
# numbers. 800 of the numbers next to them are "found", though nobody stored them, and a primary key refuses them. BigInts keep
# all digits.
# Why it matters: a note that nobody spent is in the table of the spent. A test that looks up what it stored passes, as both sides
# lose the same digits. Give text or BigInts.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts libsql@0.5.29 >/dev/null
cat >check.cjs <<'JAVASCRIPT'
const assert = require('node:assert')
const { createHash } = require('node:crypto')
const Database = require('libsql')

const hashes = Array.from({ length: 2000 }, (_, i) => Number(createHash('sha256').update(`note ${i}`).digest().readBigUInt64BE() >> 11n))
  .filter((hash) => hash > 2 ** 52)
  .slice(0, 900)
const db = new Database(':memory:')
db.exec('CREATE TABLE spent (id TEXT PRIMARY KEY); CREATE TABLE exact (id TEXT PRIMARY KEY)')
for (const hash of hashes) {
  db.prepare('INSERT INTO spent VALUES (?)').run(hash)
  db.prepare('INSERT INTO exact VALUES (?)').run(BigInt(hash))
}
const ids = (table) => db.prepare(`SELECT id FROM ${table} ORDER BY rowid`).all().map(({ id }) => id)
const kept = (table) => ids(table).filter((id, i) => Number(id) === hashes[i]).length
const found = (hash) => db.prepare('SELECT count(*) AS n FROM spent WHERE id = ?').get(hash).n
const neighbours = hashes.map((hash) => hash + 1).filter((hash) => !hashes.includes(hash))
const refused = (hash) => {
  try {
    db.prepare('INSERT INTO spent VALUES (?)').run(hash)
    db.prepare('DELETE FROM spent WHERE id = ?').run(hash)
    return false
  } catch (error) {
    assert.match(error.message, /UNIQUE/)
    return true
  }
}
const seen = {
  hashes: hashes.length,
  'kept as numbers': kept('spent'),
  'kept as BigInts': kept('exact'),
  'found again': hashes.filter(found).length,
  'neighbours found': neighbours.filter(found).length,
  neighbours: neighbours.length,
  'neighbours refused': neighbours.filter(refused).length
}
console.log(hashes[0], 'became', ids('spent')[0])
console.log(seen)
assert(seen['kept as numbers'] < 300 && seen['kept as BigInts'] === hashes.length)
assert(seen['found again'] === hashes.length && seen['neighbours found'] > 500)
assert(seen['neighbours refused'] === seen['neighbours found'])
JAVASCRIPT
node check.cjs
