# SPDX-License-Identifier: Apache-2.0
"""The interface that was promised, to the letter; and what the package is made of."""
import inspect
import os
import pathlib
import pydoc
import re
import subprocess
import sys
import typing

import pytest

import clika_runtime
import clika_runtime.profiler as profiler
from clika_runtime.profiler import ProfileSession
from conftest import ROOT, TOOL, needs_root, python

PROMISED = {
    "__init__": "(self) -> None",
    "chrome_trace_json": "(self) -> str",
    "perfetto_trace": "(self) -> bytes",
    "save": "(self, dir: str) -> None",
    "save_chrome_trace": "(self, path: str) -> None",
    "save_memory_stats": "(self, path: str) -> None",
    "save_report_json": "(self, path: str) -> None",
    "start_capture": "(self, tag: str = 'default') -> clika_runtime._core.profiler.CaptureScope",
    "summary_text": "(self) -> str",
}


@pytest.mark.parametrize("name", PROMISED)
def test_signature_is_the_promised_one(name):
    assert str(inspect.signature(getattr(ProfileSession, name))) == PROMISED[name]


@pytest.mark.parametrize("name", PROMISED)
def test_help_shows_the_promised_signature(name):
    shown = pydoc.plain(pydoc.render_doc(ProfileSession))
    assert f"{name}{PROMISED[name]}" in shown


@pytest.mark.parametrize("name", PROMISED)
def test_every_promised_member_says_what_it_does(name):
    assert len(inspect.getdoc(getattr(ProfileSession, name))) > 20


def test_documentation_has_the_promised_signatures():
    with open(os.path.join(ROOT, "docs", "python.md")) as f:
        page = f.read()
    for name, signature in PROMISED.items():
        assert f"| `{name}{signature}` |" in page


def test_constructor_takes_nothing():
    assert str(inspect.signature(ProfileSession)) == "() -> None"
    with pytest.raises(TypeError):
        ProfileSession(1)


def test_session_is_reached_through_the_package():
    assert clika_runtime.profiler.ProfileSession is ProfileSession


def test_scope_lives_in_the_native_module():
    import clika_runtime._core.profiler as native

    scope = native.CaptureScope
    assert f"{scope.__module__}.{scope.__qualname__}" == "clika_runtime._core.profiler.CaptureScope"
    assert profiler.CaptureScope is scope
    assert sys.modules["clika_runtime._core.profiler"] is native
    assert typing.get_type_hints(ProfileSession.start_capture)["return"] is scope


def test_scope_is_made_by_sessions_alone():
    with pytest.raises(TypeError, match="start_capture"):
        profiler.CaptureScope()
    assert str(inspect.signature(profiler.CaptureScope.stop)) == "(self, /)"


def test_markers_show_their_signatures():
    assert str(inspect.signature(profiler.span)) == "(name, /, **args)"
    assert str(inspect.signature(profiler.instant)) == "(name, /, **args)"
    assert str(inspect.signature(profiler.counter)) == "(name, value)"
    assert str(inspect.signature(profiler.memory_alloc)) == "(address, size, device=0, pool='')"
    assert str(inspect.signature(profiler.memory_free)) == "(address, device=0)"


def test_all_names_are_there_and_documented():
    for name in profiler.__all__:
        assert inspect.getdoc(getattr(profiler, name)), name
    for name, member in inspect.getmembers(ProfileSession):
        if not name.startswith("_"):
            assert inspect.getdoc(member), name


def test_one_library_serves_every_later_python():
    import clika_runtime._core as core

    assert core.__file__.endswith("_core.abi3.so")


def test_package_is_typed():
    import importlib.resources as resources

    files = resources.files("clika_runtime")
    assert (files / "py.typed").is_file()
    stub = (files / "_core" / "profiler.pyi").read_text()
    native = sys.modules["clika_runtime._core.profiler"]
    for name in vars(native):
        if not name.startswith("__"):
            assert re.search(rf"^(?:class|def) {name}\b", stub, re.M), f"{name} is missing in the stub"


@needs_root
def test_empty_results_are_those_of_the_exporters(tmp_path):
    """What a session without captures gives is kept in files: they must be what the tool makes today."""
    script, kept = "python/tools/empty_results.py", os.path.join(ROOT, "python/clika_runtime/profiler/empty")
    subprocess.run([sys.executable, os.path.join(ROOT, script), TOOL, str(tmp_path)], check=True, timeout=60)

    def files(folder):
        return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}

    now, then = files(tmp_path), files(kept)
    other = sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))
    assert not other, f"{', '.join(other)}: out of date; run `{script} build/clika-bpf-prof` and commit what it writes"
    assert len(now) >= 13


@needs_root
def test_package_and_tool_are_of_one_version():
    said = subprocess.run([TOOL, "--version"], capture_output=True, text=True, check=True).stdout
    assert clika_runtime.__version__ in said.split()


def test_errors_are_a_family():
    for name in ("LoaderUnavailableError", "LoaderLostError", "LoaderTimeoutError", "NotPermittedError"):
        assert issubclass(getattr(profiler, name), profiler.ProfilerError)
    assert issubclass(profiler.ProfilerError, RuntimeError)
    assert issubclass(profiler.LoaderTimeoutError, TimeoutError)
    assert issubclass(profiler.NotPermittedError, PermissionError)
    assert issubclass(profiler.ProfilerWarning, RuntimeWarning)
    assert profiler.ProfilerError("x").saved == () and profiler.ProfilerError("x").code is None


def test_import_attaches_to_nothing_and_starts_nothing():
    done = python("""
        import glob
        say([sorted(os.listdir("/proc/self/task")) == [str(os.getpid())],
             [os.readlink(f) for f in glob.glob("/proc/self/fd/*") if os.path.islink(f)]])
    """)
    alone, files = done.json
    assert alone and not [f for f in files if "socket" in f or "bpf" in f]


@pytest.mark.skipif(sys.version_info < (3, 9), reason="needs interpreters inside")
def test_subinterpreters_are_refused_with_the_reason():
    done = python("""
        try:
            import _interpreters as sub
        except ImportError:
            import _xxsubinterpreters as sub
        i = sub.create()
        code = "import sys; sys.path[:] = %r\\n" % (sys.path,) + (
            "try:\\n import clika_runtime\\n"
            "except ImportError as e:\\n print('refused:', e, flush=True)\\n")
        r = sub.run_string(i, code)
        sub.destroy(i)
        say("main goes on")
    """, warn="default")
    assert "refused" in done.out and "interpreter" in done.out
    assert done.json == "main goes on"
