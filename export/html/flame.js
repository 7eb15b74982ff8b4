// SPDX-License-Identifier: Apache-2.0
// The flame graph: all time at the top, what was called below. Only frames wide enough to be seen are elements.
'use strict';

const flame = {
  nodes: [], zoomed: null, merged: false, query: '',

  read() {
    const n = D.flame.nodes, out = [];
    for (let i = 0, k = 0; i < n.length; i += 5, k++) {
      out.push({ parent: n[i] < 0 ? null : out[n[i]], role: n[i + 1], name: text(n[i + 2]), calls: n[i + 3], self: n[i + 4], time: D.flame.times[k], children: [] });
    }
    const root = { name: 'all', role: 9, calls: 0, self: 0, time: 0, children: [], parent: null };
    for (const f of out) {
      f.parent = f.parent || root;
      f.parent.children.push(f);
      if (f.parent === root) root.time += f.time;
    }
    return this.sorted(root);
  },

  sorted(root) {
    const stack = [root];
    while (stack.length) {
      const f = stack.pop();
      f.children.sort((a, b) => b.time - a.time);
      stack.push(...f.children);
    }
    return root;
  },

  // The same stacks of all threads as one: processes and threads are left out.
  joined(root) {
    const top = { name: 'all threads', role: 9, calls: 0, self: 0, time: root.time, children: [], parent: null };
    const join = (into, from) => {
      for (const f of from.children) {
        if (f.role < 2) {
          join(into, f);
          continue;
        }
        let same = into.by && into.by.get(f.name);
        if (!same) {
          same = { name: f.name, role: f.role, calls: 0, self: 0, time: 0, children: [], parent: into };
          into.by = into.by || new Map();
          into.by.set(f.name, same);
          into.children.push(same);
        }
        same.calls += f.calls;
        same.self += f.self;
        same.time += f.time;
        join(same, f);
      }
    };
    join(top, root);
    return this.sorted(top);
  },

  attach() {
    const section = $('flame');
    this.byThread = this.read();
    this.root = this.joined(this.byThread);
    this.merged = true;
    this.zoomed = this.root;
    if (!this.root.time) {
      section.append(el('p', { class: 'none' }, 'No spans.'));
      return;
    }
    this.search = el('input', { type: 'search', placeholder: 'Highlight frames', 'aria-label': 'Highlight frames', spellcheck: 'false',
      oninput: () => {
        this.query = this.search.value.toLowerCase();
        this.show();
      } });
    this.mode = el('button', { type: 'button', 'aria-pressed': 'false', onclick: () => {
      this.merged = !this.merged;
      this.root = this.merged ? this.joined(this.byThread) : this.byThread;
      this.mode.setAttribute('aria-pressed', String(!this.merged));
      this.zoomed = this.root;
      this.show();
    } }, 'By thread');
    this.reset = el('button', { type: 'button', onclick: () => this.zoom(this.root) }, 'Whole graph');
    this.info = el('div', { class: 'readout', 'aria-live': 'polite' });
    this.note = el('span', { class: 'note' });
    this.area = el('div', { class: 'flame', role: 'tree', 'aria-label': 'Flame graph' });
    section.append(el('div', { class: 'tools' }, this.search, this.mode, this.reset, this.note), this.area, this.info,
      el('p', { class: 'hint' }, 'Width is time, all calls together. Click a frame to zoom, arrow keys move between frames, Enter zooms, Escape shows the whole graph.',
        D.flame.hidden ? ` ${count(D.flame.hidden)} of the narrowest frames are left out.` : ''));
    this.area.addEventListener('keydown', (e) => this.key(e));
    theme.listeners.push(() => this.show());
    addEventListener('resize', () => this.show());
    this.show();
  },

  zoom(f) {
    this.zoomed = f;
    this.show(f);
  },

  // Frames above the zoomed one fill the width; what is below shares it.
  layout() {
    const out = [], path = [];
    for (let f = this.zoomed; f; f = f.parent) path.unshift(f);
    path.forEach((f, row) => out.push({ f, row, x: 0, w: 1, above: f !== this.zoomed }));
    const least = 1.5 / Math.max(300, this.area.clientWidth);
    const stack = [{ f: this.zoomed, row: path.length - 1, x: 0 }];
    while (stack.length) {
      const { f, row, x } = stack.pop();
      let at = x;
      for (const c of f.children) {
        const w = c.time / this.zoomed.time;
        if (w >= least && row < 300) {
          out.push({ f: c, row: row + 1, x: at, w });
          stack.push({ f: c, row: row + 1, x: at });
        }
        at += w;
      }
    }
    return out;
  },

  tell(f) {
    const own = f.role >= 2 && f.role < 9 ? `, of its own ${duration(f.self)}, ${plural(f.calls, 'call')}` : '';
    return `${f.name || '(no name)'}: ${duration(f.time)}, ${percent(f.time, this.root.time)} of all${own}`;
  },

  show(focus) {
    if (!this.area) return;
    let rows = 0, hits = 0;
    this.frames = this.layout();
    this.area.replaceChildren(...this.frames.map((p) => {
      const hit = this.query && p.f.name.toLowerCase().includes(this.query);
      rows = Math.max(rows, p.row + 1);
      hits += hit ? 1 : 0;
      const e = el('div', { class: 'frame' + (p.above ? ' above' : '') + (hit ? ' hit' : this.query ? ' miss' : ''), role: 'treeitem', tabindex: '-1', title: this.tell(p.f),
        'aria-level': String(p.row + 1), onclick: () => this.zoom(p.f), onfocus: () => { this.info.textContent = this.tell(p.f); }, onmouseenter: () => { this.info.textContent = this.tell(p.f); } },
      p.w * this.area.clientWidth > 26 ? nameOf(p.f.name) : null);
      e.style.left = p.x * 100 + '%';
      e.style.width = p.w * 100 + '%';
      e.style.top = p.row * 20 + 'px';
      if (p.f.role >= 2 && p.f.role < 9) e.style.background = ops.colourOfName(p.f.name);
      p.e = e;
      return e;
    }));
    this.area.style.height = rows * 20 + 'px';
    this.note.textContent = this.query ? `${count(hits)} found` : '';
    this.reset.hidden = this.zoomed === this.root;
    const at = this.frames.find((p) => p.f === (focus || this.zoomed));
    if (at) at.e.tabIndex = 0;
    if (at && focus) at.e.focus({ preventScroll: true });
    if (!focus) this.info.textContent = this.tell(this.zoomed);
  },

  key(e) {
    const p = this.frames.find((k) => k.e === document.activeElement);
    if (!p) return;
    const beside = (d) => {
      const row = this.frames.filter((k) => k.row === p.row).sort((a, b) => a.x - b.x);
      return row[row.indexOf(p) + d];
    };
    let to = null;
    if (e.key === 'ArrowDown') to = this.frames.find((k) => k.f.parent === p.f && k.row === p.row + 1);
    else if (e.key === 'ArrowUp') to = this.frames.find((k) => k.f === p.f.parent);
    else if (e.key === 'ArrowRight') to = beside(1);
    else if (e.key === 'ArrowLeft') to = beside(-1);
    else if (e.key === 'Enter' || e.key === ' ') this.zoom(p.f);
    else if (e.key === 'Escape') this.zoom(this.root);
    else return;
    e.preventDefault();
    if (to) {
      p.e.tabIndex = -1;
      to.e.tabIndex = 0;
      to.e.focus();
    }
  },
};
