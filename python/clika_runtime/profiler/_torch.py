# SPDX-License-Identifier: Apache-2.0
"""Hooks on the submodules of a torch.nn.Module."""
import threading

from .._core import profiler as _native

_is_recording = _native.is_recording


class TorchInstrumentation:
    def __init__(self, model, depth):
        self._open = threading.local()
        self._handles = []
        seen = set()
        for path, module in model.named_modules():
            # A module that is used in two places is one, with the first name.
            if id(module) in seen or (depth is not None and path.count(".") + bool(path) > depth):
                continue
            seen.add(id(module))
            kind = type(module).__name__
            name = f"{path} ({kind})" if path else kind
            self._handles.append(module.register_forward_pre_hook(self._before(name)))
            self._handles.append(module.register_forward_hook(self._after(name)))

    def _before(self, name):
        span, begin, local = _native.span, _native._begin, self._open

        def hook(module, inputs):
            if not _is_recording():
                return
            shape = _shape(inputs)
            token = begin(span(name, input=shape) if shape else span(name))
            try:
                local.stack.append((module, token))
            except AttributeError:
                local.stack = [(module, token)]

        return hook

    def _after(self, name):
        end, local = _native._end, self._open

        def hook(module, inputs, output):
            stack = getattr(local, "stack", None)
            if not stack:
                return
            # A forward() that raised has left its span open: the end of this one closes it too.
            for i in range(len(stack) - 1, -1, -1):
                if stack[i][0] is module:
                    token = stack[i][1]
                    del stack[i:]
                    end(token)
                    return

        return hook

    def remove(self):
        for handle in self._handles:
            handle.remove()
        self._handles = []


def _shape(inputs):
    """Of the first tensor, "2x16x384"."""
    for value in inputs:
        shape = getattr(value, "shape", None)
        if shape is not None:
            return "x".join(map(str, shape))
    return None
