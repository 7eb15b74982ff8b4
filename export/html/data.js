// SPDX-License-Identifier: Apache-2.0
// The recording: the JSON object D, and the timeline's spans in typed arrays.
'use strict';

const D = JSON.parse($('data').textContent);
const TOO_MUCH = '(too much text for this page)';
const text = (id) => id === null ? null : D.texts[id] === null ? TOO_MUCH : D.texts[id];
const F = { UNFINISHED: 1, NO_BEGIN: 2, CLIPPED: 4, INSTANT: 8, LATE: 16, CUT: 32, REDACTED: 64 };
const FLAG_WORDS = [
  [F.UNFINISHED, 'no end was seen: closed where its thread, process or the recording ended'],
  [F.NO_BEGIN, 'ran already when recording began'],
  [F.CLIPPED, 'ran past the span around it and was cut there'],
  [F.LATE, 'belongs to a capture by cause, ran after its window'],
  [F.CUT, 'reaches over the edge of a capture; its times are the true ones'],
  [F.REDACTED, 'arguments were left out or cut'],
];

const ops = {
  n: D.opName.length,
  name(op) {
    return op === 0 ? '(other names)' : text(D.opName[op]);
  },
  cat(op) {
    return text(D.opCat[op]);
  },
  label(op) {
    const cat = this.cat(op), name = this.name(op) || '(no name)';
    return cat ? `${name} [${cat}]` : name;
  },
  rank: new Map(), // those with most self time, which get colours of their own
  colours: [],
  colour(op) {
    return this.colours[op] || (this.colours[op] = paint(this.rankOf(op)));
  },
  rankOf(op) {
    const rank = this.rank.get(op);
    return rank !== undefined ? rank : 40 + hashText(this.name(op)) % 60;
  },
  rankByName: new Map(),
  colourOfName(name) {
    const rank = this.rankByName.get(name);
    return paint(rank !== undefined ? rank : 40 + hashText(name) % 60);
  },
};
D.ops.slice(0, 40).forEach((o, i) => {
  ops.rank.set(o.op, i);
  if (!ops.rankByName.has(ops.name(o.op))) ops.rankByName.set(ops.name(o.op), i);
});
theme.listeners.push(() => { ops.colours = []; });

const streams = new Map(); // number -> {kind, info, rows, n}
for (const t of D.tracks) streams.set(t.stream, { kind: 'thread', info: t, rows: [], n: 0 });
for (const l of D.lanes) streams.set(l.stream, { kind: text(l.kind), info: l, rows: [], n: 0 });
const merged = { spans: 0, unplaced: 0, lostFlows: 0 }; // of the spans too many to be here one by one
const flows = []; // {at, to, fromAt, from, op}
let blob = new Uint8Array(0);

const processName = (() => {
  const byIndex = new Map(D.processes.map((p) => [p.process, p]));
  return (process, pid) => {
    const p = byIndex.get(process);
    return (p && (text(p.label) || text(p.comm))) || 'process ' + pid;
  };
})();

function threadName(t) {
  return text(t.name) || 'thread ' + t.tid;
}

function streamName(stream) {
  const s = streams.get(stream);
  if (!s) return '(not described)';
  if (s.kind === 'thread') return `${threadName(s.info)} (${s.info.tid})`;
  return `${text(s.info.name)} ${s.info.lane + 1}`;
}

/* --- the compressed part --- */

class Bytes {
  constructor(data) {
    this.data = data;
    this.at = 0;
  }

  u8() {
    if (this.at >= this.data.length) throw new Error('the timeline ends too early');
    return this.data[this.at++];
  }

  varint() {
    let v = 0, scale = 1, b;
    do {
      b = this.u8();
      v += (b & 127) * scale;
      scale *= 128;
    } while (b & 128);
    return v;
  }

  svarint() {
    const v = this.varint();
    return v % 2 ? -(v + 1) / 2 : v / 2;
  }

  // As text: all 64 bits of it.
  big(signed) {
    let v = 0n, shift = 0n, b;
    do {
      b = this.u8();
      v |= BigInt(b & 127) << shift;
      shift += 7n;
    } while (b & 128);
    v = BigInt.asUintN(64, v);
    return String(signed ? BigInt.asIntN(64, v >> 1n ^ -(v & 1n)) : v);
  }
}

async function inflate(base64) {
  const raw = atob(base64);
  const packed = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) packed[i] = raw.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function readSpans(b, chunks) {
  const stream = b.varint(), n = b.varint(), argBytes = b.varint();
  const c = {
    n, start: new Float64Array(n), dur: new Float64Array(n), op: new Uint32Array(n),
    depth: new Uint8Array(n), flags: new Uint8Array(n), args: new Uint32Array(n), argLen: new Uint16Array(n),
  };
  const list = chunks.get(stream) || [];
  // Chunks of a stream follow each other in time: each begins where the one before was.
  let at = list.length ? list[list.length - 1].lastAt : 0;
  for (let i = 0; i < n; i++) c.start[i] = at += b.svarint();
  c.lastAt = at;
  for (let i = 0; i < n; i++) c.dur[i] = b.varint();
  for (let i = 0; i < n; i++) c.op[i] = b.varint();
  for (let i = 0; i < n; i++) c.depth[i] = b.u8();
  for (let i = 0; i < n; i++) c.flags[i] = b.u8();
  for (let i = 0; i < n; i++) c.argLen[i] = b.varint();
  let args = b.at;
  for (let i = 0; i < n; i++) {
    c.args[i] = args;
    args += c.argLen[i];
  }
  b.at += argBytes;
  list.push(c);
  chunks.set(stream, list);
}

function readSlots(b, slots) {
  const stream = b.varint(), depth = b.varint(), n = b.varint(), used = b.varint();
  const row = {
    width: D.drawn.slotLength / n, index: new Uint32Array(used), count: new Float64Array(used),
    cover: new Float32Array(used), op: new Uint32Array(used), longest: new Float64Array(used),
  };
  let at = 0;
  for (let i = 0; i < used; i++) {
    row.index[i] = at += b.varint();
    row.count[i] = b.varint();
    row.cover[i] = Math.min(1, b.varint() / 1000);
    row.op[i] = b.varint();
    row.longest[i] = b.varint();
  }
  slots.push({ stream, depth, row });
}

function readFlow(b) {
  const at = b.varint(), to = b.varint(), wait = b.varint(), from = b.varint(), op = b.varint();
  flows.push({ at, to, fromAt: at - wait, from, op });
}

function newRow(n) {
  return {
    n: 0, start: new Float64Array(n), end: new Float64Array(n), op: new Uint32Array(n), flags: new Uint8Array(n),
    self: new Float64Array(n), args: new Uint32Array(n), argLen: new Uint16Array(n), cover: new Float64Array(n + 1),
    slots: null,
  };
}

// One row of spans that do not overlap for each depth, with sums so that any stretch of it is known at once.
function buildRows(s, chunks) {
  const sizes = [];
  for (const c of chunks) {
    s.n += c.n;
    for (let i = 0; i < c.n; i++) sizes[c.depth[i]] = (sizes[c.depth[i]] || 0) + 1;
  }
  for (let d = 0; d < sizes.length; d++) s.rows.push(newRow(sizes[d] || 0));
  for (const c of chunks) {
    for (let i = 0; i < c.n; i++) {
      const d = c.depth[i], r = s.rows[d], k = r.n++;
      r.start[k] = c.start[i];
      r.end[k] = c.start[i] + c.dur[i];
      r.op[k] = c.op[i];
      r.flags[k] = c.flags[i];
      r.args[k] = c.args[i];
      r.argLen[k] = c.argLen[i];
      r.self[k] = c.dur[i];
      r.cover[k + 1] = r.cover[k] + c.dur[i];
      if (d && !(c.flags[i] & F.INSTANT)) {
        const up = s.rows[d - 1];
        if (up.n && up.end[up.n - 1] >= r.end[k]) up.self[up.n - 1] -= c.dur[i];
      }
    }
  }
}

async function loadSpans() {
  const element = $('spans');
  const base64 = element.textContent;
  element.remove();
  if (typeof DecompressionStream === 'undefined') throw new Error('this browser is older than 2023: it cannot unpack the timeline');
  blob = await inflate(base64);
  const b = new Bytes(blob), chunks = new Map(), slots = [];
  for (let part = b.u8(); part; part = b.u8()) {
    if (part === 1) readSpans(b, chunks);
    else if (part === 2) readSlots(b, slots);
    else if (part === 3) readFlow(b);
    else throw new Error('the timeline has a part that this page does not know');
  }
  merged.unplaced = b.varint();
  merged.lostFlows = b.varint();
  for (const [stream, list] of chunks) {
    const s = streams.get(stream);
    if (s) buildRows(s, list);
    chunks.delete(stream);
  }
  for (const { stream, depth, row } of slots) {
    const s = streams.get(stream);
    if (!s) continue;
    while (s.rows.length <= depth) s.rows.push(newRow(0));
    s.rows[depth].slots = row;
    s.merged = true;
    for (const n of row.count) merged.spans += n;
  }
  merged.spans += merged.unplaced;
  flows.sort((a, c) => a.at - c.at);
}

// [[key, value as text], ...]
function argsOf(row, i) {
  if (!row.argLen[i]) return [];
  const b = new Bytes(blob.subarray(row.args[i], row.args[i] + row.argLen[i])), out = [];
  const argText = (id) => D.argTexts[id] === null ? TOO_MUCH : D.argTexts[id];
  while (b.at < b.data.length) {
    const key = argText(b.varint()), type = b.u8();
    let value;
    if (type === 0) value = b.big(true);
    else if (type === 1) value = b.big(false);
    else if (type === 2) {
      value = String(new DataView(b.data.buffer, b.data.byteOffset + b.at, 8).getFloat64(0, true));
      b.at += 8;
    } else if (type === 3) value = argText(b.varint());
    else value = duration(b.varint());
    out.push([key, value]);
  }
  return out;
}
