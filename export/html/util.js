// SPDX-License-Identifier: Apache-2.0
// What every part of the page uses. Names of targets reach the page through text nodes alone.
'use strict';

const $ = (id) => document.getElementById(id);

// An element with attributes, listeners (onclick: fn) and children; strings become text nodes.
function el(tag, attrs, ...children) {
  const svg = el.svg.has(tag);
  const e = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attrs || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') e.addEventListener(key.slice(2), value);
    else e.setAttribute(key, value === true ? '' : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) e.append(child);
  }
  return e;
}
el.svg = new Set(['svg', 'path', 'rect', 'line', 'text', 'g', 'circle', 'title']);

// A name of a target: its direction does not reach beyond it.
function nameOf(text, cls) {
  return el('bdi', { class: cls || 'name' }, text === '' ? '(no name)' : text);
}

// The same where it may need several lines: they end between its words, as long as it has some.
function nameInWords(text) {
  const bdi = nameOf(text), words = text.split(/(?<=[_:./])(?=[^_:./])/);
  if (words.length > 1 && words.length < 100) bdi.replaceChildren(...words.flatMap((w, i) => i ? [el('wbr'), w] : [w]));
  return bdi;
}

/* --- numbers for people --- */

function digits3(v) {
  return v >= 99.95 ? v.toFixed(0) : v >= 9.995 ? v.toFixed(1) : v.toFixed(2);
}

function duration(ns) {
  if (!Number.isFinite(ns)) return '–';
  const sign = ns < 0 ? '−' : '';
  const v = Math.abs(ns);
  if (v < 999.5) return sign + Math.round(v) + ' ns';
  if (v < 999.5e3) return sign + digits3(v / 1e3) + ' µs';
  if (v < 999.5e6) return sign + digits3(v / 1e6) + ' ms';
  if (v < 120e9) return sign + digits3(v / 1e9) + ' s';
  if (v < 7200e9) return sign + digits3(v / 60e9) + ' min';
  return sign + digits3(v / 3600e9) + ' h';
}

// Every nanosecond of it: "1.234 567 890 s".
function exactTime(ns) {
  const whole = Math.floor(ns / 1e9);
  const rest = String(Math.round(ns - whole * 1e9)).padStart(9, '0');
  return `${count(whole)}.${rest.slice(0, 3)} ${rest.slice(3, 6)} ${rest.slice(6)} s`;
}

function count(n) {
  return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ',');
}

function bytes(n) {
  if (n === null || n === undefined) return '–';
  const sign = n < 0 ? '−' : '';
  let v = Math.abs(n), unit = 0;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  while (v >= 999.5 && unit < units.length - 1) {
    v /= 1024;
    unit++;
  }
  return sign + (unit ? digits3(v) : Math.round(v)) + ' ' + units[unit];
}

function percent(part, of) {
  if (!of) return '–';
  const v = part / of * 100;
  return (v > 0 && v < 0.05 ? '<0.1' : v.toFixed(1)) + '%';
}

function rate(n, ns) {
  const v = ns > 0 ? n / ns * 1e9 : 0;
  return (v >= 100 ? count(v) : v.toFixed(1)) + '/s';
}

function plural(n, one, many) {
  return count(n) + ' ' + (n === 1 ? one : many || one + 's');
}

// The nearest power of two (half of it, or itself) that is at least v: for bytes.
function niceBytes(v) {
  return v <= 1 ? 1 : Math.pow(2, Math.ceil(Math.log2(v) - 1e-9));
}

// The nearest of 1, 2, 5 times a power of ten that is at least v.
function niceStep(v) {
  const power = Math.pow(10, Math.floor(Math.log10(v)));
  for (const m of [1, 2, 5, 10]) if (m * power >= v * 0.999) return m * power;
  return 10 * power;
}

// Multiples of a step in a range; few, also where numbers are too large to count by the step.
function multiples(step, from, to) {
  const out = [], first = Math.ceil(from / step);
  for (let k = 0; k < 100 && (first + k) * step <= to; k++) out.push((first + k) * step);
  return out;
}

/* --- colours --- */

const theme = {
  dark: false,
  listeners: [],
  init() {
    const query = matchMedia('(prefers-color-scheme: dark)');
    const set = (dark) => {
      this.dark = dark;
      document.documentElement.dataset.theme = dark ? 'dark' : 'light';
      for (const fn of this.listeners) fn();
    };
    set(query.matches);
    query.addEventListener('change', (e) => set(e.matches));
    $('theme').addEventListener('click', () => set(!this.dark));
    addEventListener('beforeprint', () => {
      this.before = this.dark;
      set(false);
    });
    addEventListener('afterprint', () => set(this.before));
  },
  css(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  },
};

// Neighbours in rank get hues far apart.
function paint(rank) {
  const hue = Math.round((rank * 137.508 + 205) % 360);
  const step = Math.floor(rank / 12) % 3;
  return theme.dark ? `hsl(${hue} ${46 - 8 * step}% ${38 + 5 * step}%)` : `hsl(${hue} ${68 - 8 * step}% ${70 - 5 * step}%)`;
}

function hashText(text) {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return h >>> 0;
}

/* --- searching in sorted arrays --- */

// The first index in [lo, hi) whose value is greater than v; hi when none is.
function upper(array, v, lo, hi) {
  while (lo < hi) {
    const mid = (lo + hi) >>> 1;
    if (array[mid] > v) hi = mid;
    else lo = mid + 1;
  }
  return lo;
}

// The first index in [lo, hi) whose value is at least v.
function lower(array, v, lo, hi) {
  while (lo < hi) {
    const mid = (lo + hi) >>> 1;
    if (array[mid] >= v) hi = mid;
    else lo = mid + 1;
  }
  return lo;
}
