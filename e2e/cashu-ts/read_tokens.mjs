// Reads the tokens on standard input with three versions of cashu-ts, and prints a JSON object: by version, the number of notes and
// their sum.
import { readFileSync } from 'node:fs';

const tokens = readFileSync(0, 'utf8').split(/\s+/).filter(Boolean);
const read = {};
for (const name of ['@cashu/cashu-ts', 'cashu-ts-3', 'cashu-ts-2']) {
  const { getDecodedToken, getTokenMetadata } = await import(name);
  // Tokens have short ids of keysets of version 01. Since 3, decoding needs the long ones; this does not.
  const decode = (token) => getTokenMetadata?.(token).incompleteProofs ?? getDecodedToken(token).proofs;
  const proofs = tokens.flatMap(decode);
  read[name] = [proofs.length, proofs.reduce((sum, { amount }) => sum + Number(amount), 0)];
}
console.log(JSON.stringify(read));
