#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which layers of a PyTorch model take the time. The model's code is not touched.

    python pytorch.py [FOLDER]
"""
import sys

import torch

from clika_runtime.profiler import ProfileSession, instrument, span


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm = torch.nn.LayerNorm(width)
        self.feed_forward = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))

    def forward(self, x):
        x = self.norm(x + self.attention(x, x, x, need_weights=False)[0])
        return x + self.feed_forward(x)


def main():
    torch.manual_seed(1)
    model = torch.nn.Sequential(Block(64), Block(64), torch.nn.Linear(64, 10)).eval()
    batches = [torch.randn(8, 32, 64) for _ in range(10)]

    session = ProfileSession()
    with torch.no_grad(), instrument(model):
        model(batches[0])  # warm-up: before the first capture nothing is recorded
        with session.start_capture("inference"):
            for i, batch in enumerate(batches):
                with span("batch", number=i):
                    model(batch)
    print(session.summary_text())
    if len(sys.argv) > 1:
        session.save(sys.argv[1])
        print(f"written to {sys.argv[1]}: open chrome_trace.json in ui.perfetto.dev")
    session.close()


if __name__ == "__main__":
    main()
