#!/usr/bin/env bash
# nostr-tools (npm) 2.25.2: `mergeFilters` makes a filter that leaves out events which the filters given to it match.
#
# Expected: the merged filter asks a relay once for what several filters ask for. It takes the earliest `since`, the latest `until`
# and all kinds and authors, so it may match more events than the filters, never fewer.
# Seen: a limit of time that only one filter names holds for all: `{ kinds: [9321], since: T }` with `{ kinds: [17375] }` asks for
# wallets since T. `since: 0` counts as no limit and loses to a later one. An author named by one filter and a kind named by another
# must both be true.
# Why it matters: the relay answers without an error, and "no event" reads as "no wallet", "no mint list" or "no nutzap". Send the
# filters as a list, which a subscription takes (`matchFilters` tests for it), or merge only filters with the same properties.
#
# Exits with 1 if this changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts nostr-tools@2.25.2 >/dev/null
cat >check.mjs <<'JAVASCRIPT'
import assert from 'node:assert'
import { finalizeEvent, generateSecretKey, getPublicKey, matchFilter, matchFilters, mergeFilters } from 'nostr-tools'

const [WALLET, NUTZAP] = [17375, 9321]
const T = 1_700_000_000
const keys = [generateSecretKey(), generateSecretKey()]
const [alice, bob] = keys.map(getPublicKey)
const events = keys.flatMap((key) =>
  [WALLET, NUTZAP].flatMap((kind) =>
    [T - 100, T, T + 100].map((created_at) => finalizeEvent({ kind, created_at, tags: [], content: '' }, key))))

const cases = {
  'wallets of any time, nutzaps since T': [{ kinds: [WALLET] }, { kinds: [NUTZAP], since: T }],
  'nutzaps until T, wallets of any time': [{ kinds: [NUTZAP], until: T }, { kinds: [WALLET] }],
  'wallets since 0, nutzaps since T': [{ kinds: [WALLET], since: 0 }, { kinds: [NUTZAP], since: T }],
  'all of Alice, nutzaps of all': [{ authors: [alice] }, { kinds: [NUTZAP] }],
  'since T - 100 and since T': [{ authors: [alice], since: T - 100 }, { authors: [bob], since: T }],
}
const seen = {}
for (const [name, filters] of Object.entries(cases)) {
  const merged = mergeFilters(...filters)
  seen[name] = [events.filter((one) => matchFilters(filters, one)).length, events.filter((one) => matchFilter(merged, one)).length]
  console.log(`${name}: ${seen[name][0]} of ${events.length} events match a filter, ${seen[name][1]} the merged one`)
}
assert.deepEqual(Object.values(seen), [[10, 8], [10, 8], [10, 8], [9, 3], [10, 12]])
JAVASCRIPT
node check.mjs
