#!/usr/bin/env bash
source "$(dirname "$0")/common.sh"
cd bindings/npm
npm ci --no-audit --no-fund
npm pack
npm test
npm run test:browser
cd "$root"
npm ci --no-audit --no-fund --ignore-scripts --prefix e2e/cashu-ts
e2e -m cashu_ts --require
