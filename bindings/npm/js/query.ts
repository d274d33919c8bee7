/** Requests about matches (NUT-07, NUT-09), and the checks of their answers. */

import { fromHex } from './hex.js';
import { type FilterSource, type Matches, type NoteKind, sendableOf } from './mint-filter.js';
import { type Curve, shuffle } from './points.js';
import { errorObject, isObject, type Policy } from './policy.js';
import { decodeText } from './text.js';
import { WalletError } from './wallet-error.js';

/** A point that the mint is asked about, in hex, and the index of its match. */
interface Asked {
  point: string;
  place: number;
}

/** The mint's signature on a blinded message. Verify it after unblinding, or by its DLEQ proof. Points are in hex. */
export interface BlindSignature {
  amount: number;
  id: string;
  C_: string;
  dleq?: { e: string; s: string };
}

/** How to ask about matches of one kind. */
export interface Question<T> {
  path: string;
  kind: NoteKind;
  body(points: readonly string[]): object;
  /** The points of an answer, and what it says about each and whether that is in the set. */
  read(answer: unknown): { point: string; value: T; inSet: boolean }[];
  /** What it means that the mint leaves out a point; an error if undefined. */
  omitted?: T;
}

/** Sends the matches, and only these. Returns what the mint says about each item; `absent` ones do not match. */
export async function ask<T>(
  question: Question<T>,
  matches: Matches,
  curve: Curve,
  policy: Policy,
  post: (path: string, body: string) => Promise<Uint8Array>,
): Promise<(T | 'absent')[]> {
  const { points, places, chanceLimit } = sendableOf(matches);
  const results = new Array<T>(points.length);
  let asked = 0;
  let notInSet = 0;
  for (const batch of prepare(question, matches.source, points, curve, policy)) {
    const body = JSON.stringify(question.body(batch.map(({ point }) => point)));
    const answer = await post(question.path, body);
    let answers;
    try {
      answers = question.read(parse(answer));
    } catch (error) {
      const isForm = error instanceof WalletError && error.code === 'Form';
      throw (isForm && errorObject(200, answer)) || error;
    }
    const open = new Map(batch.map(({ point, place }) => [point, place]));
    const isAsked = new Set(open.keys());
    const note = (place: number, value: T, inSet: boolean): void => {
      results[place] = value;
      asked++;
      notInSet += inSet ? 0 : 1;
    };
    for (const { point, value, inSet } of answers) {
      const place = open.get(point);
      if (place === undefined) {
        throw isAsked.has(point)
          ? new WalletError('Repeated', 'the answer has a point twice')
          : new WalletError('NotAsked', 'the answer has a point that was not asked about');
      }
      open.delete(point);
      note(place, value, inSet);
    }
    if (open.size > 0 && question.omitted === undefined) {
      throw new WalletError('Missing', `the answer lacks ${open.size} of ${batch.length} points`);
    }
    open.forEach((place) => note(place, question.omitted!, false));
    if (notInSet > chanceLimit) {
      const text = `${notInSet} of ${asked} matches are not in its set; false positives explain at most ${chanceLimit}`;
      throw new WalletError('Contradicted', `the mint contradicts its filter: ${text}`);
    }
  }
  return places.map((place) => (place < 0 ? 'absent' : results[place]!));
}

/** The requests: exactly the matches, shuffled. */
function prepare(
  { kind }: { kind: NoteKind },
  source: FilterSource,
  points: readonly string[],
  curve: Curve,
  policy: Policy,
): Asked[][] {
  if (source.kind !== kind) {
    throw new WalletError('OtherSource', `the matches are of ${source.kind} notes of keyset ${source.keyset}`);
  }
  if (points.length > policy.maxRevealed) {
    throw new WalletError('TooMany', `${points.length} items match; at most ${policy.maxRevealed} may be revealed to the mint`);
  }
  points.forEach((point, place) => {
    const item = fromHex(point)!;
    if (item.length !== curve.bytes && (item.length === 33 || item.length === 48)) {
      throw new WalletError('OtherCurve', `match ${place} has ${item.length} bytes: a point of another curve`);
    }
    if (!curve.isPoint(item)) {
      throw new WalletError('NotAPoint', `match ${place} is not a point`);
    }
  });
  const all = shuffle(points.map((point, place) => ({ point, place })));
  const count = Math.ceil(all.length / policy.batch);
  return Array.from({ length: count }, (_, i) => all.slice(i * policy.batch, (i + 1) * policy.batch));
}

export type State = 'spent' | 'pending' | 'unspent';

/** NUT-07. */
export const STATES: Question<State> = {
  path: '/v1/checkstate',
  kind: 'spent',
  body: (points) => ({ Ys: points }),
  read(answer) {
    const states = list(answer, 'states').map((state) => ({ point: text(state, 'Y'), state: text(state, 'state') }));
    return states.map(({ point, state }) => {
      if (!/^(UNSPENT|PENDING|SPENT)$/.test(state)) {
        throw new WalletError('UnknownState', 'the answer has a state other than UNSPENT, PENDING and SPENT');
      }
      // A mint may publish pending notes as spent.
      return { point: hex(point, 'Y'), value: state.toLowerCase() as State, inSet: state !== 'UNSPENT' };
    });
  },
};

/** NUT-09. */
export function signatures(keyset: string, curve: Curve): Question<BlindSignature | 'unsigned'> {
  return {
    path: '/v1/restore',
    kind: 'issued',
    omitted: 'unsigned',
    // A wallet that has lost everything does not know the amounts; mints ignore them.
    body: (points) => ({ outputs: points.map((point) => ({ amount: 0, id: keyset, B_: point })) }),
    read(answer) {
      const points = list(answer, 'outputs').map((output) => text(output, 'B_'));
      const signed = list(answer, 'signatures').map((signature) => {
        const { amount, dleq } = signature;
        if (!Number.isSafeInteger(amount) || (amount as number) < 0) {
          throw form('amount');
        }
        const proof = dleq == null ? undefined : { e: text(dleq, 'e'), s: text(dleq, 's') };
        return { amount: amount as number, id: text(signature, 'id'), C_: text(signature, 'C_'), dleq: proof };
      });
      if (points.length !== signed.length) {
        throw new WalletError('Unpaired', `the answer has ${points.length} outputs but ${signed.length} signatures`);
      }
      return points.map((point, i) => {
        const { dleq, ...signature } = signed[i]!;
        if (canonicalKeyset(signature.id) !== canonicalKeyset(keyset)) {
          throw new WalletError('OtherKeyset', 'the answer has a signature of another keyset');
        }
        const c = fromHex(hex(signature.C_, 'C_'));
        if (c === undefined || !curve.isPoint(c)) {
          throw new WalletError('Hex', 'the answer has an invalid C_');
        }
        // Signatures by a pairing have no proof; what a mint sends in its place means nothing.
        if (dleq === undefined || curve.bytes === 48) {
          return { point: hex(point, 'B_'), value: signature, inSet: true };
        }
        if (hex(dleq.e, 'dleq').length !== 64 || hex(dleq.s, 'dleq').length !== 64) {
          throw new WalletError('Hex', 'the answer has an invalid dleq');
        }
        return { point: hex(point, 'B_'), value: { ...signature, dleq }, inSet: true };
      });
    },
  };
}

/** A form of a keyset ID that is the same for all spellings of it. */
export function canonicalKeyset(id: string): string {
  return id.length === 12 ? id.replace(/-/g, '+').replace(/_/g, '/') : id.toLowerCase();
}

function parse(answer: Uint8Array): unknown {
  try {
    return JSON.parse(decodeText(answer));
  } catch {
    throw form('JSON');
  }
}

function list(value: unknown, name: string): Record<string, unknown>[] {
  const found = isObject(value) && value[name];
  if (!Array.isArray(found) || !found.every(isObject)) {
    throw form(name);
  }
  return found;
}

function text(value: unknown, name: string): string {
  const found = isObject(value) && value[name];
  if (typeof found !== 'string') {
    throw form(name);
  }
  return found;
}

function hex(text: string, name: string): string {
  if (fromHex(text) === undefined) {
    throw new WalletError('Hex', `the answer has an invalid ${name}`);
  }
  return text.toLowerCase();
}

// No error quotes a point, since errors end up in logs.
function form(name: string): WalletError {
  return new WalletError('Form', `malformed mint response: ${name}`);
}
