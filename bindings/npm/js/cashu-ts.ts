/**
 * Restores a wallet of cashu-ts from its seed. Needs the package `@cashu/cashu-ts`.
 *
 * @packageDocumentation
 */

import { Amount, CheckStateEnum, hashToCurve, OutputData, type Proof, type Wallet } from '@cashu/cashu-ts';
import { MintClient, type RestoreOptions } from './client.js';
import { fromHex } from './hex.js';
import type { Warning } from './mint-filter.js';
import { integer } from './policy.js';
import type { BlindSignature } from './query.js';
import type { Points, Restore, Restored } from './restore.js';
import { WalletError } from './wallet-error.js';

/** How to restore a wallet. */
export interface RestoreAllOptions extends Pick<RestoreOptions, 'confirm' | 'signal' | 'timeLimit'> {
  /** How many counters in a row must be unused before the search ends. Default: 300. */
  gap?: number;
  /** A client with a proxy or other limits. Default: one with the platform's `fetch`. */
  client?: MintClient;
}

/** What was done for one keyset. */
export interface RestoredKeyset {
  id: string;
  nextCounter: number;
  /** What the filters said. Undefined if the mint has none, and cashu-ts has shown it every candidate. */
  byFilters?: { warnings: readonly Warning[]; chance?: Restored['chance'] };
}

/** What was found. */
export interface RestoredWallet {
  /** The notes that are not spent. */
  proofs: Proof[];
  keysets: RestoredKeyset[];
  /** What could not be restored. Empty if everything is known. Call again for the rest: nothing new is shown to the mint. */
  problems: { keyset: string; counter?: number; error: Error }[];
}

/** The candidates that are derived and looked up together. */
const STEP = 100;

/**
 * Finds all notes of the wallet's unit that are not spent, of inactive keysets too, and advances the wallet's counters. The mint is
 * shown the messages of these notes only. If it publishes no filters, cashu-ts restores as it does by itself.
 */
export async function restoreAll(wallet: Wallet, seed: Uint8Array, options: RestoreAllOptions = {}): Promise<RestoredWallet> {
  const { gap = 300, client = new MintClient(wallet.mint.mintUrl, { fetch: globalThis.fetch }) } = options;
  integer(gap, 'gap');
  await wallet.loadMint();
  const found: RestoredWallet = { proofs: [], keysets: [], problems: [] };
  for (const { id } of wallet.keyChain.getKeysets()) {
    try {
      const points = new SeedPoints(seed, id);
      const restored = await client.restore(id, points, { ...options, gap: undefined }).catch((error) => {
        found.problems.push({ keyset: id, error });
        // After an error, what was answered before is kept.
        return error.unfinished ? (error.unfinished as Restore).soFar() : Promise.reject(error);
      });
      await collect(wallet, id, points, restored, found);
    } catch (error) {
      if (error instanceof WalletError && error.code === 'NoFilters') {
        await byItself(wallet, id, gap, found).catch((error) => found.problems.push({ keyset: id, error }));
      } else {
        found.problems.push({ keyset: id, error: error as Error });
      }
    }
  }
  for (const { id, nextCounter } of found.keysets) {
    await wallet.counters.advanceToAtLeast(id, nextCounter);
  }
  return found;
}

/** The points of a seed's counters. */
class SeedPoints implements Points {
  constructor(
    private readonly seed: Uint8Array,
    private readonly id: string,
  ) {}

  output(counter: number): OutputData {
    return OutputData.createDeterministicData(0, this.seed, counter, { id: this.id, keys: {} }, [0])[0]!;
  }

  ys(from: number, to: number): Uint8Array[] {
    return Array.from({ length: to - from }, (_, i) => hashToCurve(this.output(from + i).secret).toBytes(true));
  }

  messages(counters: readonly number[]): Uint8Array[] {
    return counters.map((counter) => fromHex(this.output(counter).blindedMessage.B_)!);
  }
}

/** Adds the notes of one keyset. */
async function collect(wallet: Wallet, id: string, points: SeedPoints, restored: Restored, found: RestoredWallet): Promise<void> {
  const { outcomes, nextCounter, warnings, chance } = restored;
  found.keysets.push({ id, nextCounter, byFilters: chance ? { warnings, chance } : { warnings } });
  for (const [counter, outcome] of outcomes.entries()) {
    try {
      if (outcome.state === 'refused') {
        throw outcome.error;
      } else if (outcome.state === 'live' && outcome.signature.amount > 0) {
        found.proofs.push(await toProof(wallet, points.output(counter), outcome.signature));
      }
    } catch (error) {
      found.problems.push({ keyset: id, counter, error: error as Error });
    }
  }
}

/** The mint may have signed with another keyset, which must be of the wallet's unit. */
async function toProof(wallet: Wallet, output: OutputData, { amount, ...signature }: BlindSignature): Promise<Proof> {
  if (!wallet.keyChain.isUnitKeyset(signature.id)) {
    throw new Error(`the mint signed with keyset ${signature.id}, which is not of the wallet's unit`);
  }
  const keyset = await wallet.keyChain.ensureKeysetKeys(signature.id);
  return output.toProof({ ...signature, amount: Amount.from(amount) }, keyset);
}

/** What cashu-ts does. */
async function byItself(wallet: Wallet, id: string, gap: number, found: RestoredWallet): Promise<void> {
  const { proofs, lastCounterWithSignature = -1 } = await wallet.batchRestore(gap, STEP, 0, id);
  const states = await wallet.checkProofsStates(proofs);
  found.proofs.push(...proofs.filter((_, i) => states[i]!.state !== CheckStateEnum.SPENT));
  found.keysets.push({ id, nextCounter: lastCounterWithSignature + 1 });
}
