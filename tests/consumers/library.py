# SPDX-License-Identifier: Apache-2.0
"""Calls of the public C library that the command line has no option for, or has later."""
import ctypes
import os

import lib


class ExportOpts(ctypes.Structure):
    """struct clika_export_opts of clika/prof.h."""
    _fields_ = [("sz", ctypes.c_size_t), ("owner", ctypes.c_uint32), ("group", ctypes.c_uint32),
                ("columns", ctypes.c_uint), ("top", ctypes.c_uint), ("step_name", ctypes.c_char_p)]


class PushOpts(ctypes.Structure):
    """struct clika_push_opts."""
    _fields_ = [("sz", ctypes.c_size_t), ("url", ctypes.c_char_p), ("headers", ctypes.POINTER(ctypes.c_char_p)),
                ("n_headers", ctypes.c_size_t), ("timeout_ms", ctypes.c_uint), ("tries", ctypes.c_uint),
                ("backoff_ms", ctypes.c_uint), ("max_wait_ms", ctypes.c_uint)]


class PushResult(ctypes.Structure):
    """struct clika_push_result."""
    _fields_ = [("sz", ctypes.c_size_t), ("requests", ctypes.c_uint64), ("spans", ctypes.c_uint64),
                ("rejected", ctypes.c_uint64), ("retries", ctypes.c_uint64), ("message", ctypes.c_char * 256)]


class Recording:
    def __init__(self, path):
        self.lib = ctypes.CDLL(lib.LIBRARY)
        self.lib.clika_recording__close.restype = None
        self.lib.clika_export_opts__init.restype = None
        self.err, self.handle = lib.ProfError(), ctypes.c_void_p()
        self.check(self.lib.clika_recording__open(os.fsencode(path), None, ctypes.byref(self.handle),
                                                  ctypes.byref(self.err)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lib.clika_recording__close(self.handle)

    def check(self, code):
        if code < 0:
            raise AssertionError(self.err.msg.decode(errors="replace"))

    def export(self, formats, path, step_name=None):
        opts = ExportOpts(sz=ctypes.sizeof(ExportOpts), owner=0xffffffff, group=0xffffffff,
                          step_name=step_name and step_name.encode())
        self.check(self.lib.clika_recording__export(self.handle, formats.encode(), None, os.fsencode(path),
                                                    ctypes.byref(opts), ctypes.byref(self.err)))

    def push(self, url):
        opts = PushOpts(sz=ctypes.sizeof(PushOpts), url=url.encode(), backoff_ms=100)
        result = PushResult(sz=ctypes.sizeof(PushResult))
        self.check(self.lib.clika_recording__push_otlp(self.handle, ctypes.byref(opts), ctypes.byref(result),
                                                       ctypes.byref(self.err)))
        return result
