// Reads the tokens on standard input with each version of cashu-ts that is installed, and prints a JSON object: by version, the number
// of notes and their sum. A version that is not installed is left out.
import { readFileSync } from 'node:fs';

const tokens = readFileSync(0, 'utf8').split(/\s+/).filter(Boolean);
const read = {};
for (const name of ['@cashu/cashu-ts', 'cashu-ts-3', 'cashu-ts-2']) {
  const library = await import(name).catch(() => undefined);
  // Since 3, ids of keysets of version 01 are shortened, so decoding needs those of the mint.
  const proofs = library && tokens.flatMap((token) => (library.getTokenMetadata ? library.getTokenMetadata(token).incompleteProofs : library.getDecodedToken(token).proofs));
  if (proofs) {
    read[name] = [proofs.length, proofs.reduce((sum, { amount }) => sum + Number(amount), 0)];
  }
}
console.log(JSON.stringify(read));
