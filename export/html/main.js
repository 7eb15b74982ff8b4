// SPDX-License-Identifier: Apache-2.0
// Puts the page together. What fails is told on the page and takes nothing else with it.
'use strict';

function attempt(what, fn) {
  try {
    return fn();
  } catch (e) {
    complain(what, e);
    return undefined;
  }
}

function complain(what, e) {
  $('broken').hidden = false;
  $('broken').append(el('p', null, `${what} cannot be shown: ${e.message}`));
}

function showNav() {
  const empty = new Set();
  if (!D.counters.length) empty.add('counters');
  if (!D.requests.length) empty.add('requests');
  if (!D.waits.length && !D.asyncs.length) empty.add('waiting');
  if (!D.memory.length) empty.add('memory');
  for (const section of document.querySelectorAll('main > section')) {
    const h2 = section.querySelector('h2');
    if (h2 && !empty.has(section.id)) $('nav').append(el('a', { href: '#' + section.id }, h2.textContent));
  }
}

async function main() {
  theme.init();
  attempt('The overview', showOverview);
  attempt('Navigation', showNav);
  attempt('The operations', showOperations);
  try {
    await loadSpans();
  } catch (e) {
    complain('The timeline', e);
  }
  attempt('The timeline', () => {
    timeline.build();
    timeline.attach();
    timeline.sumUp();
  });
  attempt('The flame graph', () => flame.attach());
  attempt('Requests', showRequests);
  attempt('Waiting', showWaiting);
  attempt('Memory', showMemory);
  attempt('Counters', showCounters);
  attempt('Threads', showThreads);
  attempt('Captures', showCaptures);
  attempt('The recording', showRecording);
  document.documentElement.dataset.ready = 'true';
  if (location.hash.length > 1) followHash();
}

// #t=FROM-TO in nanoseconds from time 0, #SECTION: so that a moment can be pointed at.
function followHash() {
  const m = /^#t=(\d+)-(\d+)$/.exec(location.hash);
  if (m) timeline.show(Number(m[1]), Number(m[2]));
  const id = m ? 'timeline' : location.hash.slice(1);
  if ($(id)) jumpTo(id);
}

addEventListener('hashchange', followHash);
main();
