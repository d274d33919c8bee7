/** The notes of a seed's counters (NUT-13), equal to those of cashu-ts, which derives each alone and completely. */

import * as cashu from '@cashu/cashu-ts';
import { hmac } from '@noble/hashes/hmac.js';
import { sha256, sha512 } from '@noble/hashes/sha2.js';
import { decodeBase64 } from './base64.js';
import { fromHex, toHex } from './hex.js';
import { canonicalKeyset, KEYSET_ID, secp256k1 } from './points.js';
import type { Points } from './restore.js';
import { printableId } from './text.js';
import { WalletError } from './wallet-error.js';

/** What a counter has before its points. */
interface Key {
  secret: Uint8Array;
  /** The blinding factor. Most counters never need it. */
  factor: () => bigint;
}

interface Note extends Key {
  Y: Uint8Array;
  B_?: Uint8Array;
}

interface Affine {
  x: bigint;
  y: bigint;
}

interface Projective extends Affine {
  Z: bigint;
  add(other: Projective): Projective;
  toAffine(inverseOfZ?: bigint): Affine;
}

/** What is used of the class of points. It is the wallet library's own, so that a bundle has one. */
interface Library {
  BASE: Projective & { multiplyUnsafe(factor: bigint): Projective };
  Fp: { ORDER: bigint; inv(value: bigint): bigint; sqrt(value: bigint): bigint; create(value: bigint): bigint; invertBatch(values: bigint[]): bigint[] };
  Fn: { ORDER: bigint };
}

const ascii = (text: string): Uint8Array => Uint8Array.from(text, (letter) => letter.charCodeAt(0));
const numberOf = (bytes: Uint8Array): bigint => BigInt(`0x${toHex(bytes)}`);
const bytesOf = (number: bigint): Uint8Array => fromHex(number.toString(16).padStart(64, '0'))!;

/** The notes of one keyset of version `00` or `01`, or with an ID in base64. */
export class Notes implements Points {
  private readonly keys: (counters: readonly number[]) => Key[];
  private readonly known = new Map<number, Note>();

  private constructor(
    seed: Uint8Array,
    private readonly keyset: string,
  ) {
    this.keys = keyset.length === 66 ? hashed(seed, keyset) : children(seed, keyset);
  }

  /** Throws unless the wallet library derives the same note, and can make a proof of it. */
  static async of(seed: Uint8Array, keyset: string): Promise<Notes> {
    try {
      if (!KEYSET_ID.test(keyset)) {
        throw new Error('its ID is invalid');
      }
      await fillTable();
      const notes = new Notes(seed, keyset);
      await pause();
      // The library's first one takes 50 ms, for a table of its own.
      const [theirs] = cashu.OutputData.createDeterministicData(0, seed, 0, { id: keyset, keys: {} }, [0]);
      await pause();
      const ours = notes.output(0);
      await pause();
      const { B_ } = ours.blindedMessage;
      const isEqual = theirs!.blindedMessage.B_ === B_ && theirs!.blindingFactor === ours.blindingFactor;
      proves ||= isEqual && isProvedBy(ours);
      if (!isEqual || !proves) {
        throw new Error('it derives other notes');
      }
      return notes;
    } catch (error) {
      const text = `the wallet library cannot restore keyset ${printableId(keyset)}: ${(error as Error).message}`;
      throw new WalletError('Library', text, { cause: error });
    }
  }

  /** `Y` of the counters from `from` to before `to`. */
  ys(from: number, to: number): Uint8Array[] {
    return this.take(Array.from({ length: to - from }, (_, i) => from + i)).map(({ Y }) => Y);
  }

  /** `B_` of these counters. */
  messages(counters: readonly number[]): Uint8Array[] {
    const keys = this.take(counters);
    const missing = keys.filter(({ B_ }) => !B_);
    const points = sums(missing.map(({ factor, Y }) => [...digits(factor()), lift(Y)]));
    missing.forEach((key, i) => (key.B_ = compress(points[i]!)));
    return keys.map(({ B_ }) => B_!);
  }

  /** What the wallet library makes a proof of. */
  output(counter: number): cashu.OutputData {
    const { secret, factor } = this.take([counter])[0]!;
    const B_ = toHex(this.messages([counter])[0]!);
    return new cashu.OutputData({ amount: 0 as never, B_, id: this.keyset }, factor(), secret);
  }

  private take(counters: readonly number[]): Note[] {
    const missing = counters.filter((counter) => !this.known.has(counter));
    this.keys(missing).forEach((key, i) => this.known.set(missing[i]!, { ...key, Y: pointOf(key.secret) }));
    return counters.map((counter) => this.known.get(counter)!);
  }
}

/** Whether the wallet library can make proofs of such notes. Found once. */
let proves = false;

/** Whether it makes a proof of a note, as if signed with the key 1. */
function isProvedBy(note: cashu.OutputData): boolean {
  const { B_: C_, id } = note.blindedMessage;
  const { C, amount } = note.toProof({ id, amount: 2 as never, C_ }, { id, keys: { 2: toHex(compress(table[0]!)) } });
  return Number(amount) === 2 && C === toHex(cashu.hashToCurve(note.secret).toBytes(true));
}

/** Keysets of version `01`: by HMAC. */
function hashed(seed: Uint8Array, keyset: string): (counters: readonly number[]) => Key[] {
  const { ORDER } = library().Fn;
  const begun = hmac.create(sha256, seed).update(ascii('Cashu_KDF_HMAC_SHA256')).update(fromHex(keyset)!);
  const derive = (counter: number, kind: number): Uint8Array => {
    const end = new DataView(new ArrayBuffer(9));
    end.setBigUint64(0, BigInt(counter));
    end.setUint8(8, kind);
    return begun.clone().update(new Uint8Array(end.buffer)).digest();
  };
  return (counters) =>
    counters.map((counter) => ({ secret: ascii(toHex(derive(counter, 0))), factor: () => numberOf(derive(counter, 1)) % ORDER }));
}

/** The first index of a hardened child. */
const HARDENED = 2 ** 31;

/** Older keysets: by BIP32, `m/129372'/0'/KEYSET'/COUNTER'/{0,1}`. The parent of all counters is derived once. */
function children(seed: Uint8Array, keyset: string): (counters: readonly number[]) => Key[] {
  const { ORDER } = library().Fn;
  const bytes = fromHex(keyset) ?? decodeBase64(canonicalKeyset(keyset))!;
  let node = hmac(sha512, ascii('Bitcoin seed'), seed);
  const tweak = (mac: Uint8Array, key: bigint): bigint => (numberOf(mac.subarray(0, 32)) + key) % ORDER;
  const indexed = (prefix: Uint8Array, index: number): Uint8Array => {
    const data = new Uint8Array(37);
    data.set(prefix, 33 - prefix.length);
    new DataView(data.buffer).setUint32(33, index);
    return data;
  };
  for (const step of [129_372, 0, Number(numberOf(bytes) % BigInt(HARDENED - 1))]) {
    const mac = hmac(sha512, node.subarray(32), indexed(node.subarray(0, 32), HARDENED + step));
    mac.set(bytesOf(tweak(mac, numberOf(node.subarray(0, 32)))));
    node = mac;
  }
  const parent = node.subarray(0, 32);
  const begun = hmac.create(sha512, node.subarray(32));
  return (counters) => {
    const nodes = counters.map((counter) => {
      const mac = begun.clone().update(indexed(parent, HARDENED + counter)).digest();
      return { key: tweak(mac, numberOf(parent)), chain: mac.slice(32) };
    });
    const publicKeys = sums(nodes.map(({ key }) => digits(key))).map(compress);
    return nodes.map(({ key, chain }, i) => {
      // A state that is kept for the factor would take kilobytes of each counter.
      const child = (index: number): bigint => tweak(hmac(sha512, chain, indexed(publicKeys[i]!, index)), key);
      return { secret: ascii(toHex(bytesOf(child(0)))), factor: () => child(1) };
    });
  };
}

const DOMAIN = ascii('Secp256k1_HashToCurve_Cashu_');

/** `Y` of a secret: the first hash that is the abscissa of a point. No root is taken for it. */
function pointOf(secret: Uint8Array): Uint8Array {
  const seed = new Uint8Array(36);
  seed.set(sha256.create().update(DOMAIN).update(secret).digest());
  for (let i = 0; ; i++) {
    new DataView(seed.buffer).setUint32(32, i, true);
    const point = Uint8Array.of(2, ...sha256(seed));
    if (secp256k1.isPoint(point)) {
      return point;
    }
  }
}

let points: Library | undefined;

function library(): Library {
  points ??= cashu.hashToCurve(new Uint8Array(32)).constructor as unknown as Library;
  return points;
}

/** The point of an abscissa, with an even ordinate. */
function lift(point: Uint8Array): Affine {
  const { Fp } = library();
  const x = numberOf(point.subarray(1));
  const y = Fp.sqrt((((x * x) % Fp.ORDER) * x + BigInt(7)) % Fp.ORDER);
  return { x, y: isOdd(y) ? Fp.ORDER - y : y };
}

const isOdd = (number: bigint): boolean => number % BigInt(2) !== BigInt(0);

function compress({ x, y }: Affine): Uint8Array {
  return Uint8Array.of(isOdd(y) ? 3 : 2, ...bytesOf(x));
}

/** Lets the event loop run. */
const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

/** The multiples of the generator by 1 to 255, times each power of 256. */
const table: Affine[] = [];
let filling: Promise<void> | undefined;

/** Fills the table, in pieces between which the event loop runs. */
async function fillTable(): Promise<void> {
  const fill = async (): Promise<void> => {
    const { BASE, Fp } = library();
    let power: Projective = BASE;
    const points: Affine[] = [];
    for (let place = 0; place < 32; place++) {
      const row = [power];
      while (row.length < 256) {
        row.push(row[row.length - 1]!.add(power));
      }
      power = row.pop()!;
      const inverses = Fp.invertBatch(row.map(({ Z }) => Z));
      points.push(...row.map((point, i) => point.toAffine(inverses[i])));
      await pause();
    }
    table.push(...points);
  };
  await (filling ??= fill());
}

/** Points whose sum is the generator times a factor. */
function digits(factor: bigint): Affine[] {
  const terms: Affine[] = [];
  bytesOf(factor).forEach((digit, i) => digit > 0 && terms.push(table[(31 - i) * 255 + digit - 1]!));
  return terms;
}

/**
 * The sum of each list. All lists are added pairwise at the same time, since one inversion then serves hundreds of additions: three
 * times as fast as the library's multiplication of one point. Equal or opposite terms do not occur: they would be the logarithm of a hash.
 */
function sums(lists: Affine[][]): Affine[] {
  const { Fp } = library();
  const { ORDER } = Fp;
  for (;;) {
    const differences: bigint[] = [];
    // Of the differences before each.
    const products: bigint[] = [];
    let product = BigInt(1);
    for (const list of lists) {
      for (let i = 1; i < list.length; i += 2) {
        const difference = list[i]!.x - list[i - 1]!.x;
        differences.push(difference);
        products.push(product);
        product = (product * difference) % ORDER;
      }
    }
    if (differences.length === 0) {
      return lists.map(([sum]) => ({ x: Fp.create(sum!.x), y: Fp.create(sum!.y) }));
    }
    // Zero has no inverse, and throws.
    let inverse = Fp.inv(product);
    for (let i = differences.length - 1; i >= 0; i--) {
      const one = (inverse * products[i]!) % ORDER;
      inverse = (inverse * differences[i]!) % ORDER;
      differences[i] = one;
    }
    let at = 0;
    lists = lists.map((list) => {
      const half: Affine[] = [];
      for (let i = 1; i < list.length; i += 2) {
        const [a, b] = [list[i - 1]!, list[i]!];
        const slope = ((b.y - a.y) * differences[at++]!) % ORDER;
        const x = (slope * slope - a.x - b.x) % ORDER;
        half.push({ x, y: (slope * (a.x - x) - a.y) % ORDER });
      }
      return list.length % 2 === 1 ? [...half, list[list.length - 1]!] : half;
    });
  }
}
