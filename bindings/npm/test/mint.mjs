// A small mint of cashu-ts's own cryptography, in the place of `fetch`: it has signed and spent some counters of a seed.
import {
  createBlindSignature, createDLEQProof, createNewMintKeys, hashToCurve, OutputData, pointFromHex, serializeMintKeys,
} from '@cashu/cashu-ts';
import { Filter } from 'nutfilter';

const bytes = (hex) => Uint8Array.from(Buffer.from(hex, 'hex'));
const hex = (bytes) => Buffer.from(bytes).toString('hex');

/**
 * Each keyset has a number, the counters that it signed, and those of them that are spent or pending; `change` may alter what is said,
 * and `respond` may answer in its place.
 */
export function fakeMint(seed, keysets, { filters = true, change = () => undefined, respond = () => undefined } = {}) {
  const sets = keysets.map(({ number, signed, spent, pending = [], active = true, unit = 'sat' }) => {
    const pair = createNewMintKeys(8, new Uint8Array(32).fill(number), { unit, versionByte: number % 2 });
    const id = pair.keysetId;
    const outputs = OutputData.createDeterministicData(0, seed, 0, { id, keys: {} }, Array(Math.max(...signed, 0) + 1).fill(0));
    const notes = signed.map((counter) => {
      const { blindedMessage: { B_ }, secret } = outputs[counter];
      return { amount: 2 ** (counter % 8), B_, Y: hashToCurve(secret).toHex(true), isSpent: spent.includes(counter), isPending: pending.includes(counter) };
    });
    return { id, unit, active, notes, pair, keys: serializeMintKeys(pair.pubKeys) };
  });
  const shown = [];
  const requests = [];
  const sign = ({ id, pair }, { amount, B_ }) => {
    const key = pair.privKeys[amount];
    const { e, s } = createDLEQProof(pointFromHex(B_), key);
    return { id, amount, C_: createBlindSignature(pointFromHex(B_), key, id).C_.toHex(true), dleq: { e: hex(e), s: hex(s) } };
  };
  const notes = () => sets.flatMap((set) => set.notes.map((note) => ({ set, ...note })));
  const answers = {
    info: () => ({ name: 'fake', nuts: {} }),
    keysets: () => ({ keysets: sets.map(({ id, unit, active }) => ({ id, unit, active, input_fee_ppk: 0 })) }),
    keys: (id) => ({ keysets: sets.filter((set) => (id ? set.id === id : set.active)).map(({ id, unit, keys }) => ({ id, unit, keys })) }),
    filter: (kind, keyset) => {
      const found = sets.find(({ id }) => id === keyset).notes.filter(({ isSpent }) => kind === 'issued' || isSpent);
      const filter = Filter.from(found.map(({ B_, Y }) => bytes(kind === 'issued' ? B_ : Y)));
      return filters && { n: filter.n, content: Buffer.from(filter.bytes).toString('base64'), timestamp: Math.floor(Date.now() / 1000) };
    },
    restore: (_, __, { outputs }) => {
      const found = outputs.map(({ B_ }) => notes().find((note) => note.B_ === B_)).filter(Boolean);
      return { outputs: found.map(({ B_ }) => ({ amount: 0, id: '', B_ })), signatures: found.map(({ set, ...note }) => sign(set, note)) };
    },
    checkstate: (_, __, { Ys }) => ({
      states: Ys.map((Y) => {
        const { isSpent, isPending } = notes().find((note) => note.Y === Y) ?? {};
        return { Y, state: isSpent ? 'SPENT' : isPending ? 'PENDING' : 'UNSPENT' };
      }),
    }),
  };
  const fetch = async (url, { body, headers } = {}) => {
    const [, name, ...rest] = new URL(url).pathname.slice(1).split('/');
    requests.push({ name, rest, headers });
    const instead = await respond(name, rest);
    if (instead) {
      return instead;
    }
    const asked = body && JSON.parse(body);
    shown.push(...(asked?.Ys ?? asked?.outputs.map(({ B_ }) => B_) ?? []));
    const said = answers[name]?.(rest[0], rest[1], asked);
    const text = said && JSON.stringify(change(name, said) ?? said);
    return new Response(text || '{"detail":"Not Found"}', { status: text ? 200 : 404, headers: { 'content-type': 'application/json' } });
  };
  return { fetch, shown, requests, ids: sets.map(({ id }) => id), notes: sets.map(({ notes }) => notes) };
}
