# SPDX-License-Identifier: Apache-2.0
"""ProfileSession."""
import html
import json
import os
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from .._core.profiler import CaptureScope, ProfilerError, Session
from . import _empty, _recipes
from ._files import Outputs
from ._schedule import Schedule

Path = Union[str, "os.PathLike[str]"]

# enum clika_client_target, enum clika_client_via
_SELF, _PID, _COMMAND, _SYSTEM = range(4)
_VIA = {"auto": 0, "service": 1, "private": 2}

_STANDARD_SET = {
    "chrome_trace.json": "chrome",
    "report.json": "report",
    "memory_stats.json": "memory",
    "summary.txt": "summary",
}

_FLIGHT_BYTES = 64 << 20
_CELL_BYTES = 8 << 20  # a notebook keeps what its cells show


class ProfileSession(Session):
    """A profiling session: start one or more captures, run work, then export the results.

        session = ProfileSession()
        with session.start_capture("prefill"):
            model.run(batch)
        print(session.summary_text())
        session.save("out/")

    A new session attaches to nothing. The first capture attaches to the calling process, all its
    threads, through the loader service, or through a private loader when no service runs and this
    process may load BPF programs itself. Runtimes that are known, PyTorch and ONNX Runtime among them, are
    recorded without marks, operators inside the spans of whoever calls them: with_options() and the variable
    CLIKA_PROF_NO_AUTO=1 turn that off.

    Captures may follow one another, nest, overlap and share a tag. A capture holds what ran while it was
    open, and what it caused: asynchronous work that was sent inside belongs to it although it runs after
    the capture has ended. So keep the session alive past such work, and let the workers finish
    (synchronise) before reading or saving: then everything is included. Work outside every capture is in
    no result.

    Results are snapshots: they may be taken at any time, repeatedly, also while captures are open.
    Before the first capture they are valid and empty.

    Methods may be called from any thread. What waits for the loader waits without the GIL and with a
    deadline. Errors are ProfilerError: LoaderUnavailableError, LoaderLostError, LoaderTimeoutError,
    NotPermittedError. In a forked child the session is of no use (NotPermittedError): the parent's lives on.
    """

    def __init__(self) -> None:
        """An empty session; it attaches to nothing until the first capture."""
        self._options: Dict[str, Any] = {
            "target": _SELF, "pid": 0, "argv": None, "via": 0, "socket": None, "loader": None,
            "children": False, "probes": (), "usdts": (), "redact": False, "ring_bytes": 0, "max_bytes": 0,
            "flight_recorder": False, "timeout_ms": 0, "no_auto": None, "recipes": None, "budget": None,
        }
        self._configured = False
        self._saved: List[str] = []
        self._schedule: Optional[Schedule] = None
        self._keep_ns = 0

    # ---- other targets, options ----------------------------------------------------------------------

    @classmethod
    def with_options(cls, **options: Any) -> "ProfileSession":
        """A session of this process with options, all by keyword:

        children (bool, False): record children of the process too.
        via ("auto", "service" or "private"): which loader; "auto" takes the service if it runs.
        socket, loader (path): of the service, of the loader program; else $CLIKA_PROF_SOCKET and
            $CLIKA_PROF_LOADER, else where they are installed.
        probes, usdts (list of str): functions ("LIB-GLOB:FUNCTION-GLOB") and USDT markers
            ("PROVIDER:NAME") to record beside markers.
        recipes (list of str): of runtimes without markers, beside those that apply by themselves: NAME,
            NAME:all or NAME:GROUP, as `clika-bpf-prof recipes` lists them; with a private loader also
            paths of files. Else those in $CLIKA_PROF_RECIPES, separated by commas.
        no_auto (bool, False): leave out recipes that apply by themselves, such as PyTorch's. Else what
            $CLIKA_PROF_NO_AUTO says, 1 or 0.
        budget (float): share of CPU time that probes of recipes may cost, 0.05 for 5 %; beyond it the
            least telling are taken off. "off" or math.inf keeps all, None is the loader's default, 0.1.
            Else what $CLIKA_PROF_BUDGET says, 5% or off.
        redact (bool, False): leave out string arguments and command lines.
        max_bytes (int): of the recording; 0 = the loader's limit.
        ring_bytes (int): of each ring buffer; 0 = the loader's default.
        timeout (seconds, 10): how long a call waits for the loader at most.
        """
        return cls._make({}, options)

    @classmethod
    def for_process(cls, pid: int, **options: Any) -> "ProfileSession":
        """A session of another process, its threads and, with children=True, its children.

        The process must run as the same user and be dumpable; root may take any. Options as for
        with_options(). Raises NotPermittedError or LoaderUnavailableError at the first capture.
        """
        if isinstance(pid, bool) or not isinstance(pid, int) or not 0 < pid < 1 << 31:
            raise ValueError(f"not a process id: {pid!r}")
        return cls._make({"target": _PID, "pid": pid}, options)

    @classmethod
    def for_command(cls, argv: Sequence[str], **options: Any) -> "ProfileSession":
        """A session of a command and its children; the first capture starts it, recorded from its first
        instruction. wait() waits for its end. Options as for with_options()."""
        if isinstance(argv, (str, bytes)) or not argv:
            raise ValueError("argv is a list: the program and its arguments")
        return cls._make({"target": _COMMAND, "argv": [os.fsdecode(a) for a in argv]}, options)

    @classmethod
    def system_wide(cls, **options: Any) -> "ProfileSession":
        """A session of every process that carries markers, also those started later. Root alone may have
        one. Options as for with_options()."""
        return cls._make({"target": _SYSTEM}, options)

    @classmethod
    def flight_recorder(cls, seconds: float = 30.0, max_bytes: int = _FLIGHT_BYTES, *, pid: int = 0,
                        **options: Any) -> "ProfileSession":
        """A session that records from now on and keeps what happened last: in its results are the last
        `seconds` before each snapshot, as far as they fit in max_bytes. Save on demand.

        pid: another process than this one. Options as for with_options().
        """
        if not seconds > 0 or max_bytes <= 0:
            raise ValueError("seconds and max_bytes must be positive")
        target = {"target": _PID, "pid": pid} if pid else {}
        self = cls._make({**target, "flight_recorder": True}, {"max_bytes": max_bytes, **options})
        self._keep_ns = int(seconds * 1e9)
        self._begin_now()
        self._guarded(self._begin_last, "flight recorder")
        return self

    @classmethod
    def _make(cls, target: Dict[str, Any], options: Dict[str, Any]) -> "ProfileSession":
        self = cls()
        o = self._options
        o.update(target)
        for name, value in options.items():
            if name == "via":
                if value not in _VIA:
                    raise ValueError(f"via is one of {', '.join(_VIA)}, not {value!r}")
                o["via"] = _VIA[value]
            elif name == "timeout":
                if not value > 0:
                    raise ValueError("timeout must be positive")
                o["timeout_ms"] = max(1, min(int(value * 1000), 1 << 30))
            elif name in ("children", "redact"):
                o[name] = bool(value)
            elif name in ("socket", "loader"):
                o[name] = None if value is None else os.fspath(value)
            elif name in ("max_bytes", "ring_bytes"):
                if value < 0:
                    raise ValueError(f"{name} must not be negative")
                o[name] = int(value)
            elif name in ("probes", "usdts"):
                if isinstance(value, (str, bytes)):
                    raise ValueError(f"{name} is a list of patterns")
                o[name] = tuple(value)
            elif name == "recipes":
                o[name] = _recipes.names(value)
            elif name == "no_auto":
                o[name] = bool(value)
            elif name == "budget":
                o[name] = _recipes.budget(value)
            else:
                raise TypeError(f"unknown option {name!r}")
        return self

    # ---- captures --------------------------------------------------------------------------------------

    def start_capture(self, tag: str = 'default') -> CaptureScope:
        """Begin a capture region named `tag`; returns the CaptureScope that ends it.

        What is marked after the call has returned belongs to the capture. End it with a `with` block, or
        with stop(), on any thread.

        Raises LoaderUnavailableError when there is no loader (the text says what to do),
        NotPermittedError when the target is not this user's.
        """
        self._begin_now()
        return self._guarded(self._begin, tag)

    def schedule(self, wait: int, warmup: int, active: int, repeat: int = 0, *, tag: str = "window",
                 on_window: Optional[Callable[["ProfileSession", int], Any]] = None) -> None:
        """Capture in windows of steps: skip `wait` steps, let `warmup` more pass attached but not
        captured, capture `active` steps; then again, `repeat` times (0 = without end).

        Call step() after each step. Window number n, from 0, is a capture with the tag "TAG n";
        when it has ended on_window(session, n) is called, which may save it:
        session.save_window(n, dir).
        """
        if self._schedule is not None and not self._schedule.done:
            raise ProfilerError("the session follows a schedule already")
        self._schedule = Schedule(self, wait, warmup, active, repeat, tag, on_window)
        self._schedule.enter()

    def step(self) -> None:
        """Say that a step of the schedule has ended."""
        if self._schedule is None:
            raise ProfilerError("step() needs a schedule: call schedule() first")
        self._schedule.step()

    @property
    def windows(self) -> int:
        """Windows of the schedule that have ended."""
        return 0 if self._schedule is None else self._schedule.windows

    def flush(self) -> None:
        """Barrier: what was marked before the call, on any thread, is in every later result."""
        if self.started:
            self._guarded(self._flush)

    def wait(self, timeout: Optional[float] = None) -> Optional[int]:
        """Wait until the target has ended, at most `timeout` seconds. The wait status of a command (see
        os.waitstatus_to_exitcode), -1 for other targets; None when the time is over."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            st = self._guarded(self._stats)
            if st["ended"] and (self._options["target"] != _COMMAND or st["command_status"] != -1):
                return st["command_status"]
            if end is not None and time.monotonic() >= end:
                return None
            time.sleep(0.02)

    def close(self) -> None:
        """End the session, detach, and give up what was not saved. Open captures end. Again without
        effect."""
        if self._schedule is not None and not self.closed and not self.detached:
            self._schedule.close()
        self._close()

    def __enter__(self) -> "ProfileSession":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ---- results -----------------------------------------------------------------------------------------

    def chrome_trace_json(self) -> str:
        """Snapshot of the current results as a Chrome-tracing JSON string."""
        return self._snapshot("chrome").decode("utf-8")

    def perfetto_trace(self) -> bytes:
        """Snapshot of the current results as Perfetto protobuf bytes."""
        return self._snapshot("perfetto")

    def summary_text(self) -> str:
        """Snapshot of the current results as a per-op text summary."""
        return self._snapshot("summary").decode("utf-8")

    def report(self) -> Dict[str, Any]:
        """Snapshot of the full report, as a dict; times are in nanoseconds."""
        return json.loads(self._snapshot("report"))

    def memory_stats(self) -> Dict[str, Any]:
        """Snapshot of the memory statistics, as a dict; sizes are in bytes."""
        return json.loads(self._snapshot("memory"))

    def save(self, dir: str) -> None:
        """Write the standard set into `dir` (created if missing): chrome_trace.json, report.json,
        memory_stats.json, summary.txt. All four show one moment; each appears complete or not at all."""
        self._write_set(dir)

    def save_chrome_trace(self, path: str) -> None:
        """Write the Chrome-tracing timeline JSON to `path` (opens in chrome://tracing or Perfetto)."""
        self._write({path: "chrome"})

    def save_memory_stats(self, path: str) -> None:
        """Write the memory-stats JSON to `path`."""
        self._write({path: "memory"})

    def save_report_json(self, path: str) -> None:
        """Write the full report JSON to `path`."""
        self._write({path: "report"})

    def save_window(self, number: int, dir: str) -> None:
        """Write the standard set of one window of the schedule into `dir` (created if missing)."""
        if self._schedule is None or not 0 <= number < self._schedule.windows:
            raise ProfilerError(f"there is no window {number} that has ended")
        self._write_set(dir, self._schedule.tag_of(number))

    def export(self, path: Path, format: Optional[str] = None, *, capture: Optional[str] = None) -> None:
        """Write one format to `path`: any that `clika-bpf-prof export --help` lists. Without a format
        the ending of the name decides. capture: only what belongs to captures with this tag."""
        if format is None:
            format = _format_of(os.fspath(path))
        self._write({os.fspath(path): format}, capture=capture)

    @property
    def losses(self) -> Dict[str, Any]:
        """What is not in the results, and why: `lost` records (the ring was full), `unknown_at_most`
        (memory that could not be read), `filtered`, and `full`: a limit of the loader was reached."""
        if not self.started:
            return {"lost": 0, "unknown_at_most": 0, "filtered": 0, "full": False}
        st = self._guarded(self._stats)
        return {k: st[k] for k in ("lost", "unknown_at_most", "filtered", "full")}

    def stats(self) -> Dict[str, Any]:
        """Counts so far: records, spans, processes, threads, captures_open, file_bytes, elapsed_ns, ..."""
        return self._guarded(self._stats) if self.started else {}

    def _repr_html_(self) -> str:
        try:
            page = self._snapshot("html").decode("utf-8")
            if len(page) <= _CELL_BYTES:
                # A frame of its own: neither styles nor scripts meet those of the notebook.
                return (f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="ProfileSession" '
                        'style="width: 100%; height: 640px; border: 1px solid #8888"></iframe>')
            text = self.summary_text()
        except ProfilerError as e:
            text = f"{type(e).__name__}: {e}"
        return f"<pre>{html.escape(text)}</pre>"

    def __repr__(self) -> str:
        state = ("of another process" if self.detached else "closed" if self.closed
                 else "recording" if self.alive else "lost" if self.started else "not started")
        return f"<ProfileSession, {state}>"

    # ---- within --------------------------------------------------------------------------------------------

    def _begin_now(self) -> None:
        if not self._configured:
            options = _recipes.with_environment(self._options)
            self._configured = True
            self._configure(options)

    def _attach(self) -> None:
        self._begin_now()
        self._guarded(self._open)

    def _guarded(self, call: Callable[..., Any], *args: Any) -> Any:
        try:
            return call(*args)
        except ProfilerError as e:
            e.saved = tuple(self._saved)
            raise

    def _snapshot(self, format: str) -> bytes:
        self._guarded(self._check)
        if not self.started:
            return _empty.result(format)
        if not self._keep_ns:
            return self._guarded(self._export_bytes, format)
        fd = os.memfd_create("clika-export", os.MFD_CLOEXEC)
        with os.fdopen(fd, "rb") as f:
            self._guarded(self._export, (format,), (fd,), None, self._keep_ns)
            f.seek(0)
            return f.read()

    def _write_set(self, dir: str, capture: Optional[str] = None) -> None:
        self._guarded(self._check)
        dir = os.fspath(dir)
        os.makedirs(dir, exist_ok=True)
        self._write({os.path.join(dir, name): fmt for name, fmt in _STANDARD_SET.items()}, capture)

    def _write(self, files: Dict[Path, str], capture: Optional[str] = None) -> None:
        self._guarded(self._check)
        with Outputs(files) as outputs:
            if not self.started:
                for fd, fmt in zip(outputs.descriptors, files.values()):
                    _write_all(fd, _empty.result(fmt))
            else:
                self._guarded(self._export, tuple(files.values()), outputs.descriptors, capture,
                              self._keep_ns)
            outputs.commit()
        self._saved += [os.fspath(p) for p in files if os.fspath(p) not in self._saved]


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]


_ENDINGS = {
    ".pftrace": "perfetto", ".perfetto-trace": "perfetto", ".pb.gz": "pprof", ".folded": "folded",
    ".svg": "flamegraph", ".csv": "csv", ".jsonl": "otlp", ".txt": "summary", ".html": "html",
    ".speedscope.json": "speedscope", ".pt.trace.json": "kineto", ".json": "chrome",
}


def _format_of(path: str) -> str:
    base = os.path.basename(os.fsdecode(path))
    for ending, fmt in sorted(_ENDINGS.items(), key=lambda e: -len(e[0])):
        if base.endswith(ending):
            return fmt
    raise ValueError(f"{base!r} does not tell the format: give format=")
