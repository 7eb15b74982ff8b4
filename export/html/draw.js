// SPDX-License-Identifier: Apache-2.0
// How the timeline looks.
'use strict';

Object.assign(timeline, {
  draw() {
    if (this.dirty) return;
    this.dirty = true;
    requestAnimationFrame(() => {
      this.dirty = false;
      this.paint();
    });
  },

  paint() {
    this.c = { bg: theme.css('--panel'), line: theme.css('--line'), text: theme.css('--text'), soft: theme.css('--soft'),
      ink: theme.css('--ink'), accent: theme.css('--accent'), band: theme.css('--band'), head: theme.css('--head') };
    this.paintMap();
    this.paintAxis();
    this.paintBody();
    this.rangeNote.textContent = `${duration(this.t1 - this.t0)} from ${duration(Math.max(0, this.t0))}`;
  },

  start(canvas) {
    const dpr = devicePixelRatio || 1, g = canvas.getContext('2d');
    g.setTransform(dpr, 0, 0, dpr, 0, 0);
    g.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    g.font = FONT;
    g.textBaseline = 'middle';
    return g;
  },

  // How many threads were busy, over all of the recording.
  mapHeights(width) {
    const heights = new Float64Array(width), dt = (this.last - this.first) / width;
    const busiest = [...streams.values()].filter((s) => s.kind === 'thread' && s.rows.length).sort((a, b) => b.info.busy - a.info.busy);
    for (const s of busiest.slice(0, 300)) {
      for (let x = 0; x < width; x++) heights[x] += this.coverOf(s.rows[0], this.first + x * dt, this.first + (x + 1) * dt);
    }
    return heights;
  },

  // The part of [a, b) that a row's spans cover.
  coverOf(row, a, b) {
    let sum = 0;
    const i = upper(row.end, a, 0, row.n), j = lower(row.start, b, i, row.n);
    if (j > i) {
      sum = row.cover[j] - row.cover[i];
      sum -= Math.max(0, a - row.start[i]) + Math.max(0, row.end[j - 1] - b);
    }
    if (row.slots) {
      const k0 = Math.floor((a - D.drawn.slotBegin) / row.slots.width), k1 = (b - D.drawn.slotBegin) / row.slots.width;
      for (let k = lower(row.slots.index, k0, 0, row.slots.index.length); k < row.slots.index.length && row.slots.index[k] < k1; k++) {
        const from = D.drawn.slotBegin + row.slots.index[k] * row.slots.width;
        sum += row.slots.cover[k] * Math.max(0, Math.min(b, from + row.slots.width) - Math.max(a, from));
      }
    }
    return Math.min(1, sum / (b - a));
  },

  paintMap() {
    const g = this.start(this.map), w = Math.floor(this.map.clientWidth), h = this.map.clientHeight;
    if (!this.mapShape || this.mapShape.length !== w) this.mapShape = this.mapHeights(Math.max(1, w));
    const most = Math.max(0.01, ...this.mapShape);
    g.fillStyle = this.c.soft;
    for (let x = 0; x < w; x++) {
      const v = this.mapShape[x] ? Math.max(1, this.mapShape[x] / most * (h - 3)) : 0;
      g.fillRect(x, h - v, 1, v);
    }
    const x = (t) => (t - this.first) / (this.last - this.first) * w;
    const a = x(this.t0), b = Math.max(a + 2, x(this.t1));
    g.fillStyle = this.c.band;
    g.fillRect(a, 0, b - a, h);
    g.fillStyle = this.c.accent;
    g.fillRect(a, 0, 2, h);
    g.fillRect(b - 2, 0, 2, h);
  },

  ticks() {
    this.tickStep = niceStep((this.t1 - this.t0) / Math.max(2, this.width / 110));
    return multiples(this.tickStep, this.t0, this.t1).map((t) => [t, (t - this.t0) / (this.t1 - this.t0) * this.width]);
  },

  paintAxis() {
    const g = this.start(this.axis), h = this.axis.clientHeight;
    g.fillStyle = this.c.soft;
    g.textAlign = 'center';
    for (const [t, x] of this.ticks()) {
      g.fillRect(Math.round(x), h - 5, 1, 5);
      const label = axisTime(t, this.tickStep), half = this.textWidth(g, label) / 2 + 2;
      g.fillText(label, Math.min(Math.max(x, half), this.width - half), h / 2 - 2);
    }
    g.textAlign = 'left';
  },

  paintBody() {
    const g = this.start(this.canvas), top = this.scroll.scrollTop, h = this.viewH, w = this.width;
    g.fillStyle = this.c.line;
    for (const [, x] of this.ticks()) g.fillRect(Math.round(x), 0, 1, h);
    this.paintCaptures(g, h);
    for (const b of this.blocks) {
      const y = b.y - top;
      if (y > h || y + b.h < 0) continue;
      if (b.kind === 'process') {
        g.fillStyle = this.c.head;
        g.fillRect(0, y, w, b.h);
      } else if (b.kind === 'counter') this.paintCounter(g, b.counter, y);
      else b.shown.forEach((line, k) => this.paintRow(g, line, y + k * ROW + 1));
      g.fillStyle = this.c.line;
      g.fillRect(0, y + b.h - 1, w, 1);
    }
    this.paintArrows(g, top);
    this.paintSelected(g, top);
    if (this.band) {
      const x = (t) => (t - this.t0) / (this.t1 - this.t0) * w;
      g.fillStyle = this.c.band;
      g.fillRect(Math.min(x(this.band[0]), x(this.band[1])), 0, Math.abs(x(this.band[1]) - x(this.band[0])), h);
      g.fillStyle = this.c.text;
      g.fillText(duration(Math.abs(this.band[1] - this.band[0])), Math.min(x(this.band[0]), x(this.band[1])) + 4, 10);
    }
  },

  paintCaptures(g, h) {
    if (D.captures.length === 1 && D.captures[0].begin <= this.first && D.captures[0].end >= this.last) return;
    const x = (t) => (t - this.t0) / (this.t1 - this.t0) * this.width;
    g.fillStyle = this.c.band;
    for (const c of D.captures) {
      if (c.end < this.t0 || c.begin > this.t1 || c.end - c.begin > (this.last - this.first) * 0.97) continue;
      const a = Math.max(-1, x(c.begin)), b = Math.min(this.width + 1, x(c.end));
      g.fillRect(a, 0, Math.max(1, b - a), h);
    }
  },

  paintCounter(g, c, y) {
    const slot = D.drawn.slotLength / D.counterSlots, p = c.points, w = this.width;
    let max = 0, min = 0;
    for (let i = 0; i < p.length; i += 4) {
      max = Math.max(max, p[i + 2]);
      min = Math.min(min, p[i + 1]);
    }
    const at = (v) => y + CURVE - 2 - (CURVE - 5) * (v - min) / (max - min || 1);
    const x = (k) => (D.drawn.slotBegin + k * slot - this.t0) / (this.t1 - this.t0) * w;
    g.beginPath();
    let seen = false;
    for (let i = 0; i < p.length; i += 4) {
      const px = x(p[i]);
      if (i + 4 < p.length && x(p[i + 4]) < 0) continue;
      if (px > w) break;
      if (!seen) g.moveTo(px, at(0));
      else g.lineTo(px, at(p[i - 1]));
      g.lineTo(px, at(p[i + 2]));
      if (p[i + 1] !== p[i + 2]) g.lineTo(px, at(p[i + 1]));
      g.lineTo(px, at(p[i + 3]));
      seen = true;
      if (i + 4 >= p.length || x(p[i + 4]) > w) g.lineTo(w, at(p[i + 3]));
    }
    g.lineTo(w, at(0));
    g.fillStyle = this.c.band;
    g.fill();
    g.strokeStyle = this.c.accent;
    g.lineWidth = 1;
    g.stroke();
    g.fillStyle = this.c.soft;
    g.fillText(`max ${count(max)}`, 4, y + 8);
  },

  fade(op) {
    return this.found && !this.found[op];
  },

  paintSlots(g, row, y) {
    const s = row.slots, k = this.width / (this.t1 - this.t0), base = D.drawn.slotBegin;
    const from = Math.floor((this.t0 - base) / s.width);
    for (let i = lower(s.index, from, 0, s.index.length); i < s.index.length; i++) {
      const x = (base + s.index[i] * s.width - this.t0) * k, w = Math.max(1, s.width * k);
      if (x > this.width) break;
      g.globalAlpha = 0.15 + 0.4 * s.cover[i];
      g.fillStyle = this.c.soft;
      g.fillRect(x, y, w, ROW - 2);
      if (w < 6) continue;
      g.globalAlpha = 0.3;
      g.strokeStyle = this.c.bg;
      g.beginPath();
      for (let d = -ROW; d < w; d += 8) {
        g.moveTo(x + Math.max(0, d), y + Math.min(ROW - 2, ROW - 2 + d));
        g.lineTo(x + Math.min(w, d + ROW - 2), y + Math.max(0, d + ROW - 2 - w));
      }
      g.stroke();
      g.globalAlpha = 1;
      if (w > 60) this.label(g, `${count(s.count[i])} short`, x, y, w, this.c.text);
    }
    g.globalAlpha = 1;
  },

  paintRow(g, line, y) {
    const { row } = line, k = this.width / (this.t1 - this.t0);
    if (row.slots) this.paintSlots(g, row, y);
    for (let i = lower(row.end, this.t0, 0, row.n); i < row.n && row.start[i] < this.t1;) {
      const x = (row.start[i] - this.t0) * k, w = (row.end[i] - row.start[i]) * k;
      if (w >= 1) {
        this.paintSpan(g, row, i, x, w, y);
        i++;
        continue;
      }
      // All that begins in this pixel; a wide one at its end is drawn by itself.
      const px = Math.floor(x), edge = this.t0 + (px + 1) / k;
      let j = Math.max(i + 1, lower(row.start, edge, i, row.n));
      if (j - 1 > i && (row.end[j - 1] - row.start[j - 1]) * k >= 1) j--;
      this.paintPixel(g, row, i, j, px, y, k);
      i = j;
    }
    g.globalAlpha = 1;
  },

  paintPixel(g, row, i, j, px, y, k) {
    const mid = (i + j) >> 1, next = this.t0 + (px + 9) / k;
    if (j === i + 1 && row.flags[i] & F.INSTANT && !(j < row.n && row.start[j] < next)) {
      g.globalAlpha = this.fade(row.op[i]) ? 0.2 : 1;
      g.fillStyle = ops.colour(row.op[i]);
      g.beginPath();
      g.moveTo(px + 0.5, y + 2);
      g.lineTo(px + 4, y + ROW - 4);
      g.lineTo(px - 3, y + ROW - 4);
      g.fill();
      return;
    }
    let op = row.op[mid], dim = this.fade(op);
    if (dim) { // one that was searched for is not to be hidden by its neighbours
      for (let n = i; n < j && n < i + 64; n++) {
        if (!this.found[row.op[n]]) continue;
        op = row.op[n];
        dim = false;
        break;
      }
    }
    const cover = Math.min(1, (row.cover[j] - row.cover[i]) * k);
    g.globalAlpha = (dim ? 0.2 : 1) * (0.6 + 0.4 * cover);
    g.fillStyle = ops.colour(op);
    g.fillRect(px, y, 1, ROW - 2);
  },

  paintSpan(g, row, i, x, w, y) {
    const left = Math.max(x, -2), right = Math.min(x + w, this.width + 2);
    g.globalAlpha = this.fade(row.op[i]) ? 0.2 : 1;
    g.fillStyle = ops.colour(row.op[i]);
    // A hair of space keeps neighbours apart.
    g.fillRect(left, y, Math.max(1, right - left - (w > 3 ? 0.5 : 0)), ROW - 2);
    if (row.flags[i] & (F.UNFINISHED | F.NO_BEGIN | F.CLIPPED | F.CUT)) {
      g.fillStyle = theme.css('--bad');
      if (row.flags[i] & F.NO_BEGIN) g.fillRect(left, y, 2, ROW - 2);
      else g.fillRect(right - 2, y, 2, ROW - 2);
    }
    if (right - left > 22) this.label(g, ops.name(row.op[i]) || '(no name)', left, y, right - left, this.c.ink);
  },

  label(g, name, x, y, w, colour) {
    const all = this.textWidth(g, name);
    let shown = name;
    if (all > w - 6) {
      const n = Math.floor(name.length * (w - 12) / all);
      if (n < 2) return;
      shown = name.slice(0, n) + '…';
    }
    g.fillStyle = colour;
    g.fillText(shown, x + 3, y + (ROW - 2) / 2 + 0.5);
  },

  textWidth(g, name) {
    this.widths = this.widths || new Map();
    let w = this.widths.get(name);
    if (w === undefined) {
      if (this.widths.size > 20000) this.widths.clear();
      w = g.measureText(name).width;
      this.widths.set(name, w);
    }
    return w;
  },

  yOf(id, depth) {
    for (const b of this.blocks) {
      if (!b.shown) continue;
      const k = b.shown.findIndex((l) => l.id === id && l.depth === depth);
      if (k >= 0) return b.y + k * ROW + 1;
    }
    const b = this.blocks.find((n) => n.lines && n.lines.some((l) => l.id === id));
    return b ? b.y + 1 : null;
  },

  paintSelected(g, top) {
    const s = this.selected;
    if (!s || s.i === undefined) return;
    const y = this.yOf(s.id, s.depth), k = this.width / (this.t1 - this.t0);
    if (y === null) return;
    const x = (s.row.start[s.i] - this.t0) * k, w = (s.row.end[s.i] - s.row.start[s.i]) * k;
    g.strokeStyle = this.c.text;
    g.lineWidth = 2;
    g.strokeRect(Math.max(x, -4) - 1, y - top - 1, Math.max(3, Math.min(x + w, this.width + 4) - Math.max(x, -4)) + 1, ROW);
    g.lineWidth = 1;
  },

  // Arrows that begin or end in the selected span.
  arrows() {
    const s = this.selected;
    if (!s || s.i === undefined || !flows.length || streams.get(s.id).kind !== 'thread') return [];
    const a = s.row.start[s.i], b = s.row.end[s.i];
    return flows.filter((f) => (f.to === s.id && f.at >= a && f.at <= b) || (f.from === s.id && f.fromAt >= a && f.fromAt <= b)).slice(0, 200);
  },

  depthAt(id, t) {
    const s = streams.get(id);
    let depth = -1;
    if (!s) return depth;
    for (let d = 0; d < s.rows.length; d++) {
      const r = s.rows[d], i = upper(r.start, t, 0, r.n) - 1;
      if (i < 0 || r.end[i] < t) break;
      depth = d;
    }
    return depth;
  },

  paintArrows(g, top) {
    const x = (t) => (t - this.t0) / (this.t1 - this.t0) * this.width;
    g.strokeStyle = this.c.text;
    g.fillStyle = this.c.text;
    g.globalAlpha = 0.75;
    for (const f of this.arrows()) {
      const y0 = this.yOf(f.from, Math.max(0, this.depthAt(f.from, f.fromAt))), y1 = this.yOf(f.to, Math.max(0, this.depthAt(f.to, f.at)));
      if (y0 === null || y1 === null) continue;
      const ax = x(f.fromAt), ay = y0 - top + ROW / 2, bx = x(f.at), by = y1 - top + ROW / 2, bend = Math.max(18, Math.abs(bx - ax) / 3);
      g.beginPath();
      g.moveTo(ax, ay);
      g.bezierCurveTo(ax + bend, ay, bx - bend, by, bx, by);
      g.stroke();
      g.beginPath();
      g.moveTo(bx, by);
      g.lineTo(bx - 6, by - 3.5);
      g.lineTo(bx - 6, by + 3.5);
      g.fill();
    }
    g.globalAlpha = 1;
  },

  /* --- what is known of a span --- */

  lines(h) {
    if (h.slot !== undefined) {
      const s = h.row.slots, from = D.drawn.slotBegin + s.index[h.slot] * s.width;
      return [`${count(s.count[h.slot])} short spans, merged`, `cover ${percent(s.cover[h.slot], 1)} of ${duration(s.width)} from ${duration(from)}`,
        `the longest: ${ops.label(s.op[h.slot])}, ${duration(s.longest[h.slot])}`];
    }
    const { row, i } = h, out = [ops.label(row.op[i])];
    if (row.flags[i] & F.INSTANT) out.push(`instant at ${duration(row.start[i])}`);
    else {
      const own = streams.get(h.id).kind === 'thread' ? `, of its own ${this.own(h)}` : '';
      out.push(duration(row.end[i] - row.start[i]) + own, `from ${duration(row.start[i])}`);
    }
    for (const [key, value] of argsOf(row, i).slice(0, 6)) out.push(`${key} = ${value}`);
    return out;
  },

  // Without the spans inside; those that are merged cannot be told apart from it.
  own({ id, depth, row, i }) {
    const s = streams.get(id), unknown = s.merged && s.rows.slice(depth + 1).some((r) => r.slots);
    return (unknown ? 'at most ' : '') + duration(Math.max(0, row.self[i]));
  },

  showTip(h, e) {
    this.tip.hidden = !h;
    this.canvas.style.cursor = h ? 'pointer' : 'grab';
    if (!h) return;
    this.tip.replaceChildren(...this.lines(h).map((line, n) => el('div', { class: n ? '' : 'first' }, nameOf(line))));
    const w = this.tip.offsetWidth, hgt = this.tip.offsetHeight;
    this.tip.style.left = Math.max(4, Math.min(e.clientX + 14, innerWidth - w - 8)) + 'px';
    this.tip.style.top = (e.clientY + 18 + hgt > innerHeight ? e.clientY - hgt - 10 : e.clientY + 18) + 'px';
  },

  showDetail() {
    const s = this.selected;
    this.detail.replaceChildren(el('h3', null, 'Selected'));
    if (!s) {
      this.detail.append(el('p', { class: 'none' }, 'Nothing: click a span.'));
      return;
    }
    if (s.slot !== undefined) {
      this.detail.append(...this.lines(s).map((line) => el('p', null, nameOf(line))));
      return;
    }
    const { row, i } = s, op = row.op[i], instant = row.flags[i] & F.INSTANT;
    const o = D.ops.find((k) => k.op === op && !k.other);
    const flags = FLAG_WORDS.filter(([bit]) => row.flags[i] & bit).map(([, words]) => words).join('; ');
    const arrows = this.arrows();
    this.detail.append(
      el('p', { class: 'big' }, el('span', { class: 'swatch', 'data-rank': String(ops.rankOf(op)) }), nameOf(ops.name(op) || '(no name)'), ops.cat(op) ? el('span', { class: 'cat' }, nameOf(ops.cat(op))) : null),
      el('div', { class: 'tools' },
        el('button', { type: 'button', onclick: () => this.focusOn(true) }, 'Zoom to it'),
        el('button', { type: 'button', onclick: () => this.step(-1) }, '‹ Previous of this name'),
        el('button', { type: 'button', onclick: () => this.step(1) }, 'Next ›')),
      facts([
        ['Duration', instant ? 'an instant' : `${duration(row.end[i] - row.start[i])} (${count(row.end[i] - row.start[i])} ns)`],
        ['Of its own', instant || streams.get(s.id).kind !== 'thread' ? null : this.own(s)],
        ['Compared', o && !instant ? this.compare(row.end[i] - row.start[i], o) : null],
        ['Begins', exactTime(row.start[i])],
        ['On', nameOf(streamName(s.id))],
        ['Marker', o && o.src ? nameOf(text(o.src)) : null],
        ['Note', flags],
        ...argsOf(row, i).map(([key, value]) => [nameOf(key), nameOf(value)]),
      ]),
      ...arrows.slice(0, 8).map((f) => this.arrowLine(s, f)));
    for (const swatch of this.detail.querySelectorAll('.swatch')) swatch.style.background = paint(Number(swatch.dataset.rank));
  },

  compare(dur, o) {
    const p50 = o.dur[SPREAD.p50], p99 = o.dur[SPREAD.p99];
    const times = p50 ? `${(dur / p50).toFixed(dur / p50 < 10 ? 1 : 0)} × the median of ${plural(o.dur[0], 'call')} (${duration(p50)})` : `median ${duration(p50)}`;
    return dur > p99 ? `${times}, beyond p99` : times;
  },

  arrowLine(s, f) {
    const incoming = f.to === s.id && f.at >= s.row.start[s.i] && f.at <= s.row.end[s.i];
    const id = incoming ? f.from : f.to, t = incoming ? f.fromAt : f.at;
    return el('p', null, incoming ? '← ' : '→ ', nameOf(ops.name(f.op)), incoming ? ' from ' : ' to ',
      el('button', { type: 'button', class: 'op', onclick: () => this.goTo(id, t) }, nameOf(streamName(id))), `, waited ${duration(f.at - f.fromAt)}`);
  },

  goTo(id, t) {
    const depth = this.depthAt(id, t), s = streams.get(id);
    if (depth < 0) return;
    const row = s.rows[depth], i = upper(row.start, t, 0, row.n) - 1;
    this.choose({ id, depth, row, i });
    this.focusOn();
  },

  /* --- what the range in view adds up to --- */

  // Own time where all spans are here; where some are merged, what lies inside others is not known for all.
  sumUp() {
    const sums = new Map(), own = !merged.spans;
    let all = 0, short = 0;
    for (const s of streams.values()) {
      if (s.kind !== 'thread') continue;
      for (const r of s.rows) {
        short += this.shortIn(r);
        for (let i = lower(r.end, this.t0, 0, r.n); i < r.n && r.start[i] < this.t1; i++) {
          const dur = r.end[i] - r.start[i];
          const inside = Math.min(r.end[i], this.t1) - Math.max(r.start[i], this.t0);
          const time = own ? (dur ? Math.max(0, r.self[i]) * inside / dur : 0) : inside, e = sums.get(r.op[i]);
          all += time;
          if (e) {
            e[0]++;
            e[1] += time;
          } else sums.set(r.op[i], [1, time]);
        }
      }
    }
    const top = [...sums].sort((a, b) => b[1][1] - a[1][1]);
    this.inView.replaceChildren(el('h3', null, 'In view'), top.length
      ? el('table', null, el('thead', null, el('tr', null, el('th', { class: 'text' }, 'operation'), el('th', null, 'calls'), el('th', null, own ? 'self' : 'total'), own ? el('th', null, 'share') : null)),
        el('tbody', null, top.slice(0, 10).map(([op, [n, time]]) => el('tr', null, el('td', { class: 'text' }, nameOf(ops.label(op))),
          el('td', null, count(n)), el('td', null, duration(time)), own ? el('td', null, percent(time, all)) : null))))
      : el('p', { class: 'none' }, 'No spans.'), el('p', { class: 'note' }, (top.length > 10 ? `… and ${plural(top.length - 10, 'more operation')}. ` : '') +
        (short >= 1 ? `About ${count(short)} short spans are merged and not in the table.` : '')));
  },

  shortIn(row) {
    const s = row.slots;
    let sum = 0;
    if (!s) return 0;
    const base = D.drawn.slotBegin, from = Math.floor((this.t0 - base) / s.width);
    for (let k = lower(s.index, from, 0, s.index.length); k < s.index.length; k++) {
      const at = base + s.index[k] * s.width;
      if (at >= this.t1) break;
      sum += s.count[k] * Math.max(0, Math.min(1, (Math.min(this.t1, at + s.width) - Math.max(this.t0, at)) / s.width));
    }
    return sum;
  },
});
