# SPDX-License-Identifier: Apache-2.0
"""Profile this process, or another, through the loader of clika-bpf-prof.

    from clika_runtime.profiler import ProfileSession, span

    session = ProfileSession()
    with session.start_capture("prefill"):
        model.run(batch)
    print(session.summary_text())
    session.save("out/")

ProfileSession records; span(), instant(), counter() and their kin mark what this program does;
instrument() marks what a PyTorch module or an ONNX Runtime session does. Importing attaches to
nothing. What can go wrong with profiling is a ProfilerError, or a ProfilerWarning where an exception
would harm the work that is profiled.
"""
import atexit as _atexit
import os as _os

from .._core import profiler as _native
from .._core.profiler import (
    CaptureScope,
    LoaderLostError,
    LoaderTimeoutError,
    LoaderUnavailableError,
    NotPermittedError,
    ProfilerError,
    ProfilerWarning,
    counter,
    flow_in,
    flow_out,
    flow_step,
    instant,
    is_recording,
    memory_alloc,
    memory_free,
    memory_release,
    memory_reserve,
    span,
)
from ._instrument import Instrumentation, instrument
from ._session import ProfileSession
from . import _wrap

__all__ = [
    "CaptureScope",
    "Instrumentation",
    "LoaderLostError",
    "LoaderTimeoutError",
    "LoaderUnavailableError",
    "NotPermittedError",
    "ProfileSession",
    "ProfilerError",
    "ProfilerWarning",
    "counter",
    "flow_in",
    "flow_out",
    "flow_step",
    "instant",
    "instrument",
    "is_recording",
    "memory_alloc",
    "memory_free",
    "memory_release",
    "memory_reserve",
    "span",
]

_native._set_decorator(_wrap.decorate)
_native._set_thread_namer(_wrap.thread_name)
_os.register_at_fork(after_in_child=_native._after_fork)
_atexit.register(_native._shut_down)
