# SPDX-License-Identifier: Apache-2.0
"""Results of a session that has captured nothing: what the exporters make of an empty recording, kept as
files, so that asking needs no loader. python/tools/empty_results.py writes them."""
import os

from .._core.profiler import ProfilerError

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "empty")


def result(format):
    path = os.path.join(_FOLDER, format)
    if not format.isidentifier() or not os.path.exists(path):
        raise ProfilerError(f"nothing has been captured yet, and there is no empty result in the format {format!r}")
    with open(path, "rb") as f:
        return f.read()
