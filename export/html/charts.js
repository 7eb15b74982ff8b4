// SPDX-License-Identifier: Apache-2.0
// Small charts as SVG: a histogram of durations, balances over time, points over time.
'use strict';

const CHART = { width: 640, wide: 1240, left: 64, right: 14, top: 12, bottom: 26 };

function chartFrame(height, label, wide) {
  const width = wide ? CHART.wide : CHART.width;
  const svg = el('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label, class: wide ? 'chart broad' : 'chart' });
  return { svg, width, x0: CHART.left, x1: width - CHART.right, y0: CHART.top, y1: height - CHART.bottom };
}

function yAxis(f, max, show) {
  const step = (show === bytes ? niceBytes : niceStep)(max / 4 || 1), out = [];
  for (let v = 0; v <= max * 1.0001; v += step) {
    const y = f.y1 - (f.y1 - f.y0) * v / (max || 1);
    out.push(el('line', { class: 'grid', x1: f.x0, x2: f.x1, y1: y, y2: y }));
    out.push(el('text', { class: 'tick', x: f.x0 - 6, y: y + 3.5, 'text-anchor': 'end' }, show(v)));
  }
  f.svg.append(...out);
}

function timeTicks(f, from, to) {
  const step = niceStep((to - from) / 7 || 1), out = [];
  for (const v of multiples(step, from, to)) {
    const x = f.x0 + (f.x1 - f.x0) * (v - from) / (to - from || 1);
    out.push(el('line', { class: 'axis', x1: x, x2: x, y1: f.y1, y2: f.y1 + 4 }));
    out.push(el('text', { class: 'tick', x, y: f.y1 + 17, 'text-anchor': 'middle' }, axisTime(v, step)));
  }
  out.push(el('line', { class: 'axis', x1: f.x0, x2: f.x1, y1: f.y1, y2: f.y1 }));
  f.svg.append(...out);
}

// A moment, as exact as the step between two ticks asks for.
function axisTime(ns, step) {
  const size = Math.max(Math.abs(ns), step);
  const [unit, name] = size >= 1e9 ? [1e9, 's'] : size >= 1e6 ? [1e6, 'ms'] : size >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
  const places = Math.min(9, Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9)));
  return `${trimZeros((ns / unit).toFixed(places))} ${name}`;
}

function trimZeros(s) {
  return s.includes('.') ? s.replace(/\.?0+$/, '') : s;
}

// shape: least value, width and count of each bucket, one after the other. Values on a logarithmic axis.
function histogramChart(shape, spread, label) {
  const f = chartFrame(210, label), bars = [];
  for (let i = 0; i < shape.length; i += 3) bars.push([Math.max(shape[i], 0.5), shape[i] + shape[i + 1], shape[i + 2]]);
  if (!bars.length) return el('p', { class: 'none' }, 'none');
  let lo = Math.log(bars[0][0]), hi = Math.log(bars[bars.length - 1][1]);
  const room = Math.max((hi - lo) * 0.04, 0.15);
  lo -= room;
  hi += room;
  const x = (v) => f.x0 + (f.x1 - f.x0) * (Math.log(Math.max(v, 0.5)) - lo) / (hi - lo);
  const max = Math.max(...bars.map((b) => b[2]));
  yAxis(f, max, (v) => count(v));
  for (const [from, to, n] of bars) {
    const h = Math.max(2, (f.y1 - f.y0) * n / max);
    f.svg.append(el('rect', { class: 'bar', x: x(from), y: f.y1 - h, width: Math.max(1, x(to) - x(from) - 0.5), height: h },
      el('title', null, `${count(n)} took ${duration(from)} to ${duration(to)}`)));
  }
  logTicks(f, Math.exp(lo), Math.exp(hi), x);
  percentileMarks(f, spread, x);
  return f.svg;
}

function logTicks(f, lo, hi, x) {
  const wide = hi / lo > 300;
  f.svg.append(el('line', { class: 'axis', x1: f.x0, x2: f.x1, y1: f.y1, y2: f.y1 }));
  for (let power = Math.pow(10, Math.floor(Math.log10(lo))); power < hi; power *= 10) {
    for (const m of wide ? [1] : [1, 2, 5]) {
      const v = m * power;
      if (v < lo || v > hi) continue;
      f.svg.append(el('line', { class: 'axis', x1: x(v), x2: x(v), y1: f.y1, y2: f.y1 + 4 }));
      f.svg.append(el('text', { class: 'tick', x: x(v), y: f.y1 + 17, 'text-anchor': 'middle' }, duration(v).replace(/\.0+ /, ' ')));
    }
  }
}

function percentileMarks(f, spread, x) {
  let right = -1e9, level = 0;
  for (const [key, name] of [['p50', 'p50'], ['p90', 'p90'], ['p99', 'p99'], ['max', 'max']]) {
    const at = x(spread[SPREAD[key]]);
    level = at - right < 30 ? level + 1 : 0;
    right = at;
    f.svg.append(el('line', { class: 'mark', x1: at, x2: at, y1: f.y0, y2: f.y1 }));
    f.svg.append(el('text', { class: 'markname', x: at + 3, y: f.y0 + 9 + level * 12 }, name));
  }
}

// lines: {cls, points: [[time, least, greatest, last], ...], name}; a value holds until the next point.
function stepPath(points, x, y, end) {
  let d = '', last = null;
  for (const [t, min, max, now] of points) {
    const at = x(t).toFixed(1);
    d += last === null ? `M${at} ${y(min).toFixed(1)}` : `H${at}`;
    d += `V${y(max).toFixed(1)}`;
    if (min !== max) d += `V${y(min).toFixed(1)}`;
    d += `V${y(now).toFixed(1)}`;
    last = now;
  }
  return last === null ? '' : d + `H${x(end).toFixed(1)}`;
}

// A line of text below it tells the values under the pointer; a click goes to that moment of the timeline.
function timeChart(lines, show, label, from, to, wide) {
  const f = chartFrame(180, label, wide);
  let max = 0;
  for (const l of lines) for (const p of l.points) max = Math.max(max, p[2]);
  const x = (t) => f.x0 + (f.x1 - f.x0) * Math.min(1, Math.max(0, (t - from) / (to - from || 1)));
  const y = (v) => f.y1 - (f.y1 - f.y0) * Math.max(0, v) / (max || 1);
  yAxis(f, max, show);
  timeTicks(f, from, to);
  for (const l of lines) {
    const d = stepPath(l.points, x, y, to);
    if (!d) continue;
    if (l.fill) f.svg.append(el('path', { class: 'area ' + l.cls, d: `${d}V${f.y1}H${x(l.points[0][0])}Z` }));
    f.svg.append(el('path', { class: 'line ' + l.cls, d }));
  }
  const cross = el('line', { class: 'cross', y1: f.y0, y2: f.y1, visibility: 'hidden' });
  f.svg.append(cross);
  const info = el('div', { class: 'readout' }, ' ');
  const timeAt = (e) => {
    const box = f.svg.getBoundingClientRect();
    const px = (e.clientX - box.left) / box.width * f.width;
    return from + (to - from) * Math.min(1, Math.max(0, (px - f.x0) / (f.x1 - f.x0)));
  };
  f.svg.addEventListener('mousemove', (e) => {
    const t = timeAt(e);
    cross.setAttribute('x1', x(t));
    cross.setAttribute('x2', x(t));
    cross.setAttribute('visibility', 'visible');
    info.textContent = `${duration(t)}: ` + lines.map((l) => `${l.name} ${valueAt(l.points, t, show)}`).join(', ');
  });
  f.svg.addEventListener('mouseleave', () => {
    cross.setAttribute('visibility', 'hidden');
    info.textContent = ' ';
  });
  f.svg.addEventListener('click', (e) => timeline.center(timeAt(e)));
  return el('div', { class: 'figure' }, f.svg, info);
}

function valueAt(points, t, show) {
  let lo = 0, hi = points.length;
  while (lo < hi) {
    const mid = (lo + hi) >>> 1;
    if (points[mid][0] > t) hi = mid;
    else lo = mid + 1;
  }
  return lo ? show(points[lo - 1][3]) : '–';
}

// points: [time, value, cls]; on a logarithmic axis. onPick(index)
function scatterChart(points, label, from, to, onPick) {
  const f = chartFrame(180, label);
  let lo = Infinity, hi = 0;
  for (const p of points) {
    lo = Math.min(lo, Math.max(1, p[1]));
    hi = Math.max(hi, p[1]);
  }
  if (!points.length) return el('p', { class: 'none' }, 'none');
  lo = Math.log(lo) - 0.2;
  hi = Math.log(Math.max(hi, 1)) + 0.2;
  const x = (t) => f.x0 + (f.x1 - f.x0) * (t - from) / (to - from || 1);
  const y = (v) => f.y1 - (f.y1 - f.y0) * (Math.log(Math.max(1, v)) - lo) / (hi - lo);
  timeTicks(f, from, to);
  for (let power = Math.pow(10, Math.floor(lo / Math.LN10)); Math.log(power) < hi; power *= 10) {
    for (const m of hi - lo > 7 ? [1] : [1, 2, 5]) {
      const v = m * power;
      if (Math.log(v) < lo || Math.log(v) > hi) continue;
      f.svg.append(el('line', { class: 'grid', x1: f.x0, x2: f.x1, y1: y(v), y2: y(v) }));
      f.svg.append(el('text', { class: 'tick', x: f.x0 - 6, y: y(v) + 3.5, 'text-anchor': 'end' }, duration(v).replace(/\.0+ /, ' ')));
    }
  }
  const paths = new Map();
  for (const [t, v, cls] of points) {
    const d = `M${(x(t) - 1.2).toFixed(1)} ${(y(v) - 1.2).toFixed(1)}h2.4v2.4h-2.4z`;
    paths.set(cls, (paths.get(cls) || '') + d);
  }
  for (const [cls, d] of paths) f.svg.append(el('path', { class: 'dots ' + cls, d }));
  f.svg.addEventListener('click', (e) => {
    const box = f.svg.getBoundingClientRect(), scale = f.width / box.width;
    const px = (e.clientX - box.left) * scale, py = (e.clientY - box.top) * scale;
    let best = -1, near = 15 * 15;
    points.forEach(([t, v], i) => {
      const d = (x(t) - px) ** 2 + (y(v) - py) ** 2;
      if (d < near) {
        near = d;
        best = i;
      }
    });
    if (best >= 0) onPick(best);
  });
  return f.svg;
}
