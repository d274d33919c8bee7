// A bcoin node in regtest that also serves block filters. The newest bcoin on npm (1.0.2) has no filter index, so its own
// package `golomb` makes the filters here, and its handler for unknown messages answers those of BIP157.
//
//     NODE_BACKEND=js node node.cjs PORT [PEER_PORT]
//
// Each line of standard input is a command in JSON; each answer is a line of JSON:
//
//     {"mine": 3}                         mine blocks; answers the height
//     {"pay": "0014...", "value": 1000}   mine a block with a payment to a script, spent from an old coinbase
//     {"spend": "0014..."}                mine a block that spends the last payment to a script
//     {"reorganise": 2}                   replace the last blocks by one block more, all empty
//     {"lie": 105}                        send a wrong filter for this height from now on
'use strict';

// The native database is not needed: everything is in memory. It does not compile for current versions of Node.js.
const Module = require('module');
const load = Module._load;
Module._load = (name, ...rest) => (name === 'leveldown' ? class {} : load(name, ...rest));

const bcoin = require('bcoin');
const Golomb = require('golomb');
const { UnknownPacket } = require('bcoin/lib/net/packets');

// This bcoin refuses commands of twelve letters, such as `getcfheaders`, because no zero follows.
const Parser = require('bcoin/lib/net/parser');
const parseHeader = Parser.prototype.parseHeader;
Parser.prototype.parseHeader = function (data) {
  const long = data[15] !== 0 && data.toString('ascii', 4, 16);
  if (long) data[15] = 0;
  const header = parseHeader.call(this, data);
  if (long && header) header.cmd = long;
  return header;
};

const COMPACT_FILTERS = 1 << 6;
const OP_RETURN = 0x6a;
const [port, peer] = process.argv.slice(2).map(Number);

const node = new bcoin.FullNode({
  network: 'regtest', memory: true, workers: false, logLevel: 'none', compact: false, httpPort: port + 1,
  listen: true, host: '127.0.0.1', port, publicHost: '127.0.0.1', only: peer ? [`127.0.0.1:${peer}`] : [],
});
node.pool.options.services |= COMPACT_FILTERS;
// bip157 refuses older versions. What this one adds are messages that may be ignored.
node.pool.options.version = 70016;

// By block hash: the filter, its hash and its header.
const index = new Map();
let lie = null;

function add(block, view) {
  const items = block.txs.flatMap((tx) => tx.outputs.map((output) => output.script.raw));
  for (const tx of block.txs.slice(1)) {
    for (const input of tx.inputs) items.push(view.getOutputFor(input).script.raw);
  }
  const contents = items.filter((item) => item.length > 0 && item[0] !== OP_RETURN);
  const filter = Golomb.fromItems(19, block.hash().slice(0, 16), contents);
  const before = index.get(block.prevBlock.toString('hex'));
  const header = filter.header(before ? before.header : Buffer.alloc(32));
  index.set(block.hash('hex'), { bytes: filter.toNBytes(), hash: filter.hash(), header });
}

function varint(n) {
  return n < 0xfd ? Buffer.from([n]) : Buffer.from([0xfd, n & 0xff, n >> 8]);
}

// The chain's block hashes from a height to a block.
async function range(start, stop) {
  const last = await node.chain.getEntry(stop);
  const hashes = [];
  for (let height = start; height <= last.height; height++) hashes.push(await node.chain.getHash(height));
  return hashes.map((hash) => (Buffer.isBuffer(hash) ? hash : Buffer.from(hash, 'hex')));
}

node.pool.handleUnknown = async (peer, { cmd, data }) => {
  const send = (name, ...parts) => peer.send(new UnknownPacket(name, Buffer.concat(parts)));
  const type = data.slice(0, 1);
  const found = (hash) => index.get(hash.toString('hex'));
  if (cmd === 'getcfilters') {
    const start = data.readUInt32LE(1);
    const hashes = await range(start, data.slice(5).toString('hex'));
    for (const [at, hash] of hashes.entries()) {
      let { bytes } = found(hash);
      if (start + at === lie) {
        bytes = Buffer.from(bytes);
        bytes[bytes.length - 1] ^= 0x80;
        process.stdout.write(JSON.stringify({ lied: lie }) + '\n');
      }
      send('cfilter', type, hash, varint(bytes.length), bytes);
    }
  } else if (cmd === 'getcfheaders') {
    const hashes = await range(data.readUInt32LE(1), data.slice(5).toString('hex'));
    const first = await node.chain.getEntry(hashes[0].toString('hex'));
    const before = index.get(Buffer.from(first.prevBlock, 'hex').toString('hex'));
    const previous = before ? before.header : Buffer.alloc(32);
    send('cfheaders', type, data.slice(5), previous, varint(hashes.length), ...hashes.map((hash) => found(hash).hash));
  } else if (cmd === 'getcfcheckpt') {
    const hashes = await range(0, data.slice(1).toString('hex'));
    const every = hashes.filter((_, height) => height > 0 && height % 1000 === 0);
    send('cfcheckpt', type, data.slice(1), varint(every.length), ...every.map((hash) => found(hash).header));
  }
};

// Not a witness address: they are not active yet in a young chain.
const ring = bcoin.KeyRing.generate();
// Coinbases of our own that no payment has spent.
const coins = [];
// The last payment to a script.
const payments = new Map();

async function mine(txs = []) {
  const job = await node.miner.createJob();
  for (const [tx, view] of txs) if (!job.addTX(tx, view)) throw new Error('the payment was not accepted');
  job.refresh();
  const block = await job.mineAsync();
  if (!(await node.chain.add(block))) throw new Error('the block was not accepted');
  coins.push({ tx: block.txs[0], height: node.chain.height });
}

// Mines a block with a transaction that spends the first output of `tx`.
async function send({ tx, height }, outputs) {
  const mtx = new bcoin.MTX();
  for (const [to, value] of outputs) mtx.addOutput(to, value);
  mtx.addTX(tx, 0, height);
  mtx.sign(ring);
  await mine([[mtx.toTX(), mtx.view]]);
  return { tx: mtx.toTX(), height: node.chain.height };
}

async function pay(script, value) {
  const coin = coins.shift();
  const change = [ring.getAddress(), coin.tx.outputs[0].value - value - 10000];
  payments.set(script, await send(coin, [[bcoin.Script.fromRaw(Buffer.from(script, 'hex')), value], change]));
}

// Before witness programs are active, an output that has one needs no signature.
async function spend(script) {
  const payment = payments.get(script);
  await send(payment, [[ring.getAddress(), payment.tx.outputs[0].value - 10000]]);
}

async function reorganise(depth) {
  const fork = node.chain.height - depth;
  let tip = await node.chain.getEntry(fork);
  for (let i = 0; i <= depth; i++) {
    const job = await node.miner.createJob(tip);
    const block = await job.mineAsync();
    await node.chain.add(block);
    tip = await node.chain.getEntry(block.hash('hex'));
  }
}

async function run(command) {
  if (command.mine) for (let i = 0; i < command.mine; i++) await mine();
  if (command.pay) await pay(command.pay, command.value);
  if (command.spend) await spend(command.spend);
  if (command.reorganise) await reorganise(command.reorganise);
  if (command.lie) lie = command.lie;
  return { height: node.chain.height, tip: node.chain.tip.rhash() };
}

(async () => {
  await node.open();
  add(node.network.genesisBlock ? bcoin.Block.fromRaw(node.network.genesisBlock, 'hex') : await node.chain.getBlock(0), null);
  node.chain.on('connect', (entry, block, view) => add(block, view));
  node.miner.addAddress(ring.getAddress());
  await node.connect();
  if (peer) node.startSync();
  const answer = (value) => process.stdout.write(JSON.stringify(value) + '\n');
  answer({ height: node.chain.height });
  for await (const line of require('readline').createInterface({ input: process.stdin })) {
    try {
      answer(await run(JSON.parse(line)));
    } catch (error) {
      answer({ error: String(error.stack) });
    }
  }
  process.exit(0);
})();
