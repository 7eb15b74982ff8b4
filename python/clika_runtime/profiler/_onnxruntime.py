# SPDX-License-Identifier: Apache-2.0
"""Spans around an ONNX Runtime session, and its operators from its own profiler."""
import functools
import json
import os
import shutil
import tempfile
import threading
import time

from .._core import profiler as _native

_RUNS = ("run", "run_with_iobinding", "run_with_ort_values", "run_with_ortvaluevector")


class OnnxRuntimeInstrumentation:
    def __init__(self, session, ops):
        self._session = session
        self._wrapped = []
        self._folder = None
        if ops:
            self._start_profiler()
        self._ops = ops
        for name in _RUNS:
            if hasattr(session, name):
                setattr(session, name, self._wrap(name, getattr(session, name)))
                self._wrapped.append(name)

    def _start_profiler(self):
        options = self._session.get_session_options()
        if options.enable_profiling:
            return
        self._folder = tempfile.mkdtemp(prefix="clika-onnxruntime-")
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(self._folder, "profile")
        providers = self._session.get_providers()
        settings = self._session.get_provider_options()
        self._session._sess_options_initial = options
        self._session.set_providers(providers, [settings.get(p, {}) for p in providers])

    def _wrap(self, name, function):
        span, is_recording = _native.span, _native.is_recording
        title = f"onnxruntime.{name}"

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            if not is_recording():
                return function(*args, **kwargs)
            with span(title, **_shapes(args, kwargs)):
                return function(*args, **kwargs)

        return wrapper

    def remove(self):
        for name in self._wrapped:
            # The attribute of the object hid the method of its class.
            delattr(self._session, name)
        self._wrapped = []
        try:
            if self._ops:
                self._tell_operators()
        finally:
            if self._folder:
                shutil.rmtree(self._folder, ignore_errors=True)

    def _tell_operators(self):
        began = self._session.get_profiling_start_time_ns()
        path = self._session.end_profiling()
        if not path or not _native.is_recording():
            return
        with open(path, encoding="utf-8", errors="replace") as f:
            spans = _operators(json.load(f), began + _offset(began))
        # On a track of their own: the thread that ran them has told other spans meanwhile.
        teller = threading.Thread(target=_tell, args=(spans,), name="onnxruntime operators")
        teller.start()
        teller.join()


def _shapes(args, kwargs):
    feed = args[1] if len(args) > 1 else kwargs.get("input_feed")
    if not isinstance(feed, dict):
        return {}
    shapes = {}
    for key, value in list(feed.items())[:8]:
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple):
            shapes[str(key)] = "x".join(map(str, shape))
    return shapes


def _offset(began):
    """What to add to a time of the clock that @began is of, to get CLOCK_BOOTTIME. ONNX Runtime does not
    say which clock that is; it differs between platforms."""
    clocks = (time.time_ns(), time.monotonic_ns())
    now = min(clocks, key=lambda c: abs(c - began))
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - now


def _operators(events, zero):
    """(begin, end, name) of each operator's kernel, in the order of their begins."""
    out = []
    for e in events:
        if e.get("cat") != "Node" or not e.get("name", "").endswith("_kernel_time"):
            continue
        begin = zero + int(e["ts"]) * 1000
        name = e["name"][:-len("_kernel_time")]
        kind = e.get("args", {}).get("op_name")
        out.append((begin, begin + int(e["dur"]) * 1000, f"{name} ({kind})" if kind else name))
    out.sort(key=lambda s: (s[0], -s[1]))
    return out


def _tell(spans):
    for begin, end, name in spans:
        _native._told_span(name, begin, end)
