# SPDX-License-Identifier: Apache-2.0
"""The HTML report in a real browser: complete, quiet, usable by mouse and keyboard, and deaf to hostile names."""
import collections
import os
import re
import subprocess
import unittest

import browser
import lib

GOLDEN = os.path.join(lib.ROOT, "tests", "golden")
UNIT = os.path.join(lib.BUILD, "tests/unit/test_export_html")
INCOMPLETE = 5  # exit status: exported, but the recording was not finished
MB = 1000000
CTRL, SHIFT = 2, 8

# Every span of the page's threads: [name, begin, duration].
SPANS = """[...streams.values()].filter((s) => s.kind === 'thread').flatMap((s) => s.rows).flatMap((r) =>
  Array.from({length: r.n}, (_, i) => i).filter((i) => !(r.flags[i] & F.INSTANT))
    .map((i) => [ops.name(r.op[i]), r.start[i], r.end[i] - r.start[i]]))"""


def export(recording, path, form="html"):
    run = subprocess.run([lib.TOOL, "export", recording, "--format", form, "-o", path], capture_output=True,
                         text=True, timeout=120)
    if run.returncode not in (0, INCOMPLETE):
        raise AssertionError(f"export of {recording}: {run.stderr}")
    return path


def printable(name):
    """As the page shows it: control characters are visible."""
    return re.sub("[\x00-\x1f\x7f-\x9f]", lambda m: f"\\x{ord(m[0]):02x}", name)


@unittest.skipUnless(browser.path(), "Chromium shows the report")
class HtmlReport(lib.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def report(self, name):
        return export(os.path.join(GOLDEN, name + ".clika"), os.path.join(self.tmp(), "report.html"))

    def made(self, what):
        """A report of a recording that the unit test's program writes."""
        recording = os.path.join(self.tmp(), "made.clika")
        subprocess.run([UNIT, what, recording], check=True, timeout=120)
        return export(recording, os.path.join(self.tmp(), "report.html")), recording

    def open(self, path, **kw):
        page = self.browser.open("file://" + path, **kw)
        page.wait("document.documentElement.dataset.ready", "the report to be drawn")
        self.assertTrue(page.eval("document.getElementById('broken').hidden"),
                        page.eval("document.getElementById('broken').textContent"))
        return page

    def quiet(self, page):
        """Nothing failed, and nothing but the file itself was asked for."""
        self.assertEqual(page.errors(), [])
        self.assertEqual([u for u in page.requests() if not u.startswith("file:")], [])
        self.assertEqual(len(page.requests()), 1)

    # --- content ---

    def test_reports_of_all_kinds_open_without_a_complaint(self):
        for name in ("serving", "repaired", "images"):
            page = self.open(self.report(name))
            self.quiet(page)
            self.assertGreater(page.eval("document.querySelectorAll('#operations tbody tr').length"), 0, name)
            page.close()

    def test_the_timeline_has_the_spans_of_the_chrome_trace(self):
        for name in ("serving", "repaired", "images"):
            page = self.open(self.report(name))
            recording = os.path.join(GOLDEN, name + ".clika")
            trace = lib.Trace(export(recording, os.path.join(self.tmp(), "trace.json"), "chrome"))
            seen = collections.Counter(tuple(s) for s in page.eval(SPANS))
            self.assertEqual(seen, collections.Counter((printable(s.name), s.ts, s.dur) for s in trace.spans), name)
            page.close()

    def test_losses_and_warnings_stand_at_the_top(self):
        page = self.open(self.made("--hostile=0")[0])
        b = page.box("#overview .status.bad")
        self.assertGreater(b["height"], 0)
        self.assertLess(b["y"], 300)
        self.assertIn("missing", page.eval("document.querySelector('#overview .status.bad').textContent"))
        self.assertIn("1 record", page.eval("document.querySelector('#overview .status.bad ul').textContent"))
        clean = self.open(self.report("serving"))
        lost = clean.eval("D.loss.records + D.loss.atMost")
        self.assertEqual(clean.eval("!!document.querySelector('#overview .status.bad')"),
                         bool(lost) or clean.eval("D.recorder.incomplete"))

    def test_recipes_are_told_with_the_recording_and_are_no_warnings(self):
        page = self.open(self.made("--notes")[0])
        self.quiet(page)
        box = page.eval("document.querySelector('#overview .status.warn').textContent")
        self.assertTrue(box.startswith("1 warning"), box)
        self.assertNotIn("libtorch_cpu", box)
        told = page.eval("document.getElementById('recorded').textContent")
        self.assertIn("pytorch: 3879 functions of libtorch_cpu.so", told)
        self.assertIn("pytorch: 3 functions of libc10.so", told)

    def test_a_million_spans_fit_and_are_all_there(self):
        path, _ = self.made("--crowd=1000000")
        self.assertLess(os.path.getsize(path), 10 * MB)
        page = self.open(path)
        self.quiet(page)
        self.assertEqual(page.eval("[...streams.values()].reduce((n, s) => n + s.n, 0)"), 1000000)
        self.assertEqual(page.eval("merged.spans"), 0)
        # What is drawn depends on the window, not on the recording.
        self.assertLess(page.eval("(() => { const t = performance.now(); for (let i = 0; i < 5; i++) timeline.paint();"
                                  " return (performance.now() - t) / 5; })()"), 1000)

    def test_what_does_not_fit_is_merged_and_counted(self):
        path, _ = self.made("--crowd=2000000")
        self.assertLess(os.path.getsize(path), 10 * MB)
        page = self.open(path)
        self.quiet(page)
        here = page.eval("[...streams.values()].reduce((n, s) => n + s.n, 0)")
        self.assertGreater(here, 400000)
        self.assertLess(here, 2000000)
        self.assertEqual(here + page.eval("merged.spans"), 2000000)
        self.assertIn("merged", page.eval("document.getElementById('timeline').textContent"))
        # The parts of all threads in spans are those of the statistics, also where spans are merged.
        busy = page.eval("""[...streams.values()].filter((s) => s.kind === 'thread').map((s) => [s.info.busy,
          timeline.coverOf(s.rows[0], timeline.first, timeline.last) * (timeline.last - timeline.first)])""")
        for told, drawn in busy:
            self.assertLess(abs(told - drawn) / told, 0.02)

    # --- hostile names ---

    def test_hostile_names_stay_text(self):
        for n in range(11):
            path, _ = self.made(f"--hostile={n}")
            page = self.open(path)
            self.quiet(page)
            # Look at all of it: every table row, a span's details, the hover text.
            page.eval("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
            page.eval("showLongest(D.ops[0]); timeline.showTip(timeline.selected, {clientX: 200, clientY: 200})")
            page.eval("flame.mode.click(); timeline.find(ops.name(D.ops[0].op)); new Promise((r) => setTimeout(r, 300))")
            self.assertEqual(page.eval("document.querySelectorAll('img, iframe, object, embed, link, base, b b').length"), 0)
            ours = page.eval("document.scripts.length")
            self.assertEqual(ours, page.eval("[...document.scripts].filter((s) => s.textContent.includes('SPDX-License-Identifier')"
                                             " || s.id === 'data').length"))
            self.assertEqual(page.events("Page.javascriptDialogOpening"), [])
            name = page.eval("ops.name(D.ops[0].op)")
            cell = page.eval("document.querySelector('#operations tbody bdi').textContent")
            self.assertEqual(cell, name)
            self.assertEqual(page.eval("document.querySelectorAll('#operations tbody bdi :not(wbr)').length"), 0)
            self.assertEqual(page.errors(), [])
            page.close()

    def test_the_policy_stops_what_is_not_ours(self):
        page = self.open(self.report("serving"))
        self.assertIn("default-src 'none'", page.eval("document.querySelector('meta[http-equiv]').content"))
        self.assertNotIn("unsafe", page.eval("document.querySelector('meta[http-equiv]').content"))
        page.eval("(() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
                  " document.body.append(s); })()")
        self.assertIsNone(page.eval("window.ran"))
        self.assertEqual(page.eval("fetch('http://127.0.0.1:1/').then(() => 'asked', () => 'stopped')"), "stopped")
        self.assertEqual(page.eval("fetch(location.href).then(() => 'asked', () => 'stopped')"), "stopped")

    # --- tables ---

    def column(self, page, section, n):
        return page.eval(f"[...document.querySelectorAll('#{section} tbody tr')].map((r) => r.cells[{n}].textContent)")

    def test_tables_sort_by_click_and_by_keyboard(self):
        page = self.open(self.report("serving"))
        calls = [int(v.replace(",", "")) for v in self.column(page, "operations", 1)]
        page.click("#operations th:nth-child(2) button")
        self.assertEqual(page.eval("document.querySelector('#operations th:nth-child(2)').ariaSort"), "descending")
        self.assertEqual([int(v.replace(",", "")) for v in self.column(page, "operations", 1)],
                         sorted(calls, reverse=True))
        page.eval("document.querySelector('#operations th:nth-child(2) button').focus()")
        page.key("Enter")
        self.assertEqual(page.eval("document.querySelector('#operations th:nth-child(2)').ariaSort"), "ascending")
        self.assertEqual([int(v.replace(",", "")) for v in self.column(page, "operations", 1)], sorted(calls))

    def test_tables_are_searched(self):
        page = self.open(self.report("serving"))
        names = self.column(page, "operations", 0)
        wanted = names[-1].split("[")[0]
        page.eval("document.querySelector('#operations input').focus()")
        page.type(wanted)
        left = self.column(page, "operations", 0)
        self.assertTrue(left and all(wanted in n for n in left))
        self.assertLess(len(left), len(names))
        page.type("no such operation")
        self.assertEqual(self.column(page, "operations", 0), ["nothing matches"])

    # --- timeline ---

    def canvas(self, page):
        page.eval("document.querySelector('.tl').scrollIntoView({block: 'center'})")
        return page.box(".tl-canvas")

    def span_at(self, page):
        """A wide span of a thread in view, and where it is."""
        page.eval("timeline.show(timeline.first, timeline.last)")
        self.canvas(page)
        return page.eval("""(() => {
          const box = timeline.canvas.getBoundingClientRect(), k = timeline.width / (timeline.t1 - timeline.t0);
          let best = null;
          for (const b of timeline.blocks) {
            if (b.kind !== 'thread') continue;
            b.shown.forEach((l, n) => {
              const y = b.y + n * ROW + ROW / 2;
              if (y > timeline.viewH - 4) return;
              for (let i = 0; i < l.row.n; i++) {
                const w = (l.row.end[i] - l.row.start[i]) * k;
                if (!best || w > best.w) best = {w, y: box.y + y, x: box.x + ((l.row.start[i] + l.row.end[i]) / 2 - timeline.t0) * k,
                  name: ops.name(l.row.op[i]), dur: l.row.end[i] - l.row.start[i], start: l.row.start[i]};
              }
            });
          }
          return best;
        })()""")

    def test_hovering_and_clicking_a_span_tell_what_it_is(self):
        page = self.open(self.report("serving"))
        span = self.span_at(page)
        page.move(span["x"], span["y"])
        page.wait("!timeline.tip.hidden", "the hover text")
        self.assertIn(span["name"], page.eval("timeline.tip.textContent"))
        page.click_at(span["x"], span["y"])
        detail = page.eval("timeline.detail.textContent")
        self.assertIn(span["name"], detail)
        self.assertIn(f"{span['dur']:,} ns", detail)
        self.assertEqual(page.eval("timeline.selected.row.start[timeline.selected.i]"), span["start"])

    def test_wheel_and_drag_and_double_click_move_the_view(self):
        page = self.open(self.report("serving"))
        span = self.span_at(page)
        box = self.canvas(page)
        whole = page.eval("timeline.t1 - timeline.t0")
        x, y = box["x"] + box["width"] / 2, box["y"] + 30
        under = page.eval(f"timeline.timeAt({box['width'] / 2})")
        page.wheel(x, y, -300, CTRL)
        page.wait(f"timeline.t1 - timeline.t0 < {whole} * 0.8", "the view to be zoomed")
        self.assertLess(abs(page.eval(f"timeline.timeAt({box['width'] / 2})") - under), whole / 1000)
        before, width = page.eval("[timeline.t0, timeline.t1 - timeline.t0]")
        page.drag(x, y, x - 100, y)
        after, same = page.eval("[timeline.t0, timeline.t1 - timeline.t0]")
        self.assertLess(abs(same - width), width / 1e6)
        self.assertLess(abs((after - before) - 100 / box["width"] * width), width / 100)
        page.eval("timeline.show(timeline.first, timeline.last)")
        page.drag(box["x"] + 100, y, box["x"] + 300, y, SHIFT)
        from_, to = page.eval("[timeline.t0, timeline.t1]")
        first, last = page.eval("[timeline.first, timeline.last]")
        self.assertLess(abs((to - from_) / (last - first) - 200 / box["width"]), 0.05)
        span = self.span_at(page)
        page.click_at(span["x"], span["y"], clicks=2)
        seen = page.eval("timeline.t1 - timeline.t0")
        self.assertLess(abs(seen - span["dur"] * 1.2), span["dur"] * 0.1 + 60)

    def test_keys_move_the_view_and_step_through_spans(self):
        page = self.open(self.report("serving"))
        span = self.span_at(page)
        page.click_at(span["x"], span["y"])
        page.eval("timeline.scroll.focus()")
        width = page.eval("timeline.t1 - timeline.t0")
        page.key("w")
        self.assertLess(page.eval("timeline.t1 - timeline.t0"), width)
        left = page.eval("timeline.t0")
        page.key("d")
        self.assertGreater(page.eval("timeline.t0"), left)
        page.key("ArrowLeft")
        page.key("s")
        page.eval("timeline.choose(null); timeline.search.focus()")
        op = page.eval("ops.name(D.ops.slice().sort((a, b) => b.dur[0] - a.dur[0])[0].op)")
        page.type(op)
        self.assertIn("found", page.eval("timeline.foundNote.textContent"))
        page.key("Enter")
        self.assertIn(op, page.eval("ops.label(timeline.selected.row.op[timeline.selected.i])"))
        start = page.eval("timeline.selected.row.start[timeline.selected.i]")
        page.eval("timeline.scroll.focus()")
        page.key("n")
        self.assertGreater(page.eval("timeline.selected.row.start[timeline.selected.i]"), start)
        page.key("p")
        self.assertEqual(page.eval("timeline.selected.row.start[timeline.selected.i]"), start)
        page.key("Escape")
        self.assertIsNone(page.eval("timeline.selected"))

    def test_an_operation_leads_to_its_longest_call(self):
        page = self.open(self.report("serving"))
        longest = page.eval("D.ops[0].dur[SPREAD.max]")
        page.click("#operations tbody button")
        self.assertEqual(page.eval("timeline.selected.row.end[timeline.selected.i] - timeline.selected.row.start[timeline.selected.i]"),
                         longest)

    def test_an_address_leads_to_a_moment(self):
        path = self.report("serving")
        page = self.open(path)
        first, last = page.eval("[timeline.first, timeline.last]")
        a, b = int(first + (last - first) / 4), int(first + (last - first) / 2)
        again = self.browser.open(f"file://{path}#t={a}-{b}")
        again.wait("document.documentElement.dataset.ready", "the report to be drawn")
        self.assertEqual([round(v) for v in again.eval("[timeline.t0, timeline.t1]")], [a, b])

    # --- flame graph, requests ---

    def test_the_flame_graph_zooms_and_goes_back(self):
        page = self.open(self.report("serving"))
        frames = page.eval("document.querySelectorAll('#flame .frame').length")
        name = page.eval("flame.root.children[0].name")
        page.eval("document.querySelectorAll('#flame .frame')[1].setAttribute('id', 'second')")
        page.click("#second")
        self.assertEqual(page.eval("flame.zoomed.name"), name)
        self.assertAlmostEqual(page.eval("flame.frames.find((p) => p.f === flame.zoomed).w"), 1)
        page.key("ArrowUp")
        page.key("Escape")
        self.assertTrue(page.eval("flame.zoomed === flame.root"))
        self.assertEqual(page.eval("document.querySelectorAll('#flame .frame').length"), frames)
        page.key("ArrowDown")
        self.assertEqual(page.eval("flame.frames.find((p) => p.e === document.activeElement).f.name"), name)

    def test_the_flame_graph_has_the_time_of_the_operations(self):
        page = self.open(self.report("serving"))
        self.assertEqual(page.eval("flame.root.time"), page.eval("D.time.self"))

    def test_requests_have_percentiles_and_lead_to_the_timeline(self):
        page = self.open(self.report("serving"))
        took = sorted(page.eval("allRequests(D.requests[0].name).filter((q) => !q.open).map((q) => q.took)"))
        self.assertEqual(len(took), page.eval("D.requests[0].ended"))
        self.assertEqual(page.eval("D.requests[0].latency[SPREAD.max]"), took[-1])
        told = page.eval("D.requests[0].latency[SPREAD.p50]")
        exact = took[(len(took) + 1) // 2 - 1]
        self.assertLessEqual(abs(told - exact), exact / 100 + 1)
        page.click("#requests details tbody button")
        self.assertEqual(page.eval("timeline.selected.row.end[timeline.selected.i] - timeline.selected.row.start[timeline.selected.i]"),
                         took[-1])

    # --- looks ---

    def test_light_and_dark_follow_the_system_and_the_button(self):
        path = self.report("serving")
        colours = {}
        for dark in (False, True):
            page = self.open(path, dark=dark)
            colours[dark] = page.eval("getComputedStyle(document.documentElement).backgroundColor")
            page.click("#theme")
            other = page.eval("getComputedStyle(document.documentElement).backgroundColor")
            self.assertNotEqual(other, colours[dark])
            self.quiet(page)
        self.assertNotEqual(colours[False], colours[True])

    def test_text_can_be_read_on_its_ground(self):
        """Contrast of body text, soft text, links and warnings: at least 4.5 to 1 in both themes."""
        for dark in (False, True):
            page = self.open(self.report("serving"), dark=dark)
            low = page.eval("""(() => {
              const rgb = (c) => c.match(/[\\d.]+/g).slice(0, 3).map(Number);
              const lum = (c) => { const [r, g, b] = rgb(c).map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
                return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
              const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!c.endsWith(', 0)')) return c; } return 'rgb(255,255,255)'; };
              const out = [];
              for (const e of document.querySelectorAll('p, td, th, a, button, .more, .what, code, dt, dd, .sub')) {
                if (!e.textContent.trim() || !e.offsetParent) continue;
                const a = lum(getComputedStyle(e).color), b = lum(ground(e));
                const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
                if (ratio < 4.5) out.push([e.tagName, e.className, e.textContent.slice(0, 30), ratio]);
              }
              return out;
            })()""")
            self.assertEqual(low, [])

    def test_narrow_windows_lose_nothing_at_the_side(self):
        path = self.report("serving")
        for width in (1280, 800):
            page = self.open(path, width=width)
            self.assertLessEqual(page.eval("document.documentElement.scrollWidth"), width)
            self.assertEqual(page.eval("[...document.querySelectorAll('#operations .wide, #threads .wide')]"
                                       ".filter((w) => w.scrollWidth > w.clientWidth + 1).length"), 0, width)

    def test_prints_in_light_without_buttons(self):
        page = self.open(self.report("serving"), dark=True)
        pdf = page.call("Page.printToPDF", printBackground=True)["data"]
        self.assertGreater(len(pdf), 10000)
        page.call("Emulation.setEmulatedMedia", media="print")
        self.assertEqual(page.eval("[...document.querySelectorAll('nav, .tools, #theme')].filter((e) => e.offsetParent).length"), 0)
        self.quiet(page)


if __name__ == "__main__":
    unittest.main()
