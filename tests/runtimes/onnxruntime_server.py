# SPDX-License-Identifier: Apache-2.0
"""A Python process that runs a model with ONNX Runtime and knows nothing of profilers from outside.

Prints "ready PID", then obeys lines on stdin, each answered by a JSON line: "run N" runs the model N times, "profile" ends
ONNX Runtime's own profile of the session and names its file, "fail N" runs N times what an operator throws at.
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

# Only the operator itself can see that its numbers do not fit the shape; it throws a C++ exception then.
made = onnx.helper.make_model(onnx.helper.make_graph(
    [onnx.helper.make_node("Reshape", ["x", "shape"], ["y"], name="misfit")], "g",
    [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n"]),
     onnx.helper.make_tensor_value_info("shape", onnx.TensorProto.INT64, ["r"])],
    [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]),
    opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
misfit = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
quiet = onnxruntime.RunOptions()
quiet.log_severity_level = 4
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    word, *rest = line.split()
    if word == "run":
        for _ in range(int(rest[0])):
            out = session.run(None, {name: data})
        print(json.dumps({"runs": int(rest[0]), "first": float(out[0].flat[0])}), flush=True)
    elif word == "fail":
        caught = 0
        for _ in range(int(rest[0])):
            try:
                misfit.run(None, {"x": numpy.ones(6, numpy.float32), "shape": numpy.array([4, 4])}, quiet)
            except Exception as e:
                caught += "cannot be reshaped" in str(e)
        print(json.dumps({"caught": caught}), flush=True)
    elif word == "profile":
        print(json.dumps({"profile": session.end_profiling()}), flush=True)
    else:
        break
