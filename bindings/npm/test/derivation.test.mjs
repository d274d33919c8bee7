// Derived notes against those of cashu-ts. DERIVED is their number: 600, or 10000 for the full comparison, which takes a minute.
import assert from 'node:assert/strict';
import test from 'node:test';
import { hashToCurve, OutputData } from '@cashu/cashu-ts';
import { Notes } from '../dist/derivation.js';
import { hex, random } from './helpers.mjs';

const next = random(58);
const bytes = (count) => Uint8Array.from({ length: count }, () => next());
const KEYSETS = {
  '00': () => `00${hex(bytes(7))}`,
  '01': () => `01${hex(bytes(32))}`,
  base64: () => Buffer.from(bytes(9)).toString('base64'),
  base64url: () => Buffer.from(bytes(9)).toString('base64url'),
  'upper case': () => `01${hex(bytes(32)).toUpperCase()}`,
};

test('secrets, factors and points equal those of cashu-ts', async () => {
  const each = Math.ceil(Number(process.env.DERIVED ?? 600) / Object.keys(KEYSETS).length / 3);
  for (const [name, keysetId] of Object.entries(KEYSETS)) {
    for (let i = 0; i < each; i++) {
      const seed = bytes([64, 16, 32, 63][i % 4]);
      const id = keysetId();
      const from = [0, 2 ** 31 - 3, next() % (2 ** 31 - 3)][Math.min(i, 2)];
      const notes = await Notes.of(seed, id);
      const ys = notes.ys(from, from + 3);
      const messages = notes.messages([from + 2, from, from + 1]);
      OutputData.createDeterministicData(0, seed, from, { id, keys: {} }, [0, 0, 0]).forEach((theirs, k) => {
        const { secret, blindingFactor, blindedMessage } = notes.output(from + k);
        const ours = [hex(secret), blindingFactor, blindedMessage.B_, hex(ys[k]), hex(messages[[1, 2, 0][k]])];
        const { B_ } = theirs.blindedMessage;
        const expected = [hex(theirs.secret), theirs.blindingFactor, B_, hashToCurve(theirs.secret).toHex(true), B_];
        assert.deepEqual(ours, expected, `${name}, seed ${hex(seed)}, keyset ${id}, counter ${from + k}`);
      });
    }
  }
});

test('keysets that cashu-ts does not derive are refused by name', async () => {
  for (const id of [`02${'ab'.repeat(32)}`, `03${'ab'.repeat(32)}`, 'ab'.repeat(6)]) {
    await assert.rejects(Notes.of(new Uint8Array(64), id), { code: 'Library', message: new RegExp(id) });
  }
});
