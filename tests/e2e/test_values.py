# SPDX-License-Identifier: Apache-2.0
"""Every marker group of both transports, value by value, as the Chrome trace tells them."""
import unittest

import lib

I64, U64 = (1 << 63), (1 << 64)
FLOW = 0xfeedfacecafebeef


def said(event):
    """Arguments that the program gave, without those that the exporter adds."""
    return {k: v for k, v in event.get("args", {}).items() if not k.startswith("clika.")}


class Checks:
    program = None
    complete_as_instant = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shared = None

    def setUp(self):
        cls = type(self)
        if cls.shared is None:
            target = self.target(self.program, "--stay")
            recorder = self.record("-p", target.pid)
            target.run()
            result = recorder.stop()
            cls.shared = (result.trace(), result.info(), target.pid, result.summary())
        self.trace, self.info, self.pid, self.summary = cls.shared

    def span(self, name):
        found = [s for s in self.trace.spans if s.name == name]
        self.assertEqual(len(found), 1, name)
        return found[0]

    def args(self, span):
        return {k: v for k, v in span.args.items() if not k.startswith("clika.")}

    def events(self, ph, name=None):
        return sorted((e for e in self.trace.of(ph) if name is None or e["name"] == name),
                      key=lambda e: lib._ns(e["ts"]))

    def inside(self, inner, outer):
        self.assertTrue(outer.ts <= inner.ts and inner.ts + inner.dur <= outer.ts + outer.dur,
                        f"{inner} is not inside {outer}")

    def enclosing(self, event):
        ts = lib._ns(event["ts"])
        return [s.name for s in self.trace.spans
                if s.tid == event["tid"] and s.ts <= ts <= s.ts + s.dur]

    def test_nothing_is_lost(self):
        self.assertNothingLost(self.info)

    def test_scoped_spans_nest(self):
        scoped = self.span("scoped")
        self.inside(self.span("all_arguments"), scoped)
        self.inside(self.span("with_category"), scoped)
        self.assertEqual(self.span("with_category").cat, "layer")

    def test_eight_arguments_keep_their_types_and_values(self):
        args = self.args(self.span("all_arguments"))
        self.assertEqual(list(args), ["i_min", "i_max", "u_max", "pi", "tiny", "text", "empty", "utf8"])
        self.assertEqual((args["i_min"], args["i_max"], args["u_max"]), (-I64, I64 - 1, U64 - 1))
        self.assertEqual((float(args["pi"]), float(args["tiny"])), (3.141592653589793, -5e-324))
        self.assertEqual((args["text"], args["empty"], args["utf8"]), ('a "quoted" text', "", "grüß €"))

    def test_arguments_of_begin_and_end_join(self):
        self.assertEqual(self.args(self.span("manual")), {"at_begin": 1, "at_end": 2})

    def test_dynamic_and_strange_names_survive(self):
        self.span("dynamic 7")
        self.span('strange "name"\t\\ \x01 end')

    def test_spans_told_after_the_fact_have_their_length(self):
        scoped = self.span("scoped")
        for name, args in (("completed", {}), ("completed_with_arguments", {"rows": 12})):
            if self.complete_as_instant:
                event, = self.events("i", name)
                told = said(event)
                self.assertGreaterEqual(told.pop("dur_ns"), scoped.dur)
                self.assertEqual(told, args)
            else:
                span = self.span(name)
                self.assertEqual(self.args(span), args)
                self.inside(scoped, span)

    def test_instants_have_their_arguments(self):
        plain, = self.events("i", "instant")
        self.assertEqual(said(plain), {})
        rich, = self.events("i", "instant_with_arguments")
        self.assertEqual(said(rich), {"value": -3, "why": "because"})

    def test_literals_tell_where_they_stand_in_the_source(self):
        for event in (self.events("i", "instant")[0], self.events("b", "transfer")[0]):
            self.assertRegex(event["args"]["clika.source"], r"every_marker\w*\.[ch]+p*:\d+$")

    def test_counters_have_their_values_in_order(self):
        depth = [e["args"]["value"] for e in self.events("C", "queue_depth")]
        self.assertEqual(depth[:2], [5, -2])
        self.assertLessEqual(set(depth[2:]), {-2})  # a closing sample repeats the last value
        load = [float(e["args"]["value"]) for e in self.events("C", "load")]
        self.assertEqual(set(load), {0.25})

    def test_asynchronous_spans_pair_by_id_across_threads(self):
        begins, ends = self.events("b", "transfer"), self.events("e", "transfer")
        self.assertEqual((len(begins), len(ends)), (2, 2))
        self.assertEqual(said(begins[0]), {"direction": "to device"})
        self.assertEqual([b["args"]["clika.id"] for b in begins], [77, 78])
        # Both run at the same time, so each has a row of its own; 77 ends first.
        self.assertNotEqual(begins[0]["id"], begins[1]["id"])
        self.assertEqual([e["id"] for e in ends], [begins[0]["id"], begins[1]["id"]])
        self.assertEqual(said(ends[0]), {"copied": 4096})

    def test_flows_tie_enqueue_to_run(self):
        out, back = self.events("s"), self.events("f")
        self.assertEqual((len(out), len(back)), (2, 2))
        pairs = {e["id"]: e for e in out}
        tied = [(self.enclosing(pairs[e["id"]])[-1], self.enclosing(e)[-1]) for e in back]
        self.assertEqual(tied, [("enqueues", "runs"), ("runs", "finishes")])

    def test_requests_tell_first_output_units_and_end(self):
        begin, = self.events("b", "completion")
        self.assertEqual((begin["args"]["clika.id"], said(begin)), (9001, {"prompt_tokens": 17}))
        end, = self.events("e", "completion")
        self.assertEqual((end["args"]["clika.units"], said(end)), (7, {"finish": "stop"}))
        steps = [e for e in self.events("n") if e["id"] == begin["id"]]
        self.assertEqual([e["name"] for e in steps], ["first output", "output", "output"])
        self.assertIn("completion", self.summary)

    def test_memory_balances_follow_every_event(self):
        def values(name):
            *seen, closing = [e["args"]["bytes"] for e in self.events("C", name)]
            self.assertEqual(closing, seen[-1])  # a closing sample repeats the last value
            return seen

        # The last is the free of a block that nobody saw allocated.
        self.assertEqual(values("memory in use (device 0)"), [4096, 5096, 1000, 1000])
        self.assertEqual(values("memory in use (device 3)"), [1 << 33])
        self.assertEqual(values("memory reserved (device 0)"), [1 << 20, 0])

    def test_names_of_process_and_threads_are_given(self):
        threads = {a["name"] for a in self.trace.metadata("thread_name").values()}
        self.assertLessEqual({"main thread", "worker with a name longer than fifteen"}, threads)
        labels = " ".join(a["labels"] for a in self.trace.metadata("process_labels").values())
        self.assertIn("the labelled process", labels)

    def test_the_program_opened_and_closed_a_capture(self):
        text = str(self.trace.json.get("otherData"))
        self.assertIn("window", text)

    def test_the_importing_side_gets_valid_events(self):
        for e in self.trace.events:
            self.assertIsInstance(e["pid"], int)
            self.assertGreaterEqual(e["pid"], 0)
            if e["ph"] != "M":
                self.assertGreaterEqual(lib._ns(e["ts"]), 0)


@lib.needs_root
class BatchedTest(Checks, lib.Case):
    program = "every_marker_batched"


@lib.needs_root
class SimpleTest(Checks, lib.Case):
    program = "every_marker_simple"
    complete_as_instant = True


if __name__ == "__main__":
    unittest.main()
