// SPDX-License-Identifier: Apache-2.0
// A table that sorts by its heads and shows the rows that a search leaves. Sorting and searching work from
// the keyboard; the order is told to assistive programs.
'use strict';

const FIRST_ROWS = 30;

// columns: {title, get(row) -> number or string, show(row) -> node or string, hint, text: bool, cls}
class Table {
  constructor(columns, rows, options = {}) {
    this.columns = columns;
    this.rows = rows;
    this.options = options;
    this.sortBy = options.sortBy || 0;
    this.down = options.down !== false;
    this.all = false;
    this.query = '';
    this.element = this.build();
    this.update();
  }

  build() {
    const o = this.options;
    this.heads = this.columns.map((c, i) => el('th', { scope: 'col', class: (c.text ? 'text ' : '') + (c.cls || '') },
      el('button', { type: 'button', title: c.hint, onclick: () => this.sort(i) }, c.title)));
    this.body = el('tbody');
    this.table = el('table', { class: o.cls }, el('caption', { class: 'hidden' }, o.caption || ''),
      el('thead', null, el('tr', null, this.heads)), this.body);
    this.more = el('button', { type: 'button', class: 'more', onclick: () => {
      this.all = !this.all;
      this.update();
    } });
    this.note = el('span', { class: 'note', 'aria-live': 'polite' });
    const parts = [];
    if (o.search) {
      this.search = el('input', { type: 'search', placeholder: o.search, 'aria-label': o.search, spellcheck: 'false',
        oninput: () => {
          this.query = this.search.value.toLowerCase();
          this.update();
        } });
      parts.push(el('div', { class: 'tools' }, this.search, o.tools || null, this.note));
    }
    parts.push(el('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': o.caption }, this.table), this.more);
    return el('div', { class: 'table' }, parts);
  }

  sort(i) {
    if (this.sortBy === i) this.down = !this.down;
    else {
      this.sortBy = i;
      this.down = !this.columns[i].text;
    }
    this.update();
  }

  matching() {
    if (!this.query) return this.rows.slice();
    const texts = this.columns.filter((c) => c.text);
    return this.rows.filter((r) => texts.some((c) => String(c.get(r)).toLowerCase().includes(this.query)));
  }

  update() {
    const column = this.columns[this.sortBy], sign = this.down ? -1 : 1;
    const rows = this.matching();
    const keyed = rows.map((r) => [column.get(r), r]);
    keyed.sort((a, b) => sign * (typeof a[0] === 'string' ? (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) : a[0] - b[0]));
    this.heads.forEach((h, i) => {
      if (i === this.sortBy) h.setAttribute('aria-sort', this.down ? 'descending' : 'ascending');
      else h.removeAttribute('aria-sort');
    });
    const first = this.options.first || FIRST_ROWS;
    const shown = this.all ? keyed : keyed.slice(0, first);
    this.body.replaceChildren(...shown.map(([, r]) => this.row(r)));
    if (!rows.length) this.body.append(el('tr', null, el('td', { colspan: String(this.columns.length), class: 'text none' }, 'nothing matches')));
    this.more.hidden = rows.length <= first;
    this.more.textContent = this.all ? 'Show fewer' : `Show all ${count(rows.length)}`;
    this.note.textContent = this.query ? `${count(rows.length)} of ${count(this.rows.length)}` : '';
  }

  row(r) {
    const tr = el('tr', null, this.columns.map((c) => el('td', { class: (c.text ? 'text ' : '') + (c.cls || '') },
      c.show ? c.show(r) : String(c.get(r)))));
    if (this.options.onRow) this.options.onRow(tr, r);
    return tr;
  }
}

// The middle of a spread that the exporter wrote: [count, sum, min, p50, p90, p95, p99, p99.9, max].
const SPREAD = { count: 0, sum: 1, min: 2, p50: 3, p90: 4, p95: 5, p99: 6, p999: 7, max: 8 };
const meanOf = (s) => s[0] ? s[1] / s[0] : 0;

function spreadColumns(get, keys) {
  const hints = { mean: 'arithmetic mean', p50: 'half of them took at most this long', p90: '90 % took at most this long',
    p95: '95 % took at most this long', p99: '99 % took at most this long', max: 'the longest', min: 'the shortest' };
  return keys.map((k) => {
    const value = (r) => k === 'mean' ? meanOf(get(r)) : get(r)[SPREAD[k]];
    return { title: k, hint: hints[k], get: value, show: (r) => get(r)[0] ? duration(value(r)) : '–',
      cls: k === 'p95' || k === 'min' ? 'spare' : k === 'p90' ? 'extra' : '' };
  });
}
