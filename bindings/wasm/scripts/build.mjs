// Builds dist/: the WebAssembly modules, the bundles for both module systems, and the types.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

process.chdir(new URL('..', import.meta.url).pathname);

// rustup's compiler has no standard library for WebAssembly, and this build must not download one.
const RUSTC = '/usr/bin/rustc';
const needed = {
  [RUSTC]: 'rustc-web',
  '/usr/lib/rustlib/src/rust/library/core/Cargo.toml': 'rust-web-src',
  '/usr/bin/wasm-ld-22': 'lld-22',
};
const missing = Object.keys(needed).filter((file) => !existsSync(file));
if (missing.length > 0) {
  const packages = missing.map((file) => needed[file]).join(' ');
  console.error(`missing: ${missing.join(', ')}\ninstall: apt-get install --no-install-recommends ${packages}`);
  process.exit(1);
}

function wasm(name, feature) {
  const target = 'wasm32-unknown-unknown';
  const directory = `target/${name}`;
  const options = ['build', '--quiet', '--locked', '--release', '--target', target, '--target-dir', directory];
  execFileSync('cargo', [...options, '-Zbuild-std=core,alloc'], {
    stdio: 'inherit',
    env: {
      ...process.env,
      RUSTC,
      RUSTC_BOOTSTRAP: '1',
      RUSTFLAGS: `-Zunstable-options -Cpanic=immediate-abort ${feature}`,
      CARGO_ENCODED_RUSTFLAGS: undefined,
      CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER: 'wasm-ld-22',
    },
  });
  return readFileSync(`${directory}/${target}/release/nutfilter_wasm.wasm`);
}

const modules = { simd128: wasm('simd128', '-Ctarget-feature=+simd128'), wasm: wasm('wasm', '') };

rmSync('dist', { recursive: true, force: true });
mkdirSync('dist');
const packed = Object.entries(modules).map(([name, bytes]) => {
  const gzip = gzipSync(bytes, { level: 9 });
  console.log(`${name}: ${bytes.length} bytes, ${gzip.length} compressed`);
  return [name, gzip.toString('base64')];
});
const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
// A script without imports and exports is valid in both module systems.
const script = `globalThis[Symbol.for('nutfilter ${version}')]=${JSON.stringify(Object.fromEntries(packed))};\n`;
writeFileSync('dist/wasm-modules.js', script);

for (const [format, extension] of [['esm', 'mjs'], ['cjs', 'cjs']]) {
  await build({
    entryPoints: ['js/index.ts', 'js/plain.ts'],
    outdir: 'dist',
    outExtension: { '.js': `.${extension}` },
    format,
    bundle: true,
    external: ['./wasm-modules.js'],
    target: 'es2020',
    define: { VERSION: JSON.stringify(version) },
    minifySyntax: true,
    minifyWhitespace: true,
    charset: 'utf8',
  });
}

const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
execFileSync(process.execPath, [tsc, '-p', '.'], { stdio: 'inherit' });
// Only what the public types need; and without the import of the modules, which has no types.
for (const file of ['base64', 'golomb', 'wasm']) {
  rmSync(`dist/types/${file}.d.ts`);
}
const index = readFileSync('dist/types/index.d.ts', 'utf8');
writeFileSync('dist/types/index.d.ts', index.replace("import './wasm-modules.js';\n", ''));
for (const entry of ['index', 'plain']) {
  for (const extension of ['mts', 'cts']) {
    writeFileSync(`dist/${entry}.d.${extension}`, `export * from './types/${entry}.js';\n`);
  }
}
