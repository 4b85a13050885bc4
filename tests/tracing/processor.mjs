// Asks Perfetto's own trace processor (WebAssembly, as its web page uses it) what it makes of a trace.
//   node processor.mjs FOLDER TRACE QUERY...   prints one JSON array of rows for each query, in one JSON array.
// FOLDER holds engine_bundle.js and trace_processor.wasm of one version.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import vm from "node:vm";

const [folder, trace, ...queries] = process.argv.slice(2);
const APPEND = 1, FINALIZE = 2, QUERY = 3;  // methods of TraceProcessorRpc
const PIECE = 1 << 20;

// -- protocol buffers, as much of them as is needed here ---------------------------------------------------------

function varint(value) {
  const bytes = [];
  for (value = BigInt(value); value > 127n; value >>= 7n) bytes.push(Number(value & 127n) | 128);
  return Buffer.from([...bytes, Number(value)]);
}

const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint((field << 3) | 2), varint(value.length), value]);

function readVarint(data, at) {
  let value = 0n, shift = 0n;
  for (;;) {
    const byte = data[at++];
    value |= BigInt(byte & 127) << shift;
    shift += 7n;
    if (byte < 128) return [value, at];
  }
}

function* fields(data) {
  for (let at = 0; at < data.length;) {
    let key, value;
    [key, at] = readVarint(data, at);
    const field = Number(key >> 3n), kind = Number(key & 7n);
    if (kind === 0) [value, at] = readVarint(data, at);
    else if (kind === 1) { value = data.subarray(at, at + 8); at += 8; }
    else if (kind === 2) {
      let length;
      [length, at] = readVarint(data, at);
      value = data.subarray(at, at + Number(length));
      at += Number(length);
    } else throw new Error(`wire type ${kind}`);
    yield [field, value];
  }
}

function* packed(data) {
  for (let at = 0; at < data.length;) {
    let value;
    [value, at] = readVarint(data, at);
    yield BigInt.asIntN(64, value);
  }
}

// -- the processor, without a browser around it ------------------------------------------------------------------

class Fetched {  // the little of XMLHttpRequest by which the bundle loads its WebAssembly
  open(_method, address) { this.file = address; }
  send() { this.response = new Uint8Array(readFileSync(join(folder, this.file.split("/").pop()))).buffer; this.status = 200; }
}

const self = { location: { href: "http://localhost/engine_bundle.js" } };
const quiet = { log() {}, warn() {}, error(...said) { process.stderr.write(said.join(" ") + "\n"); }, debug() {} };
const around = {
  self, window: undefined, console: quiet, XMLHttpRequest: Fetched, WebAssembly, TextDecoder, TextEncoder,
  performance, URL, Uint8Array, TypeError, Error, RangeError, setTimeout, crypto, location: self.location,
  importScripts() {}, WorkerGlobalScope: function () {},
};
vm.runInNewContext(readFileSync(join(folder, "engine_bundle.js"), "utf8"), around, { filename: "engine_bundle.js" });
const replies = [];
const port = { postMessage: (reply) => replies.push(Buffer.from(reply)) };
self.onmessage({ data: port });
await new Promise((ready) => setTimeout(ready, 0));

let serial = 0;
async function ask(method, ...more) {
  const request = Buffer.concat([number(1, ++serial), number(2, method), ...more]);
  const data = new Uint8Array(bytes(1, request));
  replies.length = 0;
  await port.onmessage({ data });
  const found = [];
  for (const [, message] of fields(Buffer.concat(replies))) found.push(new Map(fields(message)));
  for (const message of found) if (message.has(5)) throw new Error(`fatal: ${message.get(5)}`);
  return found;
}

function rows(messages) {
  const names = [], cells = [];
  for (const message of messages) {
    for (const [field, value] of fields(message.get(203))) {
      if (field === 1) names.push(value.toString());
      if (field === 2 && value.length) throw new Error(value.toString());
      if (field === 3) cells.push(...batch(value));
    }
  }
  const found = [];
  for (let at = 0; at < cells.length; at += names.length)
    found.push(Object.fromEntries(names.map((name, k) => [name, cells[at + k]])));
  return found;
}

function batch(data) {
  const kinds = [], whole = [], real = [], text = [];
  for (const [field, value] of fields(data)) {
    if (field === 1) kinds.push(...packed(value));
    if (field === 2) whole.push(...packed(value));
    if (field === 3) for (let at = 0; at < value.length; at += 8) real.push(value.readDoubleLE(at));
    if (field === 5) text.push(...value.toString().split("\0"));
  }
  return kinds.map((kind) => [null, null, () => Number(whole.shift()), () => real.shift(), () => text.shift()][kind]?.() ?? null);
}

const raw = readFileSync(trace);
const json = raw[0] === 0x1f ? gunzipSync(raw) : raw;
for (let at = 0; at < json.length; at += PIECE) await ask(APPEND, bytes(101, json.subarray(at, at + PIECE)));
await ask(FINALIZE);
const answers = [];
for (const query of queries) answers.push(rows(await ask(QUERY, bytes(103, bytes(1, Buffer.from(query))))));
process.stdout.write(JSON.stringify(answers));
