# SPDX-License-Identifier: Apache-2.0
"""A Python process that runs a model with ONNX Runtime and knows nothing of profilers from outside.

Prints "ready PID", then obeys lines on stdin, each answered by a JSON line: "run N" runs the model N times, "profile" ends
ONNX Runtime's own profile of the session and names its file.
"""
import json
import os
import sys

import numpy
import onnx
import onnxruntime

MODEL = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light", "light_squeezenet.onnx")

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.enable_profiling = True
options.profile_file_prefix = sys.argv[1]
session = onnxruntime.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])
name = session.get_inputs()[0].name
data = (numpy.arange(3 * 224 * 224, dtype=numpy.float32) % 17 / 17).reshape(1, 3, 224, 224)
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    word, *rest = line.split()
    if word == "run":
        for _ in range(int(rest[0])):
            out = session.run(None, {name: data})
        print(json.dumps({"runs": int(rest[0]), "first": float(out[0].flat[0])}), flush=True)
    elif word == "profile":
        print(json.dumps({"profile": session.end_profiling()}), flush=True)
    else:
        break
