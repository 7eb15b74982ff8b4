# SPDX-License-Identifier: Apache-2.0
"""Traces in Perfetto's own interface, as people see them: it draws them, and names threads, slices and losses."""
import os
import unittest

import browser
import lib
import perfetto_ui
import trace_processor

GOLDEN = os.path.join(lib.ROOT, "tests", "golden")
# Where the interface looks for its makers' own services; nothing of ours.
ITS_OWN = ("perfetto-ui-internal", "google-analytics", "googletagmanager", "127.0.0.1:9001", "live_reload", "navigate-to",
           "fonts.g", "favicon")


@unittest.skipUnless(browser.path(), "Chromium shows Perfetto's interface")
class PerfettoInterface(lib.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        trace_processor.setup()
        cls.ui = perfetto_ui.Interface()
        cls.addClassCleanup(cls.ui.close)

    def tracks(self, page):
        return page.eval("[...document.querySelectorAll('.pf-track__title')].map((e) => e.textContent)")

    def complaints(self, page):
        return [e for e in page.errors() if not any(own in str(e) for own in ITS_OWN)]

    def test_golden_traces_show_their_threads(self):
        for scene in ("serving", "images", "repaired"):
            trace = os.path.join(GOLDEN, scene + ".pftrace")
            _, (rows,) = trace_processor.ask(trace, """select distinct th.name from slice s
                join thread_track tt on tt.id = s.track_id join thread th using (utid) where th.name is not null""")
            page = self.ui.open(trace, height=4000)
            shown = " ".join(self.tracks(page))
            for row in rows:
                self.assertIn(row["name"].split("\n")[0].strip(), shown, scene)
            self.assertEqual(self.complaints(page), [])
            page.close()

    def test_a_link_to_a_span_tells_its_name_thread_and_arguments(self):
        trace = os.path.join(GOLDEN, "serving.pftrace")
        _, (rows,) = trace_processor.ask(trace, """select s.ts, s.dur, s.name, th.name as thread from slice s
            join thread_track tt on tt.id = s.track_id join thread th using (utid) where s.dur > 0 order by s.dur desc limit 1""")
        span = rows[0]
        page = self.ui.open(trace, ts=span["ts"], dur=span["dur"])
        page.click('.pf-split-panel__handle button[title="Show panel"]')
        details = "document.querySelector('.pf-split-panel__drawer').textContent"
        page.wait(details + ".includes('Absolute Time')", "the details of the span")
        self.assertIn(span["name"], page.eval(details))
        self.assertIn(span["thread"], page.eval(details))

    def test_a_chrome_trace_opens_in_it_too(self):
        trace = os.path.join(self.tmp(), "trace.json")
        lib.export(os.path.join(GOLDEN, "serving.clika"), "chrome", trace)
        page = self.ui.open(trace, height=2000)
        self.assertIn("worker 0", " ".join(self.tracks(page)))
        self.assertEqual(self.complaints(page), [])


if __name__ == "__main__":
    unittest.main()
