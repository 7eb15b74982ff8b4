// SPDX-License-Identifier: Apache-2.0
// The timeline: threads and lanes below each other, drawn for the range in view only. What is narrower than a
// pixel is added up by the rows' sums, so that any number of spans costs what the width of the window costs.
'use strict';

const ROW = 19, HEAD = 24, GAP = 5, CURVE = 34, FONT = '11px system-ui, sans-serif';

const timeline = {
  t0: 0, t1: 1, blocks: [], height: 0, selected: null, hover: null, found: null, query: '', dirty: false,

  /* --- what there is --- */

  build() {
    const add = (b) => this.blocks.push(b);
    const by = new Map();
    for (const [id, s] of streams) {
      if (!s.rows.length) continue;
      const key = s.info.process;
      if (!by.has(key)) by.set(key, { requests: new Map(), asyncs: new Map(), threads: [], counters: [], pid: s.info.pid });
      const group = by.get(key);
      if (s.kind === 'thread') group.threads.push({ id, s });
      else {
        const kinds = s.kind === 'request' ? group.requests : group.asyncs, name = text(s.info.name);
        if (!kinds.has(name)) kinds.set(name, []);
        kinds.get(name).push({ id, s });
      }
    }
    for (const c of D.counters) if (by.has(c.process)) by.get(c.process).counters.push(c);
    for (const [process, g] of by) {
      add({ kind: 'process', label: processName(process, g.pid), note: 'pid ' + g.pid, lines: [] });
      for (const [kind, map] of [['request', g.requests], ['async', g.asyncs]]) {
        for (const [name, lanes] of map) {
          lanes.sort((a, b) => a.s.info.lane - b.s.info.lane);
          add({ kind, label: name, note: kind === 'request' ? 'requests' : 'async', lines: lanes.map((l) => ({ id: l.id, row: l.s.rows[0], depth: 0 })), open: lanes.length <= 12 });
        }
      }
      g.threads.sort((a, b) => b.s.info.busy - a.s.info.busy);
      for (const t of g.threads) {
        add({ kind: 'thread', label: threadName(t.s.info), note: String(t.s.info.tid), open: true,
          lines: t.s.rows.map((row, depth) => ({ id: t.id, row, depth })) });
      }
      for (const c of g.counters) add({ kind: 'counter', label: text(c.name), note: 'counter', counter: c, lines: [] });
    }
    const captures = this.captureLines();
    if (captures.length) this.blocks.unshift({ kind: 'capture', label: 'captures', note: '', open: true, lines: captures });
    this.first = D.drawn.first;
    this.last = Math.max(D.drawn.last, this.first + 1);
    [this.t0, this.t1] = [this.first, this.last];
    this.place();
  },

  // Windows that targets or the recorder opened, below each other where they overlap.
  captureLines() {
    const lanes = [], all = D.captures.slice(0, 1000);
    if (all.length === 1 && all[0].end - all[0].begin > (D.drawn.last - D.drawn.first) * 0.97) return [];
    for (const c of all) {
      let lane = lanes.find((l) => l[l.length - 1].end <= c.begin);
      if (!lane && lanes.length < 8) lanes.push(lane = []);
      if (lane) lane.push(c);
    }
    const made = new Map(), category = D.texts.push('capture') - 1;
    const opOf = (tag) => {
      if (!made.has(tag)) {
        D.opCat.push(category);
        made.set(tag, D.opName.push(tag) - 1);
      }
      return made.get(tag);
    };
    return lanes.map((lane, i) => {
      const row = newRow(lane.length), id = -1 - i;
      for (const c of lane) {
        const k = row.n++;
        [row.start[k], row.end[k], row.op[k], row.self[k]] = [c.begin, c.end, opOf(c.tag), c.end - c.begin];
        row.flags[k] = c.open ? F.UNFINISHED : 0;
        row.cover[k + 1] = row.cover[k] + c.end - c.begin;
      }
      ops.n = D.opName.length;
      streams.set(id, { kind: 'capture', info: { name: category, lane: i }, rows: [row], n: row.n });
      return { id, row, depth: 0 };
    });
  },

  place() {
    let y = 0;
    for (const b of this.blocks) {
      b.y = y;
      b.shown = b.kind === 'process' ? [] : b.open ? b.lines : b.lines.slice(0, 1);
      b.h = b.kind === 'process' ? HEAD : b.kind === 'counter' ? CURVE + GAP : b.shown.length * ROW + GAP;
      y += b.h;
    }
    this.height = y;
  },

  /* --- elements --- */

  attach() {
    const section = $('timeline');
    const button = (label, title, fn) => el('button', { type: 'button', title, 'aria-label': title, onclick: fn }, label);
    this.search = el('input', { type: 'search', placeholder: 'Find spans by name', 'aria-label': 'Find spans by name', spellcheck: 'false',
      oninput: () => this.find(this.search.value), onkeydown: (e) => { if (e.key === 'Enter') this.step(e.shiftKey ? -1 : 1, true); } });
    this.foundNote = el('span', { class: 'note', 'aria-live': 'polite' });
    this.rangeNote = el('span', { class: 'range' });
    const tools = el('div', { class: 'tools' }, this.search,
      button('‹', 'Previous match', () => this.step(-1, true)), button('›', 'Next match', () => this.step(1, true)), this.foundNote,
      el('span', { class: 'spring' }), this.rangeNote,
      button('−', 'Zoom out', () => this.zoom(2)), button('+', 'Zoom in', () => this.zoom(0.5)), button('All', 'Show all of the recording', () => this.show(this.first, this.last)));
    this.map = el('canvas', { class: 'tl-map', 'aria-hidden': 'true' });
    this.axis = el('canvas', { class: 'tl-axis', 'aria-hidden': 'true' });
    this.canvas = el('canvas', { class: 'tl-canvas', 'aria-hidden': 'true' });
    this.labels = el('div', { class: 'tl-labels' });
    this.body = el('div', { class: 'tl-body' }, this.labels, this.canvas);
    this.scroll = el('div', { class: 'tl-scroll', tabindex: '0', role: 'application', 'aria-label': 'Timeline. Arrow keys or A and D move, W and S zoom, N and P step through spans of the same name, Escape leaves the selection.' }, this.body);
    this.tip = el('div', { class: 'tip', hidden: true });
    this.detail = el('div', { class: 'detail', 'aria-live': 'polite' });
    this.inView = el('div', { class: 'inview' });
    section.append(tools, el('div', { class: 'tl' }, this.map, this.axis, this.scroll),
      el('p', { class: 'hint' }, 'Drag to move, Ctrl + wheel to zoom, Shift + drag to zoom into a range, click a span for details, double click to zoom to it. Keys: A D W S, N P.'),
      el('div', { class: 'below' }, this.detail, this.inView), this.tip);
    this.notes(section);
    this.makeLabels();
    this.listen();
    this.fit();
    this.showDetail();
  },

  notes(section) {
    const d = D.drawn, out = [];
    const hidden = D.nTracks - D.tracks.length;
    if (merged.spans) out.push(`${count(merged.spans)} of the shortest spans are merged into hatched slots of ${duration(d.slotLength / 1024)} or more; export a part of the recording (--from, --to) to see each of them.`);
    if (d.tooDeep) out.push(`${count(d.tooDeep)} spans are nested deeper than ${d.maxDepth} and not drawn.`);
    if (d.lostLanes) out.push(`${count(d.lostLanes)} async spans or requests are not drawn: more than 1,024 lanes.`);
    if (merged.lostFlows) out.push(`${count(merged.lostFlows)} of ${count(d.flows)} arrows are left out.`);
    if (hidden > 0) out.push(`${count(hidden)} threads are not drawn.`);
    if (D.lostCounters) out.push(`${count(D.lostCounters)} samples of further counters are not drawn.`);
    for (const line of out) section.append(el('p', { class: 'note' }, line));
  },

  makeLabels() {
    this.labels.replaceChildren(...this.blocks.map((b) => {
      const many = b.lines && b.lines.length > 1;
      const inner = [many ? el('span', { class: 'fold', 'aria-hidden': 'true' }, b.open ? '▾' : '▸') : null, nameOf(b.label), el('span', { class: 'sub' }, b.note)];
      b.element = many
        ? el('button', { type: 'button', class: 'tl-label', 'aria-expanded': String(b.open), title: b.label, onclick: () => this.toggle(b) }, inner)
        : el('div', { class: 'tl-label ' + b.kind, title: b.label }, inner);
      return b.element;
    }));
    this.moveLabels();
  },

  moveLabels() {
    for (const b of this.blocks) {
      b.element.style.top = b.y + 'px';
      b.element.style.height = Math.max(b.h - (b.kind === 'process' ? 0 : 1), 18) + 'px';
    }
    this.body.style.height = this.height + 'px';
  },

  toggle(b) {
    b.open = !b.open;
    b.element.setAttribute('aria-expanded', String(b.open));
    b.element.firstChild.textContent = b.open ? '▾' : '▸';
    this.place();
    this.moveLabels();
    this.fit();
  },

  fit() {
    const dpr = devicePixelRatio || 1;
    this.scroll.style.maxHeight = Math.max(260, Math.min(720, innerHeight * 0.66)) + 'px';
    this.viewH = Math.min(this.scroll.clientHeight, this.height);
    for (const c of [this.map, this.axis, this.canvas]) {
      if (c === this.canvas) c.style.height = this.viewH + 'px';
      c.width = Math.max(1, Math.round(c.clientWidth * dpr));
      c.height = Math.max(1, Math.round(c.clientHeight * dpr));
    }
    this.width = Math.max(1, this.canvas.clientWidth);
    this.mapShape = null;
    this.draw();
  },

  /* --- moving --- */

  show(t0, t1) {
    const min = 20, all = this.last - this.first;
    let span = Math.min(Math.max(t1 - t0, min), all * 1.02);
    const mid = (t0 + t1) / 2;
    t0 = mid - span / 2;
    t0 = Math.min(Math.max(t0, this.first - span * 0.02), Math.max(this.last + span * 0.02 - span, this.first - span * 0.02));
    [this.t0, this.t1] = [t0, t0 + span];
    this.draw();
    clearTimeout(this.settle);
    this.settle = setTimeout(() => {
      this.sumUp();
      this.remember();
    }, 150);
  },

  // The address names the range in view, so that a copy of it leads there.
  remember() {
    const all = this.t1 - this.t0 >= this.last - this.first;
    const hash = all ? '' : `#t=${Math.max(0, Math.round(this.t0))}-${Math.max(0, Math.round(this.t1))}`;
    if (all && !location.hash.startsWith('#t=')) return;
    try {
      history.replaceState(null, '', hash || location.pathname + location.search);
    } catch {
      // some browsers refuse for files: then the address stays as it is
    }
  },

  zoom(factor, at = (this.t0 + this.t1) / 2) {
    this.show(at - (at - this.t0) * factor, at + (this.t1 - at) * factor);
  },

  pan(dt) {
    this.show(this.t0 + dt, this.t1 + dt);
  },

  center(t) {
    const half = Math.min((this.t1 - this.t0) / 2, (this.last - this.first) / 40);
    this.show(t - half, t + half);
    jumpTo('timeline');
  },

  timeAt(x) {
    return this.t0 + (this.t1 - this.t0) * x / this.width;
  },

  /* --- finding --- */

  lineAt(y) {
    const b = this.blocks.find((k) => y >= k.y && y < k.y + k.h);
    if (!b || !b.shown.length) return null;
    const line = b.shown[Math.floor((y - b.y) / ROW)];
    return line ? { block: b, line } : null;
  },

  // The span under a point; a few pixels beside it will do.
  hit(x, y) {
    const at = this.lineAt(y);
    if (!at) return null;
    const { row } = at.line, t = this.timeAt(x), near = (this.t1 - this.t0) / this.width * 3;
    const i = lower(row.end, t, 0, row.n);
    let best = -1, distance = near;
    for (const k of [i - 1, i]) {
      if (k < 0 || k >= row.n) continue;
      const d = t < row.start[k] ? row.start[k] - t : t > row.end[k] ? t - row.end[k] : 0;
      if (d <= distance) {
        distance = d;
        best = k;
      }
    }
    if (best >= 0) return { id: at.line.id, depth: at.line.depth, row, i: best };
    const slot = row.slots ? Math.floor((t - D.drawn.slotBegin) / row.slots.width) : -1;
    const k = slot >= 0 ? lower(row.slots.index, slot, 0, row.slots.index.length) : -1;
    return k >= 0 && row.slots.index[k] === slot ? { id: at.line.id, depth: at.line.depth, row, slot: k } : null;
  },

  // The span of an operation that begins at a moment; any of that moment when the operation is not told.
  select(id, at, op) {
    const s = streams.get(id);
    if (!s) return false;
    for (let depth = 0; depth < s.rows.length; depth++) {
      const row = s.rows[depth];
      for (let i = lower(row.start, at, 0, row.n); i < row.n && row.start[i] === at; i++) {
        if (op !== undefined && row.op[i] !== op) continue;
        this.choose({ id, depth, row, i });
        this.focusOn();
        return true;
      }
    }
    return false;
  },

  choose(span) {
    this.selected = span;
    this.showDetail();
    this.draw();
  },

  // Brings the selected span into view: wide enough to be read, with what is around it.
  focusOn(tight) {
    const s = this.selected;
    if (!s || s.i === undefined) return;
    const from = s.row.start[s.i], to = s.row.end[s.i], dur = Math.max(to - from, 50);
    const share = dur / (this.t1 - this.t0);
    if (tight || share < 0.02 || share > 1) this.show(from - dur * (tight ? 0.1 : 1.5), to + dur * (tight ? 0.1 : 1.5));
    else if (from < this.t0 || to > this.t1) this.pan((from + to) / 2 - (this.t0 + this.t1) / 2);
    const b = this.blocks.find((k) => k.lines && k.lines.some((l) => l.id === s.id));
    if (!b) return;
    if (!b.open && !b.shown.some((l) => l.id === s.id && l.depth === s.depth)) this.toggle(b);
    const line = b.shown.findIndex((l) => l.id === s.id && l.depth === s.depth);
    const y = b.y + Math.max(0, line) * ROW;
    if (y < this.scroll.scrollTop || y + ROW > this.scroll.scrollTop + this.scroll.clientHeight) {
      this.scroll.scrollTop = Math.max(0, y - this.scroll.clientHeight / 3);
    }
  },

  find(query) {
    this.query = query.toLowerCase();
    this.found = null;
    if (this.query) {
      this.found = new Uint8Array(ops.n);
      for (let op = 0; op < ops.n; op++) this.found[op] = ops.label(op).toLowerCase().includes(this.query) ? 1 : 0;
      let n = 0;
      for (const s of streams.values()) for (const r of s.rows) for (let i = 0; i < r.n; i++) n += this.found[r.op[i]];
      this.foundNote.textContent = `${count(n)} found`;
    } else this.foundNote.textContent = '';
    this.draw();
  },

  // To the next span in time that was searched for, or that has the selected one's operation.
  step(direction, search) {
    const cur = this.selected && this.selected.i !== undefined ? this.selected : null;
    const wanted = search && this.found ? (op) => this.found[op] : cur ? (op) => op === cur.row.op[cur.i] : null;
    if (!wanted) return;
    const from = cur ? cur.row.start[cur.i] : direction > 0 ? this.t0 - 1 : this.t1;
    let best = null, bestAt = direction > 0 ? Infinity : -Infinity;
    for (const [id, s] of streams) {
      s.rows.forEach((row, depth) => {
        let i = direction > 0 ? upper(row.start, from, 0, row.n) : lower(row.start, from, 0, row.n) - 1;
        while (i >= 0 && i < row.n && !wanted(row.op[i])) i += direction;
        if (i < 0 || i >= row.n) return;
        if (direction > 0 ? row.start[i] < bestAt : row.start[i] > bestAt) {
          bestAt = row.start[i];
          best = { id, depth, row, i };
        }
      });
    }
    if (best) {
      this.choose(best);
      this.focusOn();
    }
  },

  /* --- input --- */

  listen() {
    const at = (e) => {
      const box = this.canvas.getBoundingClientRect();
      return [e.clientX - box.left, e.clientY - box.top + this.scroll.scrollTop];
    };
    this.scroll.addEventListener('scroll', () => this.draw(), { passive: true });
    this.scroll.addEventListener('wheel', (e) => {
      const across = e.shiftKey ? e.deltaY || e.deltaX : Math.abs(e.deltaX) > Math.abs(e.deltaY) ? e.deltaX : 0;
      if (e.ctrlKey || e.metaKey) this.zoom(Math.pow(1.0018, Math.max(-400, Math.min(400, e.deltaY * (e.deltaMode ? 30 : 1)))), this.timeAt(at(e)[0]));
      else if (across) this.pan(across / this.width * (this.t1 - this.t0));
      else return;
      e.preventDefault();
    }, { passive: false });
    this.canvas.addEventListener('pointerdown', (e) => this.startDrag(e, at(e)));
    this.canvas.addEventListener('pointermove', (e) => { if (!this.drag) this.showTip(this.hit(...at(e)), e); });
    this.canvas.addEventListener('pointerleave', () => this.showTip(null));
    this.canvas.addEventListener('dblclick', (e) => {
      const span = this.hit(...at(e));
      if (!span) return;
      this.choose(span);
      this.focusOn(true);
    });
    this.scroll.addEventListener('keydown', (e) => this.key(e));
    this.mapDrag();
    addEventListener('resize', () => this.fit());
    theme.listeners.push(() => {
      this.mapShape = null;
      this.draw();
    });
  },

  startDrag(e, [x, y]) {
    if (e.button) return;
    const range = e.shiftKey, start = { x, y, clientX: e.clientX, clientY: e.clientY, t0: this.t0, t1: this.t1, top: this.scroll.scrollTop };
    let moved = false;
    this.drag = true;
    this.showTip(null);
    this.canvas.setPointerCapture(e.pointerId);
    const move = (m) => {
      const dx = m.clientX - start.clientX, dy = m.clientY - start.clientY;
      moved = moved || Math.abs(dx) + Math.abs(dy) > 3;
      if (!moved) return;
      if (range) this.band = [this.timeAt(start.x), this.timeAt(start.x + dx)];
      else {
        const dt = -dx / this.width * (start.t1 - start.t0);
        this.scroll.scrollTop = start.top - dy;
        this.show(start.t0 + dt, start.t1 + dt);
      }
      this.draw();
    };
    const up = () => {
      this.canvas.removeEventListener('pointermove', move);
      this.drag = false;
      if (this.band) {
        const [a, b] = this.band;
        this.band = null;
        this.show(Math.min(a, b), Math.max(a, b));
      } else if (!moved) this.choose(this.hit(x, y));
    };
    this.canvas.addEventListener('pointermove', move);
    this.canvas.addEventListener('pointerup', up, { once: true });
    this.canvas.addEventListener('pointercancel', up, { once: true });
  },

  mapDrag() {
    const time = (e) => {
      const box = this.map.getBoundingClientRect();
      return this.first + (this.last - this.first) * (e.clientX - box.left) / box.width;
    };
    this.map.addEventListener('pointerdown', (e) => {
      const start = time(e), span = this.t1 - this.t0, inside = start > this.t0 && start < this.t1 && span < (this.last - this.first) * 0.98;
      const grip = start - this.t0;
      this.map.setPointerCapture(e.pointerId);
      const move = (m) => {
        const now = time(m);
        if (inside) this.show(now - grip, now - grip + span);
        else if (Math.abs(now - start) > (this.last - this.first) / 300) this.show(Math.min(start, now), Math.max(start, now));
      };
      this.map.addEventListener('pointermove', move);
      this.map.addEventListener('pointerup', (u) => {
        this.map.removeEventListener('pointermove', move);
        if (!inside && Math.abs(time(u) - start) <= (this.last - this.first) / 300) this.show(start - span / 2, start + span / 2);
      }, { once: true });
    });
  },

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target !== this.scroll) return;
    const d = (this.t1 - this.t0) / 8;
    const act = {
      a: () => this.pan(-d), d: () => this.pan(d), ArrowLeft: () => this.pan(-d), ArrowRight: () => this.pan(d),
      w: () => this.zoom(0.7), s: () => this.zoom(1 / 0.7), '+': () => this.zoom(0.7), '-': () => this.zoom(1 / 0.7),
      n: () => this.step(1), p: () => this.step(-1), f: () => this.focusOn(true), 0: () => this.show(this.first, this.last),
      Escape: () => this.choose(null),
    }[e.key.length === 1 ? e.key.toLowerCase() : e.key];
    if (!act) return;
    e.preventDefault();
    act();
  },
};
