// Nothing has to be freed: results are ordinary arrays, and the module's memory is reset by every operation.
import assert from 'node:assert/strict';
import test from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { points } from './helpers.mjs';

// Observe the memory of every instance. Node.js has modules of its own.
const memories = [];
const observe = (instance) => {
  if (instance.exports?.allocate) {
    memories.push(instance.exports.memory);
  }
  return instance;
};
const { Instance, instantiate } = WebAssembly;
WebAssembly.instantiate = async (...args) => {
  const started = await instantiate(...args);
  observe(started.instance ?? started);
  return started;
};
WebAssembly.Instance = function (...args) {
  return observe(new Instance(...args));
};

const { Filter, FilterBuilder, GCSFilter } = await import('nutfilter');
const { init } = await import('nutfilter/wasm');
const engine = await init();
const { items, records } = points(50_000);

function round() {
  const filter = GCSFilter.create(items);
  assert.equal(new GCSFilter(filter.content, filter.numItems).matchMany(items.slice(0, 100)).length, 100);
  const index = new FilterBuilder().addRecords(records, 33).build().index();
  assert.equal(index.contains(items[7]), true);
  assert.throws(() => new Filter(filter.content.subarray(0, -2), 50_000), { code: 'TooShort' });
}

test('a thousand filters take no more WebAssembly memory than one', () => {
  assert.equal(engine, 'wasm');
  round();
  const pages = memories.at(-1).buffer.byteLength;
  // Without a turn of the event loop, so that no finalizer could run.
  for (let i = 0; i < 500; i++) {
    round();
  }
  assert.equal(memories.length, 1);
  assert.equal(memories[0].buffer.byteLength, pages);
});

test('filters and indexes are collected as garbage', async () => {
  const collected = async () => {
    for (let i = 0; i < 5; i++) {
      globalThis.gc();
      await setImmediate();
    }
    return process.memoryUsage().arrayBuffers;
  };
  const before = await collected();
  let kept = Array.from({ length: 50 }, () => new FilterBuilder().addRecords(records, 33).build());
  assert.ok((await collected()) - before > 50 * 100_000, 'the filters are alive');
  kept = undefined;
  const after = await collected();
  assert.ok(after - before < 1_000_000, `${after - before} bytes remain`);
});

test('the memory of a large operation is given back', () => {
  const count = memories.length;
  // Four million items need more than the 64 MB that the engine keeps.
  const builder = new FilterBuilder();
  for (let i = 0; i < 80; i++) {
    builder.addRecords(records, 33);
  }
  assert.equal(builder.build().n, 4_000_000);
  assert.equal(memories.length, count + 1);
  assert.ok(memories[count - 1].buffer.byteLength > 64 << 20);
  assert.ok(memories.at(-1).buffer.byteLength < 20 << 20);
  assert.equal(builder.build().contains(items[0]), true);
});
