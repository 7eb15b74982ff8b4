# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime as it comes from PyPI."""
import importlib.util
import os

import numpy
import onnxruntime
import pytest

from clika_runtime.profiler import instrument, span
from conftest import EXAMPLES, counts, events

spec = importlib.util.spec_from_file_location("example", os.path.join(EXAMPLES, "python", "onnx_runtime.py"))
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)
X = numpy.ones((4, 256), numpy.float32)


@pytest.fixture
def runtime():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(example.model_bytes(), options, providers=["CPUExecutionProvider"])


def test_runs_are_spans_with_shapes(session, runtime):
    with instrument(runtime), session.start_capture():
        for _ in range(12):
            runtime.run(None, {"input": X})
        runtime.run(output_names=["output"], input_feed={"input": X})
    assert counts(session) == {"onnxruntime.run": 13}
    assert events(session, "X")[0]["args"] == {"input": "4x256"}


def test_operators_by_name_as_often_as_the_model_ran(session, runtime):
    alone = runtime.run(None, {"input": X})[0]
    with instrument(runtime, ops=True) as hooks:
        runtime.run(None, {"input": X})
        with session.start_capture():
            for _ in range(25):
                with span("step"):
                    assert (runtime.run(None, {"input": X})[0] == alone).all()
        runtime.run(None, {"input": X})
    hooks.remove()
    seen = counts(session)
    assert seen.pop("step") == seen.pop("onnxruntime.run") == 25
    assert set(seen.values()) == {25}
    assert any("Softmax" in name for name in seen)
    assert sum("Gemm" in name or "MatMul" in name for name in seen) == 3
    assert any("(Softmax)" in line for line in session.summary_text().splitlines())


def test_operators_lie_within_their_runs(session, runtime):
    with instrument(runtime, ops=True), session.start_capture():
        for _ in range(10):
            runtime.run(None, {"input": X})
    spans = events(session, "X")
    runs = [(e["ts"], e["ts"] + e["dur"]) for e in spans if e["name"] == "onnxruntime.run"]
    names = {e["args"]["name"] for e in events(session, "M") if e["name"] == "thread_name"}
    assert len(runs) == 10 and "onnxruntime operators" in names
    for e in spans:
        if e["name"] != "onnxruntime.run":
            # ONNX Runtime tells whole microseconds, of a clock that is read once more.
            assert any(b - 100 <= e["ts"] and e["ts"] + e["dur"] <= end + 100 for b, end in runs), e


def test_removing_leaves_the_session_as_it_was(session, runtime):
    hooks = instrument(runtime)
    assert "run" in vars(runtime)
    hooks.remove()
    assert "run" not in vars(runtime)
    with session.start_capture():
        runtime.run(None, {"input": X})
    assert counts(session) == {}


def test_error_of_a_run_is_the_users(session, runtime):
    with instrument(runtime), session.start_capture():
        with pytest.raises(Exception, match="(?i)invalid|required|input"):
            runtime.run(None, {"nope": X})
        runtime.run(None, {"input": X})
    assert counts(session) == {"onnxruntime.run": 2}
