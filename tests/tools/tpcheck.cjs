// SPDX-License-Identifier: Apache-2.0
//
// Loads one trace into Perfetto's trace processor and runs queries on it.
//
//   TPDIR=build/tools/trace-processor node tpcheck.cjs FILE ["SQL" ...]
//
// Prints one line of JSON: {"bad": [importer complaints], "rows": [[row objects of a query] ...]}.
// Exit status: 0 clean, 1 the importer complained, 2 could not run or not recognised as a trace.
//
// The package's glue expects to live in a browser's worker. The three globals of a worker are
// supplied, the WebAssembly module is handed over as bytes, and 64-bit memory is left off. When a
// later package changes one of the patched lines this fails and says which.
'use strict';

const fs = require('fs');
const path = require('path');
const vm = require('vm');
const { pathToFileURL } = require('url');

const dir = process.env.TPDIR || path.join(__dirname, '../../build/tools/trace-processor');
const [file, ...queries] = process.argv.slice(2);

// Counted by the importer as mere information, but each means that something of ours was dropped.
const MUST_BE_ZERO = [
	'track_event_tokenizer_errors', 'track_event_parser_errors',
	'interned_data_tokenizer_errors', 'track_hierarchy_missing_uuid',
	'packet_skipped_seq_needs_incremental_state_invalid',
	'interned_data_skipped_incremental_state_invalid', 'tokenizer_skipped_packets',
	'flow_step_without_start', 'flow_end_without_start', 'compact_sched_switch_skipped',
];
const COMPLAINTS = `select name, idx, severity, value from stats where value > 0 and
	(severity in ('error', 'data_loss') or name in (${MUST_BE_ZERO.map((n) => `'${n}'`)}))`;

function loadGlue() {
	globalThis.self = globalThis;
	globalThis.WorkerGlobalScope = function WorkerGlobalScope() {};
	Object.defineProperty(globalThis, 'location',
		{ value: { href: `${pathToFileURL(dir).href}/` }, configurable: true });
	globalThis.wasmBytes = new Uint8Array(fs.readFileSync(path.join(dir, 'trace_processor.wasm')));

	let glue = fs.readFileSync(path.join(dir, 'engine_bundle.node.js'), 'utf8');
	for (const [from, to] of [
		['this.useMemory64 = hasMemory64Support();', 'this.useMemory64 = false;'],
		['locateFile: (s) => s,', 'locateFile: (s) => s, wasmBinary: globalThis.wasmBytes,'],
		['const wasmBridge = new wasm_bridge_1.WasmBridge();',
			'const wasmBridge = new wasm_bridge_1.WasmBridge(); globalThis.wasmBridge = wasmBridge;'],
	]) {
		if (!glue.includes(from)) throw new Error(`package layout changed: ${from}`);
		glue = glue.replace(from, () => to);
	}
	console.warn = () => {};
	vm.runInThisContext(glue, { filename: 'engine_bundle' });
}

async function startEngine() {
	loadGlue();
	const { EngineBase } = await import(pathToFileURL(path.join(dir, 'engine.mjs')).href);

	class LocalEngine extends EngineBase {
		constructor(port) {
			super();
			this.mode = 'WASM';
			this.id = 'local';
			this.port = port;
			port.onmessage = (m) => {
				if (m.data instanceof Uint8Array) this.onRpcResponseBytes(m.data);
			};
		}

		rpcSendRequestBytes(bytes) {
			this.port.postMessage(bytes);
		}
	}

	const channel = new MessageChannel();
	globalThis.wasmBridge.initialize(channel.port1);
	const engine = new LocalEngine(channel.port2);
	// The module compiles on a later turn of the event loop and tells nobody when it is done.
	await new Promise((done) => setTimeout(done, 1000));
	return engine;
}

async function load(engine) {
	const fd = fs.openSync(file, 'r');
	const chunk = Buffer.alloc(32 << 20);
	for (let n; (n = fs.readSync(fd, chunk)) > 0;)
		await engine.parse(new Uint8Array(chunk.subarray(0, n)));
	fs.closeSync(fd);
	await engine.notifyEof();
}

// 64-bit integers come as text: a JSON number would lose their low digits.
async function query(engine, sql) {
	const result = await engine.query(sql);
	const columns = result.columns();
	const rows = [];
	for (const it = result.iter({}); it.valid(); it.next()) {
		const row = {};
		for (const c of columns) {
			const v = it.get(c);
			row[c] = typeof v === 'bigint' ? v.toString() : v;
		}
		rows.push(row);
	}
	return rows;
}

async function main() {
	if (!file) throw new Error('usage: tpcheck.cjs FILE ["SQL" ...]');
	const engine = await startEngine();
	await load(engine);
	const bad = await query(engine, COMPLAINTS);
	const rows = [];
	for (const sql of queries) rows.push(await query(engine, sql));
	fs.writeSync(1, `${JSON.stringify({ bad, rows })}\n`);
	return bad.length ? 1 : 0;
}

main().then((code) => process.exit(code)).catch((e) => {
	fs.writeSync(2, `tpcheck: ${(e && e.message) || e}\n`);
	process.exit(2);
});
