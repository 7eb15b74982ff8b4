# SPDX-License-Identifier: Apache-2.0
"""Hooks on the submodules of a torch.nn.Module."""
import sys
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
            caller = sys._getframe(1)
            try:
                stack = local.stack
            except AttributeError:
                stack = local.stack = []
            # Entered before and still there: by recursion, or left behind by a forward() that raised, and
            # nothing around it has ended it.
            for i, (other, _, frame) in enumerate(stack):
                if other is module and not _runs(frame, caller):
                    _drop(stack, i)
                    break
            shape = _shape(inputs)
            stack.append((module, begin(span(name, input=shape) if shape else span(name)), id(caller)))

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
        # Nothing else will end what is open on this thread.
        _drop(getattr(self._open, "stack", []), 0)


def _drop(stack, first):
    """Ends what nothing will end, but for what has spans of others open inside: that waits for another time."""
    for i in range(len(stack) - 1, first - 1, -1):
        if _native._end_last(stack[i][1]):
            del stack[i]


def _runs(frame, caller):
    """Is the frame with this id one of those that called the caller?"""
    f = caller.f_back
    while f is not None:
        if id(f) == frame:
            return True
        f = f.f_back
    return False


def _shape(inputs):
    """Of the first tensor, "2x16x384"."""
    for value in inputs:
        shape = getattr(value, "shape", None)
        if shape is not None:
            return "x".join(map(str, shape))
    return None
