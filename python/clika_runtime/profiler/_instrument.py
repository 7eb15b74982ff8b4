# SPDX-License-Identifier: Apache-2.0
"""Spans around what a model does, without touching its code."""
import sys
from typing import Any, Optional

from ._onnxruntime import OnnxRuntimeInstrumentation
from ._torch import TorchInstrumentation


class Instrumentation:
    """What instrument() put in place. remove() takes it out again, and so does the end of a `with` block."""

    def __init__(self, hooks: Any) -> None:
        self._hooks = hooks

    def remove(self) -> None:
        """Take the hooks out. Again without effect."""
        hooks, self._hooks = self._hooks, None
        if hooks is not None:
            hooks.remove()

    def __enter__(self) -> "Instrumentation":
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def instrument(model: Any, *, depth: Optional[int] = None, ops: bool = False) -> Instrumentation:
    """Mark what a model does, each time it runs: spans while somebody records, a check otherwise.

    torch.nn.Module: a span for each submodule's forward(), named after its place and class
        ("encoder.layer.0.attention (BertAttention)"), with the shape of its input. depth: how many
        levels below the model; None = all.
    onnxruntime.InferenceSession: a span for each run(), with the shapes of its inputs. ops=True: also
        one for each operator that ran, on a track "onnxruntime operators". ONNX Runtime tells them all
        at once: they are in results from remove() on. The session is created anew for that, with its
        profiler on, unless it was created so.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return Instrumentation(TorchInstrumentation(model, depth))
    onnxruntime = sys.modules.get("onnxruntime")
    if onnxruntime is not None and isinstance(model, onnxruntime.InferenceSession):
        return Instrumentation(OnnxRuntimeInstrumentation(model, ops))
    raise TypeError("instrument() takes a torch.nn.Module or an onnxruntime.InferenceSession, not "
                    f"{type(model).__module__}.{type(model).__qualname__}")
