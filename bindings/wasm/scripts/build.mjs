// Builds dist/: the WebAssembly module, then one JavaScript file with types and source map per source file, for both
// module systems.
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { gzipSync } from 'node:zlib';

process.chdir(new URL('..', import.meta.url).pathname);
const TARGET = 'wasm32-unknown-unknown';
const FLAGS = '-Cllvm-args=-inline-threshold=50';

/** Cargo's options and environment: the pinned toolchain if it has the target's standard library, or Debian's compiler. */
function toolchain() {
  const library = execFileSync('rustc', ['--print', 'target-libdir', '--target', TARGET], { encoding: 'utf8' }).trim();
  if (existsSync(library)) {
    return { options: [], environment: { RUSTFLAGS: FLAGS } };
  }
  const needed = {
    '/usr/bin/rustc': 'rustc-web',
    '/usr/lib/rustlib/src/rust/library/core/Cargo.toml': 'rust-web-src',
    '/usr/bin/wasm-ld-22': 'lld-22',
  };
  const missing = Object.keys(needed).filter((file) => !existsSync(file)).map((file) => needed[file]);
  if (missing.length > 0) {
    console.error(`no ${library}; run: rustup target add ${TARGET}`);
    console.error(`or, on Debian: apt-get install --no-install-recommends ${missing.join(' ')}`);
    process.exit(1);
  }
  const environment = {
    RUSTC: '/usr/bin/rustc',
    RUSTC_BOOTSTRAP: '1',
    RUSTFLAGS: `${FLAGS} -Zunstable-options -Cpanic=immediate-abort`,
    CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER: 'wasm-ld-22',
  };
  return { options: ['-Zbuild-std=core,alloc'], environment };
}

const { options, environment } = toolchain();
execFileSync('cargo', ['build', '--quiet', '--locked', '--release', '--target', TARGET, '--target-dir', 'target', ...options], {
  stdio: 'inherit',
  env: { ...process.env, CARGO_ENCODED_RUSTFLAGS: undefined, ...environment },
});
const module = readFileSync(`target/${TARGET}/release/nutfilter_wasm.wasm`);
const gzip = gzipSync(module, { level: 9 });
console.log(`WebAssembly: ${module.length} bytes, ${gzip.length} compressed`);
writeFileSync('js/wasm-module.ts', `import { decodeBase64 } from './base64.js';

/** The module, compressed by gzip. Written by scripts/build.mjs. */
export function compressed(): Uint8Array<ArrayBuffer> {
  return decodeBase64('${gzip.toString('base64')}') as Uint8Array<ArrayBuffer>;
}
`);

rmSync('dist', { recursive: true, force: true });
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
for (const format of [[], ['--module', 'commonjs', '--moduleResolution', 'node10', '--outDir', 'dist/cjs']]) {
  execFileSync(process.execPath, [tsc, '-p', '.', ...format], { stdio: 'inherit' });
}
mkdirSync('dist/cjs', { recursive: true });
writeFileSync('dist/cjs/package.json', '{ "type": "commonjs", "sideEffects": false }\n');
// npm packs no symbolic links.
['LICENSE-APACHE', 'LICENSE-MIT'].forEach((file) => copyFileSync(`../../${file}`, file));
