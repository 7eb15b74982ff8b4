// SPDX-License-Identifier: Apache-2.0
// Operations, requests, waiting, memory, counters, threads, captures.
'use strict';

const none = (what) => el('p', { class: 'none' }, what);

function shareBar(part, of) {
  const bar = el('i');
  bar.style.width = Math.min(100, of ? part / of * 100 : 0) + '%';
  return el('span', { class: 'share' }, el('span', { class: 'track' }, bar), percent(part, of));
}

function momentButton(t, label) {
  return el('button', { type: 'button', class: 'op', title: 'Show this moment in the timeline', onclick: () => timeline.center(t) }, label || duration(t));
}

/* --- operations --- */

function showOperations() {
  const section = $('operations');
  if (!D.ops.length) {
    section.append(none('No spans.'));
    return;
  }
  const allocs = D.ops.some((o) => o.allocs || o.frees);
  const columns = [
    { title: 'operation', text: true, get: (o) => ops.label(o.op), show: opButton, cls: 'grow' },
    { title: 'calls', get: (o) => o.dur[0], show: (o) => count(o.dur[0]) },
    { title: 'self', hint: 'without the spans inside', get: (o) => o.self, show: (o) => duration(o.self) },
    { title: 'share', hint: 'of all self time', get: (o) => o.self, show: (o) => shareBar(o.self, D.time.self) },
    { title: 'total', hint: 'with the spans inside; a recursive call counts once', get: (o) => o.total, show: (o) => duration(o.total) },
    ...spreadColumns((o) => o.dur, ['mean', 'min', 'p50', 'p90', 'p95', 'p99', 'max']),
  ];
  if (allocs) columns.push({ title: 'allocated', hint: 'while it was the innermost span', get: (o) => o.allocBytes || 0, show: (o) => o.allocs ? bytes(o.allocBytes) : '–', cls: 'spare' });
  columns.push({ title: 'spread', hint: 'how its durations are spread, on a logarithmic axis', get: (o) => o.dur[0], show: (o) => sparkline(o.shape), cls: 'spare' });
  section.append(new Table(columns, D.ops, { caption: 'Operations', search: 'Find operations', sortBy: 2, first: 25 }).element);
  if (D.nOps > D.ops.length) section.append(el('p', { class: 'note' }, `… and ${count(D.nOps - D.ops.length)} more operations with ${duration(D.restSelf)} self time`));
}

function sparkline(shape) {
  if (!shape || !shape.length) return '–';
  const lo = Math.log(Math.max(1, shape[0])), hi = Math.log(shape[shape.length - 3] + shape[shape.length - 2]);
  let max = 0;
  for (let i = 2; i < shape.length; i += 3) max = Math.max(max, shape[i]);
  const svg = el('svg', { class: 'spark', viewBox: '0 0 64 16', 'aria-hidden': 'true' });
  let d = '';
  for (let i = 0; i < shape.length; i += 3) {
    const x = (Math.log(Math.max(1, shape[i])) - lo) / (hi - lo || 1) * 62;
    const w = Math.max(1, (Math.log(shape[i] + shape[i + 1]) - Math.log(Math.max(1, shape[i]))) / (hi - lo || 1) * 62);
    const h = Math.max(1, Math.sqrt(shape[i + 2] / max) * 16);
    d += `M${x.toFixed(1)} 16v${(-h).toFixed(1)}h${w.toFixed(1)}v${h.toFixed(1)}z`;
  }
  svg.append(el('path', { d }));
  return svg;
}

/* --- requests --- */

// Every request that the timeline has one by one.
function allRequests(name) {
  const out = [];
  for (const [id, s] of streams) {
    if (s.kind !== 'request' || s.info.name !== name || !s.rows.length) continue;
    const r = s.rows[0];
    for (let i = 0; i < r.n; i++) out.push({ id, row: r, i, at: r.start[i], took: r.end[i] - r.start[i], open: r.flags[i] & F.UNFINISHED });
  }
  return out;
}

function showRequest(q) {
  timeline.choose({ id: q.id, depth: 0, row: q.row, i: q.i });
  timeline.focusOn();
  timeline.show(q.at - q.took * 0.6, q.at + q.took * 1.6);
  jumpTo('timeline');
}

function spreadTable(rows, caption) {
  const shown = rows.filter((r) => r.spread[0]);
  const cols = ['mean', 'p50', 'p90', 'p95', 'p99', 'p999', 'max'];
  return el('div', { class: 'wide' }, el('table', null, el('caption', { class: 'hidden' }, caption),
    el('thead', null, el('tr', null, el('th', { class: 'text', scope: 'col' }, ''), el('th', { scope: 'col' }, 'count'), cols.map((c) => el('th', { scope: 'col' }, c === 'p999' ? 'p99.9' : c)))),
    el('tbody', null, shown.map((r) => el('tr', null, el('th', { class: 'text', scope: 'row', title: r.hint }, r.name), el('td', null, count(r.spread[0])),
      cols.map((c) => el('td', null, duration(c === 'mean' ? meanOf(r.spread) : r.spread[SPREAD[c]]))))))));
}

function showRequests() {
  const section = $('requests');
  if (!D.requests.length) {
    section.append(none('No requests were marked.'));
    return;
  }
  for (const r of D.requests) {
    const all = allRequests(r.name), done = all.filter((q) => !q.open).sort((a, b) => b.took - a.took);
    const took = r.lastEnd - r.firstBegin;
    const summary = [`${count(r.ended)} finished (${rate(r.ended, took)})`, `${count(r.most)} at the same time at most`];
    if (r.unfinished) summary.push(`${count(r.unfinished)} without an end`);
    if (r.noBegin) summary.push(`${count(r.noBegin)} began before the recording`);
    if (r.units) summary.push(`${count(r.units)} units of output (${rate(r.units, took)})`);
    const p99 = r.latency[SPREAD.p99];
    section.append(el('h3', null, nameOf(text(r.name))), el('p', null, summary.join(', ')),
      el('div', { class: 'pair' },
        el('figure', null, el('figcaption', null, 'Latency: how many took how long'), histogramChart(r.latencyShape, r.latency, 'Histogram of latencies')),
        el('figure', null, el('figcaption', null, 'Latency over time; click a point to see the request'),
          scatterChart(done.slice(0, 20000).map((q) => [q.at, q.took, q.took > p99 ? 'slow' : '']), 'Latency over time', D.drawn.first, D.drawn.last, (i) => showRequest(done[i])))),
      spreadTable([
        { name: 'latency', hint: 'begin to end', spread: r.latency },
        { name: 'time to first output', hint: 'begin to first output', spread: r.first },
        { name: 'time per further unit', hint: 'first output to end, for each unit after the first', spread: r.perUnit },
        { name: 'queued', hint: 'begin to the begin of the span that served it', spread: r.queued },
        { name: 'computed', hint: 'from there to the last output', spread: r.computed },
      ], 'Percentiles'),
      slowest(done));
  }
  if (D.nRequests > D.requests.length) section.append(el('p', { class: 'note' }, `… and ${count(D.nRequests - D.requests.length)} more kinds of requests`));
}

function slowest(done) {
  const rows = done.slice(0, 50).map((q) => ({ q, args: new Map(argsOf(q.row, q.i)) }));
  return el('details', { open: true }, el('summary', null, 'The slowest'), new Table([
    { title: 'id', text: true, get: (r) => r.args.get('id') || '–' },
    { title: 'latency', get: (r) => r.q.took, show: (r) => duration(r.q.took) },
    { title: 'began', get: (r) => r.q.at, show: (r) => el('button', { type: 'button', class: 'op', onclick: () => showRequest(r.q) }, duration(r.q.at)) },
    { title: 'waited', hint: 'until the span that served it began', get: (r) => r.q.i, show: (r) => r.args.get('waited') || '–' },
    { title: 'first output', get: (r) => r.q.i, show: (r) => r.args.get('first output after') || '–' },
    { title: 'units', get: (r) => Number(r.args.get('units') || 0), show: (r) => r.args.get('units') || '–' },
  ], rows, { caption: 'The slowest requests', sortBy: 1, first: 10, cls: 'narrow' }).element);
}

/* --- waiting --- */

function showWaiting() {
  const section = $('waiting');
  if (!D.waits.length && !D.asyncs.length) {
    section.append(none('No flows and no async spans were marked.'));
    return;
  }
  const keys = ['mean', 'p50', 'p90', 'p99', 'max'];
  if (D.waits.length) {
    section.append(el('h3', null, 'Between enqueue and run'), new Table([
      { title: 'flow', text: true, get: (w) => text(w.name), show: (w) => nameOf(text(w.name)) },
      { title: 'received by', text: true, get: (w) => text(w.into), show: (w) => nameOf(text(w.into) || 'no span'), cls: 'grow' },
      { title: 'count', get: (w) => w.wait[0], show: (w) => count(w.wait[0]) },
      { title: 'waited', hint: 'all together', get: (w) => w.wait[1], show: (w) => duration(w.wait[1]) },
      ...spreadColumns((w) => w.wait, keys),
      { title: 'then ran', hint: 'mean of the spans that received them', get: (w) => w.ran ? w.ranNs / w.ran : 0, show: (w) => w.ran ? duration(w.ranNs / w.ran) : '–' },
    ], D.waits, { caption: 'Waiting between enqueue and run', sortBy: 3 }).element);
  }
  if (D.asyncs.length) {
    section.append(el('h3', null, 'Async spans'), new Table([
      { title: 'span', text: true, get: (a) => text(a.name), show: (a) => nameOf(text(a.name)), cls: 'grow' },
      { title: 'count', get: (a) => a.dur[0], show: (a) => count(a.dur[0]) },
      { title: 'at once', hint: 'at the same time at most, in one process', get: (a) => a.most, show: (a) => count(a.most) },
      ...spreadColumns((a) => a.dur, keys),
    ], D.asyncs, { caption: 'Async spans', sortBy: 1 }).element);
  }
}

/* --- memory --- */

function devicePoints(m, at) {
  const out = [];
  for (let i = 0; i < m.points.length; i += 7) out.push([m.points[i], m.points[i + at], m.points[i + at + 1], m.points[i + at + 2]]);
  return out;
}

function showDevice(m) {
  const name = text(m.name) || (m.device ? `device ${m.device}` : 'host');
  const lines = [{ name: 'in use', cls: 'first', fill: true, points: devicePoints(m, 1) }];
  if (m.reserves || m.releases || m.reserved) lines.push({ name: 'reserved by pools', cls: 'second', points: devicePoints(m, 4) });
  const parts = [`${plural(m.allocs, 'allocation')} of ${bytes(m.allocBytes)}`, `${plural(m.frees, 'free')} of ${bytes(m.freedBytes)}`];
  if (m.olderFrees) parts.push(`${plural(m.olderFrees, 'free')} of memory from before the recording`);
  if (m.unfreedBlocks) parts.push(`${plural(m.unfreedBlocks, 'block')} of ${bytes(m.unfreedBytes)} not freed`);
  return [el('h3', null, nameOf(processName(-1, m.pid) && (text(m.comm) || `process ${m.pid}`)), ` (${m.pid}), `, nameOf(name)),
    el('p', null, 'peak ', el('b', null, bytes(m.peak)), ' at ', momentButton(m.peakAt), `, now ${bytes(m.current)}, at first ${bytes(m.baseline)}`,
      m.reservedPeak ? `, reserved at most ${bytes(m.reservedPeak)}` : '', '; ', parts.join(', ')),
    timeChart(lines, bytes, `Memory of ${name} over time`, D.drawn.first, D.drawn.last, true),
    lines.length > 1 ? el('p', { class: 'legend' }, el('i', { class: 'first' }), ' in use ', el('i', { class: 'second' }), ' reserved by pools') : null];
}

function showMemory() {
  const section = $('memory');
  if (!D.memory.length) {
    section.append(none('Nothing was allocated or freed through markers.'));
    return;
  }
  for (const m of D.memory) section.append(...showDevice(m).filter(Boolean));
  if (D.nMemory > D.memory.length) section.append(el('p', { class: 'note' }, `… and ${count(D.nMemory - D.memory.length)} more devices of processes`));
  const by = D.ops.filter((o) => o.allocs || o.frees);
  const tables = [];
  if (by.length) {
    tables.push(el('div', null, el('h3', null, 'By operation'), new Table([
      { title: 'operation', text: true, get: (o) => ops.label(o.op), show: opButton, cls: 'grow' },
      { title: 'allocations', get: (o) => o.allocs || 0, show: (o) => count(o.allocs || 0) },
      { title: 'bytes', get: (o) => o.allocBytes || 0, show: (o) => bytes(o.allocBytes || 0) },
      { title: 'frees', get: (o) => o.frees || 0, show: (o) => count(o.frees || 0) },
      { title: 'freed', get: (o) => o.freedBytes || 0, show: (o) => bytes(o.freedBytes || 0) },
    ], by, { caption: 'Memory by operation', sortBy: 2, first: 12 }).element));
  }
  if (D.pools.some((p) => p.name)) {
    tables.push(el('div', null, el('h3', null, 'By pool or tag'), new Table([
      { title: 'pool', text: true, get: (p) => text(p.name), show: (p) => p.name ? nameOf(text(p.name)) : '(none)', cls: 'grow' },
      { title: 'pid', get: (p) => p.pid },
      { title: 'allocations', get: (p) => p.allocs, show: (p) => count(p.allocs) },
      { title: 'bytes', get: (p) => p.allocBytes, show: (p) => bytes(p.allocBytes) },
      { title: 'peak', get: (p) => p.peak, show: (p) => bytes(p.peak) },
      { title: 'now', get: (p) => p.current, show: (p) => bytes(p.current) },
    ], D.pools, { caption: 'Memory by pool or tag', sortBy: 4, first: 12 }).element));
  }
  section.append(el('div', { class: 'pair' }, tables));
}

/* --- counters, threads, captures --- */

function showCounters() {
  const section = $('counters');
  if (!D.counters.length) {
    section.append(none('No counters were marked.'));
    return;
  }
  const slot = D.drawn.slotLength / D.counterSlots;
  section.append(el('div', { class: 'pair' }, D.counters.slice(0, 24).map((c) => {
    const points = [];
    for (let i = 0; i < c.points.length; i += 4) points.push([D.drawn.slotBegin + c.points[i] * slot, c.points[i + 1], c.points[i + 2], c.points[i + 3]]);
    return el('figure', null, el('figcaption', null, nameOf(text(c.name)), ` (${c.pid})`),
      timeChart([{ name: 'value', cls: 'first', fill: true, points }], (v) => Math.abs(v) >= 1000 ? count(v) : String(+v.toPrecision(3)), 'A counter over time', D.drawn.first, D.drawn.last));
  })));
}

// How busy a thread was over time, from its outermost spans.
function busyStrip(t) {
  const s = streams.get(t.stream), n = 120, canvas = el('canvas', { class: 'strip', 'aria-hidden': 'true', width: String(n), height: '14' });
  if (!s || !s.rows.length) return '–';
  const paintIt = () => {
    const g = canvas.getContext('2d'), dt = (D.drawn.last - D.drawn.first) / n;
    g.clearRect(0, 0, n, 14);
    g.fillStyle = theme.css('--accent');
    for (let x = 0; x < n; x++) {
      const v = timeline.coverOf(s.rows[0], D.drawn.first + x * dt, D.drawn.first + (x + 1) * dt);
      if (v) g.fillRect(x, 14 - Math.max(1, v * 14), 1, 14);
    }
  };
  paintIt();
  canvas.repaint = paintIt;
  return canvas;
}

function showThreads() {
  const section = $('threads');
  if (!D.tracks.length) {
    section.append(none('No threads.'));
    return;
  }
  section.append(new Table([
    { title: 'thread', text: true, get: threadName, show: (t) => nameOf(threadName(t)), cls: 'grow' },
    { title: 'process', text: true, get: (t) => processName(t.process, t.pid), show: (t) => nameOf(processName(t.process, t.pid)), cls: 'extra' },
    { title: 'pid', get: (t) => t.pid, cls: 'spare' },
    { title: 'tid', get: (t) => t.tid },
    { title: 'busy', hint: 'in any span', get: (t) => t.busy, show: (t) => duration(t.busy) },
    { title: 'share', hint: 'of the observed time', get: (t) => t.busy, show: (t) => shareBar(t.busy, D.time.observed) },
    { title: 'over time', hint: 'how busy it was, from the begin to the end', get: (t) => t.busy, show: busyStrip, cls: 'extra' },
    { title: 'spans', get: (t) => t.spans, show: (t) => count(t.spans) },
    { title: 'longest gap', hint: 'between two spans, with nothing marked', get: (t) => t.gap, show: (t) => t.gap ? duration(t.gap) : '–' },
    { title: 'at', get: (t) => t.gapAt, show: (t) => t.gap ? momentButton(t.gapAt) : '–' },
  ], D.tracks, { caption: 'Threads', search: D.tracks.length > 20 ? 'Find threads' : null, sortBy: 4, first: 20 }).element);
  if (D.nTracks > D.tracks.length) section.append(el('p', { class: 'note' }, `… and ${count(D.nTracks - D.tracks.length)} more threads`));
  theme.listeners.push(() => { for (const c of section.querySelectorAll('canvas')) c.repaint(); });
}

function showCaptures() {
  const section = $('captures');
  if (!D.captures.length) {
    section.append(none('No captures.'));
    return;
  }
  const known = D.captures.every((c) => c.spans !== undefined);
  section.append(new Table([
    { title: 'tag', text: true, get: (c) => text(c.tag), show: (c) => nameOf(text(c.tag)), cls: 'grow' },
    { title: 'begin', get: (c) => c.begin, show: (c) => momentButton((c.begin + c.end) / 2, duration(c.begin)) },
    { title: 'length', get: (c) => c.end - c.begin, show: (c) => duration(c.end - c.begin) + (c.open ? ', still open' : '') },
    ...(known ? [
      { title: 'spans', get: (c) => c.spans, show: (c) => count(c.spans) },
      { title: 'self', get: (c) => c.self, show: (c) => duration(c.self) },
      { title: 'late', hint: 'belong to it by cause, ran after it', get: (c) => c.late, show: (c) => count(c.late) },
      { title: 'cut', hint: 'reach over its edge', get: (c) => c.cut, show: (c) => count(c.cut) },
    ] : []),
  ], D.captures, { caption: 'Captures', sortBy: 1, down: false, first: 20 }).element);
  if (D.nCaptures > D.captures.length) section.append(el('p', { class: 'note' }, `… and ${count(D.nCaptures - D.captures.length)} more captures`));
}
