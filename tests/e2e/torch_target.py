# SPDX-License-Identifier: Apache-2.0
"""A process that computes with PyTorch and knows of no markers. Lines in, JSON out:

    run N       N times forward and backward through a small model
    profile N   the same under torch.profiler: what that counted
    wrong N     N operators that throw, the errors caught
    ops N       N operators by way of torch.ops, one of them of our own; under torch.profiler
    device      what the caching allocator of a GPU reports, in its place: blocks on cuda:0 and cuda:1
    shapes      a few operators on tensors of known shapes
"""
import ctypes
import json
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from torch_profile import profiled

torch.set_num_threads(1)
torch.manual_seed(1)
MODEL = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 32),
                            torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 10), torch.nn.Softmax(-1))
X = torch.randn(5, 1, 8, 8)


def step():
    with torch.no_grad():
        answer = MODEL(X)
    answer = torch.cat([answer, answer]).index_select(0, torch.tensor([1, 2])).sum(0)
    if answer.max().item() > 1e9:
        raise AssertionError
    MODEL(X).mul(2).add_(1).mean().backward()


def wrong(n):
    a, b = torch.ones(2, 3), torch.ones(4, 5)
    layer = torch.nn.Linear(3, 2)
    calls = [lambda: torch.mm(a, b), lambda: a + b, lambda: layer(b), lambda: torch.cat([a, b])]
    caught = 0
    for i in range(n):
        try:
            calls[i % len(calls)]()
        except RuntimeError:
            caught += 1
    return caught


LIBRARY = torch.library.Library("ours", "DEF")
LIBRARY.define("twice(Tensor x) -> Tensor")
LIBRARY.impl("twice", lambda x: x * 2, "CPU")


def ops(n):
    x = torch.ones(3)
    for _ in range(n):
        torch.ops.ours.twice(x)
        torch.ops.aten.add.Tensor(x, x)
        torch.ops.aten.mul(x, 2.0)


def device():
    libraries = {line.split()[-1] for line in open("/proc/self/maps") if "/libc10.so" in line}
    library = ctypes.CDLL(libraries.pop())
    # The unsigned kind of the totals is newer.
    report = next(getattr(library, name) for name in ("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
                                                      "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE")
                  if hasattr(library, name))
    report.restype = None
    report.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_ushort]
    cpu, cuda0, cuda1 = 0xff00, 0x0001, 0x0101
    report(0x7f0000000000, 4096, 4096, 2 << 20, cuda0)
    report(0x7f0000002000, 8192, 12288, 2 << 20, cuda0)
    report(0x7f0000000000, 512, 512, 4 << 20, cuda1)
    report(0x7f0000004000, 64, 64, 0, cpu)
    report(0x7f0000000000, -4096, 8192, 2 << 20, cuda0)


def shapes():
    a = torch.zeros(3, 4, dtype=torch.float64)
    torch.mm(a, torch.zeros(4, 7, dtype=torch.float64))
    a.mul_(torch.ones(4, dtype=torch.float64))
    torch.tanh(torch.zeros(2, 0, 3), out=torch.zeros(2, 0, 3))
    torch.neg(torch.zeros(1, 2, 1, 2, 1, 2, dtype=torch.int32))
    torch.exp(torch.tensor(1.0))


def main():
    step()
    print("ready", os.getpid(), flush=True)
    for line in sys.stdin:
        what, *args = line.split()
        n = int(args[0]) if args else 0
        if what == "run":
            said = {"ran": len([step() for _ in range(n)])}
        elif what == "profile":
            said = profiled(lambda: [step() for _ in range(n)])
        elif what == "ops":
            said = profiled(lambda: ops(n))
        elif what == "device":
            said = {"device": device()}
        elif what == "wrong":
            said = {"caught": wrong(n)}
        else:
            said = {"shapes": shapes()}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
