#!/usr/bin/env bash
# ioredis (npm) 6.0.0 and 5.11.1: a hash in a Uint8Array is written as decimal text.
#
# Expected: @noble/hashes, @noble/curves and WebCrypto give a Uint8Array, and a Buffer is one, too. So `sadd('spent', hash)` writes the
# 32 bytes, or throws a TypeError, as the npm package redis does.
# Seen: a Buffer goes out as 32 bytes. The same bytes in a Uint8Array go out as the text "186,120,22,191,...": members, keys and
# values, alone or in an array. Nothing warns at run time.
# Why it matters: ioredis finds such members again, so its own tests pass. A mint or an audit in another language, or in code that
# holds a Buffer, asks for the 32 bytes and is told that the note is not in the set. Give `Buffer.from(hash)`, in each call.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts ioredis@6.0.0 five@npm:ioredis@5.11.1 redis@6.3.1 @noble/hashes@2.4.0 >/dev/null
cat >check.mjs <<'JAVASCRIPT'
import assert from 'node:assert'
import { once } from 'node:events'
import net from 'node:net'
import Five from 'five'
import Six from 'ioredis'
import { createClient } from 'redis'
import { sha256 } from '@noble/hashes/sha2.js'

// A server of sets: SADD keeps the bytes of each member, SISMEMBER compares them; other commands are answered with OK.
const members = new Set()
const commands = {
  SADD: (...given) => given.map((one) => members.add(one.toString('hex'))).length,
  SISMEMBER: (one) => Number(members.has(one.toString('hex')))
}
const read = (bytes) => {
  const texts = []
  let at = bytes.indexOf('\r\n') + 2
  for (let left = Number(bytes.toString('latin1', 1, at - 2)); left > 0; left--) {
    const start = bytes.indexOf('\r\n', at) + 2
    const end = start + Number(bytes.toString('latin1', at + 1, start - 2))
    texts.push(bytes.subarray(start, end))
    at = end + 2
  }
  return [texts, bytes.subarray(at)]
}
const server = net.createServer((socket) => socket.on('data', (bytes) => {
  while (bytes.length > 0) {
    const [[name, , ...rest], after] = read(bytes)
    const command = commands[name.toString().toUpperCase()]
    socket.write(command ? `:${command(...rest)}\r\n` : '+OK\r\n')
    bytes = after
  }
}))
server.listen(0, '127.0.0.1')
await once(server, 'listening')
const { port } = server.address()
const hash = sha256(new TextEncoder().encode('note'))
const seen = {}
for (const [name, Redis] of Object.entries({ 'ioredis 6': Six, 'ioredis 5': Five })) {
  const client = new Redis({ port, host: '127.0.0.1', protocol: 2, disableClientInfo: true, enableReadyCheck: false })
  members.clear()
  await client.sadd('spent', hash)
  const [written] = members
  seen[name] = {
    written: Buffer.from(written, 'hex').toString(),
    'Uint8Array found': await client.sismember('spent', hash),
    'Buffer found': await client.sismember('spent', Buffer.from(hash))
  }
  client.disconnect()
}
const other = createClient({ url: `redis://127.0.0.1:${port}`, RESP: 2, disableClientInfo: true })
await other.connect()
seen.redis = await other.sAdd('spent', hash).then(String, (error) => error.name)
other.destroy()
server.close()
console.log(seen)
const decimals = { written: hash.join(), 'Uint8Array found': 1, 'Buffer found': 0 }
assert.deepEqual(seen, { 'ioredis 6': decimals, 'ioredis 5': decimals, redis: 'TypeError' })
JAVASCRIPT
node check.mjs
