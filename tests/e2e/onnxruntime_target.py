# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's C library as PyPI ships it, driven by a small C program that says what it called."""
import collections
import json
import os
import subprocess
import unittest

import lib

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnxruntime")
DIR = os.path.join(lib.BUILD, "onnxruntime")

_setup = None


def files():
    """Paths of the library and the model; skips the test when they are not to be had."""
    global _setup
    if _setup is None:
        _setup = subprocess.run([os.path.join(HERE, "setup.sh"), DIR], capture_output=True, text=True,
                                **lib.as_owner())
    if _setup.returncode == 77:
        raise unittest.SkipTest("ONNX Runtime is not to be had here: " + _setup.stderr.strip())
    if _setup.returncode:
        raise AssertionError(_setup.stdout + _setup.stderr)
    return [line.split("=", 1)[1] for line in _setup.stdout.splitlines() if line.startswith(("library=", "model="))]


class Driver(lib.Process):
    def __init__(self, test, library=None, profile="-"):
        default, model = files()
        super().__init__(test, [os.path.join(DIR, "drive"), library or default, model, profile], ready="ready ")

    def ask(self, line):
        self.send(line)
        return self.result()

    def profile(self):
        """What ONNX Runtime itself wrote about the session: its runs and, by node, its operators' calls (ns)."""
        runs, nodes = [], collections.defaultdict(list)
        with open(self.ask("profile")["profile"]) as f:
            for e in json.load(f):
                if e.get("name") == "model_run":
                    runs.append(e["dur"] * 1000)
                elif e.get("cat") == "Node" and e["name"].endswith("_kernel_time"):
                    nodes[e["name"].removesuffix("_kernel_time")].append(e["dur"] * 1000)
        return runs, nodes
