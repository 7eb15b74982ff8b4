// SPDX-License-Identifier: Apache-2.0
//
// Reads OTLP traces in JSON, one request a line, with the message definitions of OpenTelemetry's own
// library. Each request is verified, encoded to protobuf, decoded again and compared: a field that the
// definitions do not know, or of another type, would be lost on the way. Prints spans, one a line.
//
//   NODE_PATH=build/tools/npm-readers/node_modules node decode-otlp.cjs FILE
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');

const folder = path.dirname(require.resolve('@opentelemetry/otlp-transformer/package.json'));
const root = require(path.join(folder, 'build/src/generated/root.js'));
const Request = root.opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest;

const IDS = ['traceId', 'spanId', 'parentSpanId'];

// This JSON has ids in hex, where protobuf's own mapping has base64.
function withBytes(value, key) {
	if (Array.isArray(value)) return value.map((v) => withBytes(v));
	if (value && typeof value === 'object')
		return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, withBytes(v, k)]));
	if (IDS.includes(key)) {
		assert.match(value, /^([0-9a-f]{16}){1,2}$/);
		return Buffer.from(value, 'hex').toString('base64');
	}
	return value;
}

const lines = fs.readFileSync(process.argv[2], 'utf8').split('\n');
assert.strictEqual(lines.pop(), '');
for (const line of lines) {
	const given = withBytes(JSON.parse(line));
	const message = Request.fromObject(given);
	assert.strictEqual(Request.verify(message), null);
	const back = Request.toObject(Request.decode(Request.encode(message).finish()), { longs: String, bytes: String });
	assert.deepStrictEqual(back, given);
	for (const { scopeSpans } of back.resourceSpans)
		for (const { spans } of scopeSpans)
			for (const s of spans) console.log(JSON.stringify(s));
}
