#!/usr/bin/env bash
# @duckdb/node-api (npm) 1.5.6-r.1: a list whose first item is null is bound as a list of nulls.
#
# Expected: the types of parameters are inferred unless they are given, and any type can have nulls. So the items of a list decide its
# type, and items that the type cannot hold are an error, as for [1, 2.5], which is "number is not an integer".
# Seen: the first item alone decides. After a null in front each later item is bound as null: [null, 5, 7] is stored as [NULL, NULL,
# NULL] in a BIGINT[], and a look-up of the list finds nothing, while [5, null, 7] is right. The value of the first entry does the same
# to a map. In a list of structs a field that the first one lacks is left out, and one that is null there is null in all.
# Why it matters: no error, the length is right, and it depends on the order of rows. Hashes of which the first is not known yet are all
# "absent", and amounts are lost on the way into a table. Give the type: `run(sql, [list], [LIST(BIGINT)])`.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts @duckdb/node-api@1.5.6-r.1 >/dev/null
cat >check.mjs <<'JAVASCRIPT'
import assert from 'node:assert'
import { BIGINT, DuckDBInstance, LIST, listValue, mapValue, structValue } from '@duckdb/node-api'

const connection = await (await DuckDBInstance.create(':memory:')).connect()
const ask = async (sql, ...rest) => (await connection.runAndReadAll(sql, ...rest)).getRowsJson()[0]
await connection.run('CREATE TABLE note AS SELECT range AS hash FROM range(1000)')

const seen = []
for (const [items, types] of [[[5n, null, 7n]], [[null, 5n, 7n]], [[null, 5n, 7n], [LIST(BIGINT)]]]) {
  const list = listValue(items)
  await connection.run('CREATE OR REPLACE TABLE kept (hashes BIGINT[])')
  await connection.run('INSERT INTO kept VALUES ($1)', [list], types)
  const [stored] = await ask('SELECT hashes FROM kept')
  const [found] = await ask('SELECT count(*) FROM note WHERE list_contains($1, hash)', [list], types)
  console.log(`${String(list)}, type ${types ?? 'inferred'}: stored`, stored, `notes found: ${found}`)
  seen.push([stored, found])
}
assert.deepEqual(seen, [[['5', null, '7'], '2'], [[null, null, null], '0'], [[null, '5', '7'], '2']])

const bound = []
for (const value of [
  mapValue([{ key: 'a', value: null }, { key: 'b', value: 7 }]),
  listValue([structValue({ a: 1 }), structValue({ a: 2, b: 3 })]),
  listValue([structValue({ a: null }), structValue({ a: 2 })]),
]) {
  const [text, type] = await ask('SELECT $1::VARCHAR, typeof($1)', [value])
  console.log(`${String(value)}: bound as ${text}, ${type}`)
  bound.push(text)
}
assert.deepEqual(bound, ['{a=NULL, b=NULL}', "[{'a': 1}, {'a': 2}]", "[{'a': NULL}, {'a': NULL}]"])
await assert.rejects(ask('SELECT $1', [listValue([1, 2.5])]), /number is not an integer/)
JAVASCRIPT
node check.mjs
