#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes clika_runtime/profiler/empty/: what each exporter makes of a recording that holds nothing.

    python/tools/empty_results.py build/clika-bpf-prof [FOLDER]

The same tool writes the same bytes. A test fails while the folder has anything else.
"""
import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(os.path.dirname(HERE), "clika_runtime")
FOLDER = os.path.join(PACKAGE, "profiler", "empty")


def version():
    with open(os.path.join(PACKAGE, "_version.py")) as f:
        return re.search(r'^version = "(.*)"$', f.read(), re.M)[1]


def text(s):
    raw = s.encode()
    assert len(raw) < 126
    return bytes([len(raw) + 1]) + raw


def recording():
    """A complete recording of nothing, as docs/recording-format.md says."""
    ident = 1
    meta = text("clika-bpf-prof") + text(version()) + bytes(6) + bytes(4)
    index = bytes([4, len(meta)]) + meta
    head = struct.pack("<8sHHIQQQI", b"\x89CLIKA\r\n", 1, 0, 64, ident, 1, 0, 0)
    head += struct.pack("<I", zlib.crc32(head)) + bytes(16)
    seg = struct.pack("<8sQQIIQIHH12x", b"\x93clkseg\n", ident, 0, 64, len(index), 0, zlib.crc32(index), 1, 0)
    seg += struct.pack("<I", zlib.crc32(seg)) + index
    return head + seg + bytes(-len(seg) % 8)


def formats(tool):
    said = subprocess.run([tool, "export", "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^[ *] (\w+) +\S+\.\S+ ", said.split("\nFormats:\n")[1], re.M)


def write(tool, folder):
    os.makedirs(folder, exist_ok=True)
    for name in set(os.listdir(folder)) - set(formats(tool)):
        os.unlink(os.path.join(folder, name))
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "recording.clika")
        with open(path, "wb") as f:
            f.write(recording())
        for fmt in formats(tool):
            subprocess.run([tool, "export", "-q", path, "--format", fmt, "-o", os.path.join(folder, fmt)], check=True)
            os.chmod(os.path.join(folder, fmt), 0o644)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    write(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else FOLDER)
