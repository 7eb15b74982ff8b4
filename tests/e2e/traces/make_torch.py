# SPDX-License-Identifier: Apache-2.0
"""Writes a trace of PyTorch's own profiler: a few steps of a small model. Ends with 77 where there is no PyTorch.

usage: make_torch.py FILE
"""
import sys

try:
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function
except ImportError:
    sys.exit(77)

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
batch = torch.randn(8, 64)
with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True) as profiler:
    for _ in range(5):
        with record_function("step"):
            model(batch).softmax(-1)
        profiler.step()
profiler.export_chrome_trace(sys.argv[1])
