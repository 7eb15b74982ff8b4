#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which operators of an ONNX model take the time. Needs onnxruntime and onnx; writes the model itself.

    python onnx_runtime.py [FOLDER]
"""
import sys

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from clika_runtime.profiler import ProfileSession, instrument


def model_bytes(layers=3, width=256):
    """A small perceptron: MatMul, Add, Relu in each layer, Softmax at the end."""
    random = numpy.random.default_rng(1)
    nodes, weights, last = [], [], "input"
    for i in range(layers):
        weights += [numpy_helper.from_array(random.standard_normal((width, width), numpy.float32) / 16, f"weight{i}"),
                    numpy_helper.from_array(numpy.zeros(width, numpy.float32), f"bias{i}")]
        nodes += [helper.make_node("MatMul", [last, f"weight{i}"], [f"m{i}"], name=f"layer{i}/matmul"),
                  helper.make_node("Add", [f"m{i}", f"bias{i}"], [f"a{i}"], name=f"layer{i}/add"),
                  helper.make_node("Relu", [f"a{i}"], [f"r{i}"], name=f"layer{i}/relu")]
        last = f"r{i}"
    nodes.append(helper.make_node("Softmax", [last], ["output"], name="softmax"))
    graph = helper.make_graph(
        nodes, "perceptron", [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", width])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", width])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def main():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    runtime = onnxruntime.InferenceSession(model_bytes(), options, providers=["CPUExecutionProvider"])
    batch = numpy.ones((16, 256), numpy.float32)

    session = ProfileSession()
    hooks = instrument(runtime, ops=True)
    runtime.run(None, {"input": batch})  # warm-up: before the first capture nothing is recorded
    with session.start_capture("inference"):
        for _ in range(50):
            runtime.run(None, {"input": batch})
    hooks.remove()  # ONNX Runtime tells its operators now
    print(session.summary_text())
    if len(sys.argv) > 1:
        session.save(sys.argv[1])
        print(f"written to {sys.argv[1]}: open chrome_trace.json in ui.perfetto.dev")
    session.close()


if __name__ == "__main__":
    main()
