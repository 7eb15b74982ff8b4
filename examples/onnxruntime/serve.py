# SPDX-License-Identifier: Apache-2.0
"""A small HTTP server that runs a model with ONNX Runtime, and nothing about profiling in it.

    pip install onnxruntime onnx
    python serve.py [PORT]

POST an image of 224 x 224 RGB bytes (or nothing: a grey one) to get the number of the likeliest class.
"""
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy
import onnx
import onnxruntime

# SqueezeNet, a small network for images that the onnx package brings along, with made-up weights.
MODEL = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light", "light_squeezenet.onnx")
SIZE = 3 * 224 * 224

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])
name = session.get_inputs()[0].name


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        image = numpy.frombuffer(body, numpy.uint8) if len(body) == SIZE else numpy.full(SIZE, 128, numpy.uint8)
        scores = session.run(None, {name: image.reshape(1, 3, 224, 224).astype(numpy.float32) / 255})[0]
        answer = json.dumps({"class": int(scores.argmax())}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


server = HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8080), Handler)
print(f"pid {os.getpid()}, serving on port {server.server_port}", flush=True)
server.serve_forever()
