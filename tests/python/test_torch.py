# SPDX-License-Identifier: Apache-2.0
"""PyTorch, as it comes: layers and operators, counted like torch.profiler counts them."""
import collections
import ctypes
import json
import threading
import time
import warnings

import pytest

from clika_runtime.profiler import ProfileSession, instrument, span
from conftest import counts, events, until

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        import torch.profiler
except ImportError:
    pytest.skip("PyTorch is not installed (python3-torch)", allow_module_level=True)

OPS = "libtorch_cpu*:at::_ops::*::call"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3)
        self.layers = torch.nn.Sequential(torch.nn.Linear(144, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
        self.fail = False

    def forward(self, x):
        x = self.layers(self.conv(x).flatten(1))
        if self.fail:
            raise ValueError("inside")
        return x


@pytest.fixture
def net():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    return Net().eval()


X = torch.ones(2, 1, 8, 8)


def layers(session):
    """Counts without what recipes tell by themselves: operators, parallel regions."""
    return {name: n for name, n in counts(session).items() if not name.startswith(("aten::", "omp "))}


def profiled(run):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as p:
        run()
    return {e.key: e.count for e in p.key_averages() if e.key.startswith("aten::")}


def test_layers_are_named_after_place_and_class(session, net):
    with torch.no_grad(), instrument(net):
        with session.start_capture():
            for _ in range(5):
                net(X)
    assert layers(session) == {name: 5 for name in (
        "Net", "conv (Conv2d)", "layers (Sequential)", "layers.0 (Linear)", "layers.1 (ReLU)", "layers.2 (Linear)")}
    shapes = {e["name"]: e["args"]["input"] for e in events(session, "X") if e["name"] in layers(session)}
    assert shapes["conv (Conv2d)"] == "2x1x8x8" and shapes["layers.2 (Linear)"] == "2x32"
    assert "layers.2 (Linear)" in session.summary_text()


def test_counts_of_layers_equal_torch_profilers(session, net):
    def run():
        for _ in range(7):
            net(X)

    with torch.no_grad():
        theirs = profiled(run)
        with instrument(net), session.start_capture():
            run()
    ours = counts(session)
    assert sum(n for name, n in ours.items() if "Linear" in name) == theirs["aten::linear"] == 14
    assert sum(n for name, n in ours.items() if "Conv2d" in name) == theirs["aten::conv2d"] == 7
    assert sum(n for name, n in ours.items() if "ReLU" in name) == theirs["aten::relu"] == 7


def test_counts_of_operators_equal_torch_profilers(net):
    def run():
        for _ in range(5):
            net(X)

    with torch.no_grad(), ProfileSession.with_options(probes=[OPS]) as s:
        run()
        theirs = profiled(run)
        with s.start_capture():
            run()
        ours = collections.Counter()
        for name, n in counts(s).items():
            if name.startswith("at::_ops::"):
                ours[name.split("::")[2]] += n
    # An overload has its own function; torch.profiler counts all of one name together.
    merged = collections.Counter()
    for key, n in theirs.items():
        merged[key.removeprefix("aten::")] += n
    for name in ("linear", "addmm", "relu", "conv2d", "convolution", "clamp_min", "t"):
        assert ours[name] == merged[name], (name, ours, merged)


def operators(session):
    """Names of the operators, with the spans that each lies in, of the same thread."""
    open_at, inside = {}, []
    for e in sorted(events(session, "X"), key=lambda e: (e["ts"], -e["dur"])):
        stack = open_at.setdefault((e["pid"], e["tid"]), [])
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= e["ts"]:
            stack.pop()
        if e["name"].startswith("aten::"):
            inside.append((e["name"], [s["name"] for s in stack]))
        stack.append(e)
    return inside


def test_operators_lie_in_the_spans_of_whoever_calls_them(session, net):
    with torch.no_grad(), session.start_capture():
        for _ in range(5):
            with span("request"):
                net(X)
    seen = operators(session)
    assert collections.Counter(name for name, _ in seen)["aten::linear"] == 10
    assert all(spans[0] == "request" for _, spans in seen), seen
    assert ("aten::addmm", ["request", "aten::linear"]) in seen


def test_operators_are_counted_like_torch_profiler_counts_them(net):
    def run():
        for _ in range(200):
            net(X)

    with torch.no_grad(), ProfileSession.with_options(budget="off") as s:
        run()
        theirs = profiled(run)
        with s.start_capture():
            run()
        ours = {name: n for name, n in counts(s).items() if name.startswith("aten::")}
        assert not any(w["code"].startswith("budget") for w in s.report()["warnings"])
    assert ours == theirs


@pytest.mark.parametrize("how", ["keyword", "environment"])
def test_operators_are_left_out_on_request(net, monkeypatch, how):
    if how == "environment":
        monkeypatch.setenv("CLIKA_PROF_NO_AUTO", "1")
    with torch.no_grad(), ProfileSession() if how == "environment" else ProfileSession.with_options(no_auto=True) as s:
        with s.start_capture(), span("request"):
            net(X)
        assert counts(s) == {"request": 1}


def test_named_recipe_is_the_only_one(net):
    with torch.no_grad(), ProfileSession.with_options(no_auto=True, recipes=["pytorch"]) as s:
        with s.start_capture():
            net(X)
        seen = counts(s)
    assert seen["aten::linear"] == 2 and not any(name.startswith("omp ") for name in seen)


def test_small_budget_takes_operators_off_and_says_so(net):
    """What is left is what was marked; and the report says what is missing."""
    def warned():
        return [w for w in s.report()["warnings"] if w["code"] == "budget"]

    with torch.no_grad(), ProfileSession.with_options(budget=0.0001) as s:
        with s.start_capture():
            end = time.monotonic() + 60
            while not warned() and time.monotonic() < end:
                for _ in range(100):
                    net(X)
            with span("marked"):
                net(X)
        assert warned() and counts(s)["marked"] == 1


def test_probes_are_gone_when_the_session_is_closed(net):
    with open("/proc/self/maps") as maps:
        library = ctypes.CDLL(next(line.split()[-1] for line in maps if "/libtorch_cpu" in line))
    entry = ctypes.cast(library._ZN2at4_ops4relu4callERKNS_6TensorE, ctypes.c_void_p)
    code = ctypes.string_at(entry, 16)
    with torch.no_grad(), ProfileSession() as s:
        assert ctypes.string_at(entry, 16) == code
        with s.start_capture():
            net(X)
        assert ctypes.string_at(entry, 16) != code  # they stay between captures
    until(lambda: ctypes.string_at(entry, 16) == code, "the code to be as it was")


def test_exceptions_again_and_again_leave_room_for_spans(session, net):
    """Nothing around them ends what they leave open."""
    with torch.no_grad(), instrument(net), session.start_capture():
        for _ in range(100):
            with pytest.raises(RuntimeError):
                net(torch.ones(3))
        for _ in range(10):
            net(X)
    assert layers(session)["layers.0 (Linear)"] == 10 and layers(session)["Net"] == 110
    assert session.losses["lost"] == 0


def test_module_that_calls_itself_nests(session):
    class Countdown(torch.nn.Module):
        def forward(self, n):
            return self(n - 1) + 1 if n else 0

    model = Countdown()
    with instrument(model), session.start_capture():
        for _ in range(3):
            assert model(4) == 4
    spans = sorted((e for e in events(session, "X") if e["name"] == "Countdown"), key=lambda e: e["ts"])
    assert len(spans) == 15
    for outer, inner in zip(spans[:5], spans[1:5]):
        assert outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]


def test_exception_that_crosses_layers_is_the_users_and_breaks_no_stack(session, net):
    with torch.no_grad(), instrument(net), session.start_capture():
        net.fail = True
        with pytest.raises(ValueError, match="inside"):
            with span("around"):
                net(X)
        with pytest.raises(RuntimeError):
            net.layers[0](torch.ones(3))
        net.fail = False
        with span("after"):
            net(X)
    seen = counts(session)
    assert seen["Net"] == 2 and seen["layers.0 (Linear)"] == 3
    spans = {e["name"]: e for e in events(session, "X")}
    around, after = spans["around"], spans["after"]
    inside = [e for e in events(session, "X") if e["name"] == "Net"][1]
    assert inside["ts"] + inside["dur"] < after["ts"] + after["dur"]  # nothing has cut it
    assert around["ts"] + around["dur"] <= after["ts"]


def test_results_are_the_same_bits(session, net):
    with torch.no_grad():
        alone = net(X)
        with instrument(net), session.start_capture():
            assert torch.equal(net(X), alone)
        assert torch.equal(net(X), alone)


def test_removing_leaves_the_model_as_it_was(session, net):
    before = {n: dict(m.__dict__, _forward_hooks=len(m._forward_hooks), _forward_pre_hooks=len(m._forward_pre_hooks))
              for n, m in net.named_modules()}
    hooks = instrument(net)
    hooks.remove()
    hooks.remove()
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in net.modules())
    assert {n: len(m.__dict__) for n, m in net.named_modules()} == {n: len(d) for n, d in before.items()}
    with session.start_capture():
        net(X)
    assert layers(session) == {}


def test_depth_and_threads(session, net):
    with torch.no_grad(), instrument(net, depth=1), session.start_capture():
        threads = [threading.Thread(target=lambda: [net(X) for _ in range(20)]) for _ in range(3)]
        [t.start() for t in threads]
        [t.join() for t in threads]
    assert layers(session) == {"Net": 60, "conv (Conv2d)": 60, "layers (Sequential)": 60}


def test_training_works_with_hooks(session, net):
    net.train()
    with instrument(net), session.start_capture():
        with span("backward"):
            net(X).sum().backward()
    assert net.conv.weight.grad is not None and counts(session)["Net"] == 1


def test_other_objects_are_refused():
    for other in (None, 1, "model", torch.ones(1)):
        with pytest.raises(TypeError, match="torch.nn.Module"):
            instrument(other)


def test_report_names_the_layers(session, net):
    with torch.no_grad(), instrument(net), session.start_capture():
        net(X)
    assert "conv (Conv2d)" in json.dumps(session.report())
