# SPDX-License-Identifier: Apache-2.0
"""The examples that the documentation walks through, as a user runs them."""
import importlib.util
import os
import subprocess
import sys

import pytest

from conftest import EXAMPLES, PATIENCE, counts

NEEDS = {"quickstart": None, "pytorch": "torch", "onnx_runtime": "onnxruntime"}
SHOWS = {
    "quickstart": {"submit": 20, "job": 20, "digest": 20},
    "pytorch": {"batch": 10, "0 (Block)": 10, "1.norm (LayerNorm)": 10, "Sequential": 10},
    "onnx_runtime": {"onnxruntime.run": 50, "softmax (Softmax)": 50},
}


def test_every_example_is_known():
    assert {f[:-3] for f in os.listdir(os.path.join(EXAMPLES, "python")) if f.endswith(".py")} == set(NEEDS)


@pytest.mark.parametrize("name", [n for n in NEEDS if n != "onnx_runtime" or importlib.util.find_spec("onnxruntime")])
def test_example_runs_and_shows_what_it_says(name, tmp_path):
    if NEEDS[name] and not importlib.util.find_spec(NEEDS[name]):
        pytest.skip(f"{NEEDS[name]} is not installed")
    p = subprocess.run([sys.executable, os.path.join(EXAMPLES, "python", name + ".py"), str(tmp_path / "out")],
                       capture_output=True, text=True, timeout=2 * PATIENCE)
    assert p.returncode == 0, p.stdout + p.stderr
    assert "Operations" in p.stdout and p.stderr == ""
    seen = counts((tmp_path / "out" / "chrome_trace.json").read_text())
    for span, n in SHOWS[name].items():
        assert seen[span] == n, seen
