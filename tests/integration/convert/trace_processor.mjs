// Asks Perfetto's own trace processor about traces.
//   node trace_processor.mjs FOLDER < REQUESTS
// FOLDER has its WebAssembly (scripts/fetch-oracles). A request is a line of JSON,
// {"trace": FILE, "queries": [SQL…]}; the answer is a line {"rows": [[{column: value}…]…]}
// or {"error": text}. Numbers beyond 2^53 are texts.
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {createInterface} from 'node:readline';
import {pathToFileURL} from 'node:url';
import {runInThisContext} from 'node:vm';

const folder = process.argv[2];
const wasm = readFileSync(join(folder, 'trace_processor.wasm'));
const source = readFileSync(join(folder, 'engine_bundle.node.js'), 'utf8');
const {EngineBase} = await import(pathToFileURL(join(folder, 'engine.mjs')).href);

// The glue expects a browser's worker, in which it fetches the 64-bit variant. It gets
// the 32-bit one from here, and shows us the object that we talk to.
function adapted() {
  const changes = [
    ['this.useMemory64 = hasMemory64Support();', 'this.useMemory64 = false;'],
    ['locateFile: (s) => s,', 'locateFile: (s) => s, wasmBinary: self.oracleWasm,'],
    ['new wasm_bridge_1.WasmBridge();', 'self.oracleBridge = new wasm_bridge_1.WasmBridge();'],
  ];
  let text = source;
  for (const [from, to] of changes) {
    if (!text.includes(from)) throw new Error(`the glue has no '${from}'`);
    text = text.replace(from, () => to);
  }
  return text;
}

globalThis.self = globalThis;
globalThis.WorkerGlobalScope = function () {};
Object.defineProperty(globalThis, 'location', {value: {href: 'file:///oracle/'}});
// It logs what it does not like about a trace; queries of `stats` say it better.
console.warn = () => {};
console.log = () => {};

class Engine extends EngineBase {
  mode = 'WASM';
  id = 'oracle';
  constructor(port) {
    super();
    this.port = port;
    this.failure = new Promise((_, reject) => (this.fail = reject));
    this.failure.catch(() => {});
    port.onmessage = (message) => {
      try {
        this.onRpcResponseBytes(message.data);
      } catch (error) {
        this.fail(error);
      }
    };
  }
  rpcSendRequestBytes(data) {
    this.port.postMessage(data);
  }
}

async function start() {
  self.oracleWasm = new Uint8Array(wasm);
  runInThisContext(adapted(), {filename: 'engine.js'});
  const bridge = self.oracleBridge;
  while (bridge.reqBufferAddr === 0) await new Promise((go) => setTimeout(go, 10));
  const channel = new MessageChannel();
  bridge.initialize(channel.port1);
  return new Engine(channel.port2);
}

function plain(value) {
  if (typeof value !== 'bigint') return value;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}

function rowsOf(result) {
  if (result.error()) throw new Error(result.error());
  const rows = [];
  for (const row = result.iter({}); row.valid(); row.next()) {
    const columns = result.columns().map((name) => [name, plain(row.get(name))]);
    rows.push(Object.fromEntries(columns));
  }
  return rows;
}

// The last trace stays loaded.
let loaded = {trace: null, engine: null};

async function load(trace) {
  if (loaded.trace === trace) return loaded.engine;
  loaded.engine?.port.close();
  const engine = await start();
  loaded = {trace, engine};
  const reading = (async () => {
    await engine.parse(new Uint8Array(readFileSync(trace)));
    await engine.notifyEof();
  })();
  await Promise.race([reading, engine.failure]);
  return engine;
}

async function answer(request) {
  const asked = async (engine) => {
    const rows = [];
    for (const sql of request.queries) rows.push(rowsOf(await engine.query(sql)));
    return {rows};
  };
  try {
    const engine = await load(request.trace);
    return await Promise.race([asked(engine), engine.failure]);
  } catch (error) {
    loaded.trace = null;
    return {error: String(error.message ?? error)};
  }
}

// A crash inside of the module surfaces here.
process.on('uncaughtException', (error) => {
  process.stdout.write(JSON.stringify({error: String(error.message)}) + '\n');
  process.exit(1);
});
for await (const line of createInterface({input: process.stdin})) {
  const text = JSON.stringify(await answer(JSON.parse(line)));
  process.stdout.write(text + '\n');
}
process.exit(0);
