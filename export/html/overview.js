// SPDX-License-Identifier: Apache-2.0
// The top of the page: what to know before anything else.
'use strict';

const recordedNs = D.time.end - D.time.begin;

// One range of the page and the way back to it in the browser's history is not needed: links are enough.
function jumpTo(id) {
  $(id).scrollIntoView({ block: 'start' });
}

function whenRecorded() {
  const ns = D.time.realtime || D.recorder.created;
  return ns ? new Date(ns / 1e6).toISOString().replace('T', ' ').slice(0, 19) + ' UTC' : 'at an unknown time';
}

function showTitle() {
  const names = [...new Set(D.processes.slice(0, 3).map((p) => text(p.label) || text(p.comm)).filter(Boolean))];
  const asked = text(D.recorder.targets) || 'recording';
  const targets = names.length ? `${names.join(', ')}${D.nProcesses > 3 ? ' …' : ''} (${asked})` : asked;
  $('title').replaceChildren(nameOf(targets));
  document.title = `${targets} · clika-bpf-prof`;
  $('subtitle').textContent = `${duration(recordedNs)}, ${whenRecorded()}`;
}

function headline() {
  const top = D.ops[0];
  if (!top) return el('p', { class: 'headline' }, 'No spans: nothing marked ran in the time that was asked for.');
  return el('p', { class: 'headline' }, el('b', null, percent(top.self, D.time.self)), ' of the time in spans is ',
    opButton(top), `: ${duration(top.self)} in ${plural(top.dur[0], 'call')}, without spans inside.`);
}

function opButton(o) {
  const label = el('button', { type: 'button', class: 'op', title: 'Show the longest call in the timeline',
    onclick: () => showLongest(o) }, nameInWords(ops.name(o.op)));
  const cat = ops.cat(o.op);
  return el('span', null, label, cat ? el('span', { class: 'cat' }, nameOf(cat)) : null);
}

function showLongest(o) {
  if (o.at === undefined) return;
  if (!timeline.select(o.stream, o.at, o.op)) timeline.center(o.at);
  jumpTo('timeline');
}

/* --- figures --- */

function card(value, what, more, cls) {
  return el('div', { class: 'card ' + (cls || '') }, el('div', { class: 'value' }, value), el('div', { class: 'what' }, what),
    el('div', { class: 'more' }, more || ' '));
}

function cards() {
  const out = [card(duration(recordedNs), 'recorded', `${plural(D.counts.spans, 'span')}, ${plural(D.nTracks, 'thread')}`)];
  const r = D.requests[0];
  if (r && r.latency[0]) {
    const took = r.lastEnd - r.firstBegin;
    out.push(card(rate(r.ended, took), el('span', null, nameOf(text(r.name)), ' requests'), `${count(r.ended)} finished, ${r.most} at once at most`));
    out.push(card(duration(r.latency[SPREAD.p50]), 'median latency', `p99 ${duration(r.latency[SPREAD.p99])}, max ${duration(r.latency[SPREAD.max])}`));
  }
  const wait = D.waits[0];
  if (wait && wait.wait[0] && D.requests.length) {
    out.push(card(duration(meanOf(wait.wait)), el('span', null, 'mean wait for ', nameOf(text(wait.into) || 'no span')),
      wait.ran ? `then runs ${duration(wait.ranNs / wait.ran)}` : ''));
  }
  const m = D.memory.slice().sort((a, b) => b.peak - a.peak)[0];
  if (m) out.push(card(bytes(m.peak), 'peak memory in use', `at ${duration(m.peakAt)}, now ${bytes(m.current)}`));
  const busiest = D.tracks.slice().sort((a, b) => b.busy - a.busy)[0];
  if (busiest && D.time.observed) {
    out.push(card(percent(busiest.busy, D.time.observed), el('span', null, 'busiest thread, ', nameOf(threadName(busiest))),
      `longest gap ${duration(busiest.gap)}`));
  }
  return el('div', { class: 'cards' }, out);
}

/* --- what is missing --- */

const REPAIRS = [
  ['unfinished', 'spans without an end: closed where their thread, process or the recording ended'],
  ['noBegin', 'spans that ran already when recording began'],
  ['clipped', 'spans that ran past the one around them: cut there'],
  ['orphanEnds', 'ends of async spans or requests whose begin was not seen'],
  ['badTimes', 'events with times outside the recording: left out'],
  ['damaged', 'damaged blocks of the file'],
  ['forgotten', 'flows, async spans, requests or allocations given up: too many at one time'],
  ['outside', 'spans outside every capture: left out'],
];

function lossLines() {
  const l = D.loss, out = [];
  for (const c of l.causes) {
    if (c.records || c.atMost) {
      out.push(el('li', null, el('b', null, plural(c.records, 'record')), c.atMost ? `, at most ${count(c.atMost)} more` : '', ': ', text(c.text)));
    }
  }
  for (const p of l.probes) {
    out.push(el('li', null, el('b', null, plural(p.records, 'record')), ' at probe ', nameOf(text(p.probe)), ': ', text(p.text)));
  }
  if (l.dropped) out.push(el('li', null, el('b', null, plural(l.dropped.events, 'event')), ` before ${duration(l.dropped.until)}: overwritten, as a flight recorder does`));
  if (D.recorder.incomplete) out.push(el('li', null, el('b', null, 'The recorder did not finish'), ': what it had written up to then is here'));
  if (D.recorder.badSegments) out.push(el('li', null, el('b', null, plural(D.recorder.badSegments, 'damaged segment')), ' of the file: left out'));
  return out;
}

function lossBox() {
  const l = D.loss, lines = lossLines();
  const sum = l.emitted || l.recorded ? `${count(l.emitted)} emitted = ${count(l.recorded)} recorded + ${count(l.lost)} lost` : '';
  if (!lines.length) {
    return el('div', { class: 'status good' }, el('b', null, '✓ Nothing was lost'), sum ? `: ${sum}` : '', l.filtered ? `; ${count(l.filtered)} filtered out on request` : '', '.');
  }
  const some = l.records || l.atMost;
  return el('div', { class: 'status bad', role: 'alert' },
    el('b', null, some ? `⚠ ${percent(l.records, l.emitted || l.records)} of what the targets emitted is missing` : '⚠ Not all of it is here'),
    sum ? `: ${sum}.` : '.', ' Counts and sums below are of what was recorded.', el('ul', null, lines));
}

const WARNINGS_SHOWN = 3; // of one kind; the others are a click away

function warningList(list) {
  return el('ul', { class: 'warnings' }, list.map((w) => el('li', null, el('code', null, text(w.code)), ' ', text(w.text))));
}

// Which recipes were applied is told with the recording; that is nothing to be warned of.
const isRecipe = (w) => text(w.code) === 'recipe';

function warningBox() {
  const warnings = D.warnings.filter((w) => !isRecipe(w));
  const repairs = REPAIRS.filter(([key]) => D.counts[key]);
  const parts = [], kinds = new Map();
  for (const w of warnings) kinds.set(w.code, [...(kinds.get(w.code) || []), w]);
  for (const [code, list] of kinds) {
    parts.push(warningList(list.slice(0, WARNINGS_SHOWN)));
    const more = list.slice(WARNINGS_SHOWN);
    if (more.length) parts.push(el('details', null, el('summary', null, `${count(more.length)} more of `, el('code', null, text(code))), warningList(more)));
  }
  if (repairs.length) {
    parts.push(el('details', null, el('summary', null, 'Repaired or left out'),
      el('ul', null, repairs.map(([key, what]) => el('li', null, el('b', null, count(D.counts[key])), ' ', what)))));
  }
  if (!parts.length) return null;
  return el('div', { class: 'status ' + (warnings.length ? 'warn' : 'plain') },
    el('b', null, warnings.length ? plural(warnings.length, 'warning') : 'No warnings'), parts);
}

function showOverview() {
  showTitle();
  const parts = [headline(), lossBox(), warningBox(), cards()];
  $('overview').append(...parts.filter(Boolean));
}

/* --- the recording --- */

function facts(pairs) {
  return el('dl', null, pairs.filter(([, v]) => v !== null && v !== undefined && v !== '').map(([k, v]) => [el('dt', null, k), el('dd', null, v)]).flat());
}

function showRecording() {
  const r = D.recorder, recipes = D.warnings.filter(isRecipe);
  const section = $('recorded');
  section.append(facts([
    ['Targets', nameOf(text(r.targets) || '?')],
    ['Command', el('code', null, nameOf(text(r.command) || '?'))],
    ['When', `${whenRecorded()}, ${exactTime(recordedNs)}`],
    ['Where', `${text(r.host) || '?'}, Linux ${text(r.kernel) || '?'}, ${text(r.arch) || '?'}, ${r.cpus} CPUs, ${bytes(r.ram)}`],
    ['By', `${text(r.tool) || '?'} ${text(r.version) || ''}`],
    ['File', `${count(r.events)} events, ${bytes(r.bytes)}, ${r.incomplete ? 'not finished' : 'complete'}`],
    ['Recipes', recipes.length ? recipes.map((w) => el('div', null, nameOf(text(w.text).replace(/^recipe /, '')))) : null],
    ['Time 0', `CLOCK_BOOTTIME ${count(D.time.boottime)} ns`],
  ]));
  section.append(new Table([
    { title: 'pid', text: false, get: (p) => p.pid },
    { title: 'process', text: true, get: (p) => text(p.comm) || '', show: (p) => nameOf(text(p.comm) || '?') },
    { title: 'label', text: true, get: (p) => text(p.label) || '', show: (p) => nameOf(text(p.label) || '–') },
    { title: 'container', text: true, get: (p) => text(p.container) || '', show: (p) => nameOf(text(p.container) || '–'), cls: 'spare' },
    { title: 'cgroup', text: true, get: (p) => text(p.cgroup) || '', show: (p) => nameOf(text(p.cgroup) || '–'), cls: 'spare' },
    { title: 'command line', text: true, get: (p) => text(p.cmdline) || text(p.exe) || '', show: (p) => nameOf(text(p.cmdline) || text(p.exe) || '–') },
    { title: 'state', text: true, get: (p) => p.ended ? `ended, status ${p.exit >> 8}${p.exit & 127 ? `, signal ${p.exit & 127}` : ''}` : 'alive at the end' },
  ], D.processes, { caption: 'Processes', down: false }).element);
  if (D.nProcesses > D.processes.length) section.append(el('p', { class: 'note' }, `… and ${count(D.nProcesses - D.processes.length)} more processes`));
}
