// Checks that cashu-ts derives the notes of a file of tests/vectors/make_seed_notes.py: node seed_notes.mjs FILE
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { OutputData } from '@cashu/cashu-ts'
const hex = bytes => Buffer.from(bytes).toString('hex')
const notes = JSON.parse(readFileSync(process.argv[2]))
for (const { seed, keyset, counter, secret, r, B_ } of notes) {
  const made = OutputData.createSingleDeterministicData(0, Buffer.from(seed, 'hex'), counter, keyset)
  const derived = [new TextDecoder().decode(made.secret), made.blindingFactor.toString(16).padStart(64, '0'), made.blindedMessage.B_]
  assert.deepEqual(derived, [secret, r, B_], `keyset ${keyset}, counter ${counter}`)
}
console.log(`${notes.length} notes are equal`)
