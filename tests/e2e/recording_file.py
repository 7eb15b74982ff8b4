# SPDX-License-Identifier: Apache-2.0
"""Writes recordings, from docs/recording-format.md alone: an independent look at the format, and recordings with
known contents for tests that need no root.
"""
import os
import struct
import zlib

SPAN, INSTANT, COUNTER, ASYNC_BEGIN, ASYNC_END, FLOW_OUT, FLOW_STEP, FLOW_IN = 1, 2, 3, 5, 6, 7, 8, 9
REQUEST_BEGIN, REQUEST_FIRST, REQUEST_OUTPUT, REQUEST_END, ALLOC, FREE = 10, 11, 12, 13, 14, 15
OPEN = 1
MASK = {SPAN: 1, COUNTER: 4, ALLOC: 2 | 4 | 8, FREE: 2 | 8, REQUEST_OUTPUT: 2 | 4}
ID_KINDS = (ASYNC_BEGIN, ASYNC_END, FLOW_OUT, FLOW_STEP, FLOW_IN, REQUEST_BEGIN, REQUEST_FIRST, REQUEST_END)
NOBODY = 0xffffffff


def varint(v):
    out = bytearray()
    while v > 127:
        out.append(v & 127 | 128)
        v >>= 7
    out.append(v)
    return bytes(out)


def svarint(v):
    return varint((v << 1 ^ v >> 63) & 0xffffffffffffffff)


def text(s):
    if s is None:
        return b"\0"
    b = s if isinstance(s, bytes) else s.encode()
    return varint(len(b) + 1) + b


def item(kind, payload):
    return varint(kind) + varint(len(payload)) + payload


class Recording:
    """One recording. Times are CLOCK_BOOTTIME nanoseconds; processes and threads are indexes."""

    def __init__(self, host="test", boot="11111111-1111-1111-1111-111111111111", created=0):
        self.meta = dict(host=host, boot=boot, created=created)
        self.strings = {}
        self.items = []
        self.threads = []
        self.n_processes = 0
        self.events = {}  # (thread, stream) -> list
        self.ends = []
        self.count = 0

    def id(self, s):
        if s is None:
            return 0
        return self.strings.setdefault(s, len(self.strings) + 1)

    def process(self, pid, comm="srv", start=1000, ended=0, label=None, exe=None):
        n = self.n_processes
        self.n_processes += 1
        self.items.append(item(2, b"".join(map(varint, (n, pid, 1, pid, 0, start, 0, start, ended))) + svarint(0) +
                               b"".join(map(text, (comm, exe, None, None, None, label)))))
        return n

    def thread(self, process, tid, name="main", start=1000):
        n = len(self.threads)
        self.threads.append(process)
        self.items.append(item(3, b"".join(map(varint, (n, process, tid, tid, start, 0))) + text(name)))
        return n

    def event(self, thread, kind, ts, name=None, cat=None, dur=0, id=0, value=0, device=0, args=(), flags=0, stream=0):
        self.events.setdefault((thread, stream), []).append(
            (ts, kind, flags, self.id(name), self.id(cat), dur, id, value, device,
             tuple((self.id(k), v) for k, v in args)))

    def span(self, thread, ts, dur, name, cat=None, **kw):
        self.event(thread, SPAN, ts, name, cat, dur=dur, **kw)

    def request(self, thread, ts, latency, name, id):
        self.event(thread, REQUEST_BEGIN, ts, name, id=id)
        self.event(thread, REQUEST_END, ts + latency, name, id=id)

    def capture(self, begin, end, tag="default"):
        self.count += 1
        self.items.append(item(7, varint(self.count) + varint(0) + varint(begin) + varint(end) + text(tag)))

    def anchor(self, boottime, realtime):
        self.items.append(item(8, b"".join(map(varint, (boottime, boottime, boottime, realtime, boottime)))))

    def loss(self, cause, records, process=None):
        self.items.append(item(5, varint(0 if process is None else process + 1) + svarint(-1) + varint(cause) +
                               varint(records) + varint(0) + text(None)))

    def counts(self, emitted, recorded, lost, filtered=0):
        self.items.append(item(6, b"".join(map(varint, (emitted, recorded, lost, filtered)))))

    def warning(self, code, words):
        self.items.append(item(9, text(code) + text(words)))

    def _value(self, v):
        if isinstance(v, float):
            return 3 << 2 | 1, struct.pack("<d", v)
        if isinstance(v, int):
            return 1 << 2 | 0, svarint(v)
        b = v.encode()
        return 4 << 2 | 2, varint(len(b)) + b

    def _body(self, events):
        shapes, out, order, last_ts, last_id = {}, bytearray(), [], events[0][0], 0
        for ts, kind, flags, name, cat, dur, ident, value, device, args in events:
            mask = MASK.get(kind, 2 if kind in ID_KINDS else 0)
            if kind == SPAN and flags & OPEN:
                mask = 2
            shape = (kind, flags, mask, name, cat, tuple((k, self._value(v)[0]) for k, v in args))
            if shape not in shapes:
                shapes[shape] = len(order)
                order.append(shape)
            out += varint(shapes[shape]) + varint(ts - last_ts)
            last_ts = ts
            if mask & 1:
                out += varint(dur)
            if mask & 2:
                out += svarint(ident - last_id)
                last_id = ident
            if mask & 4:
                out += svarint(value) if kind == COUNTER else varint(value)
            if mask & 8:
                out += varint(device)
            for _, v in args:
                out += self._value(v)[1]
        head = bytearray(varint(len(order)))
        for kind, flags, mask, name, cat, args in order:
            b = b"".join(map(varint, (kind, flags, mask, name, cat, 0, 0, len(args))))
            b += b"".join(varint(k) + varint(t) for k, t in args)
            head += varint(len(b)) + b
        return bytes(head + out)

    def _segment(self, recording_id, number, index, data):
        head = b"\x93clkseg\n" + struct.pack("<QQIIQIHH", recording_id, number, 64, len(index), len(data),
                                             zlib.crc32(index), 1, 0) + bytes(12)
        seg = head + struct.pack("<I", zlib.crc32(head)) + index + data
        return seg + bytes(-len(seg) % 8)

    def write(self, path, complete=True):
        m = self.meta
        meta = item(4, b"".join(map(text, ("clika-bpf-prof", "0.1.0", "record", m["host"], "6.1.0", "x86_64", m["boot"],
                                          "test"))) + varint(4) + varint(4096) + varint(1 << 33) + varint(m["created"]))
        data, blocks = bytearray(), bytearray()
        for (thread, stream), events in sorted(self.events.items()):
            events.sort(key=lambda e: (e[0], e[1] != SPAN, -e[5]))
            for at in range(0, len(events), 1000):
                part = events[at:at + 1000]
                body = self._body(part)
                first, last = part[0][0], part[-1][0]
                end = max(e[0] + e[5] for e in part)
                blocks += item(10, b"".join(map(varint, (thread, stream, len(part), first, last - first, end - first,
                                                         len(data), len(body)))) + struct.pack("<I", zlib.crc32(body)))
                data += body
        names, before = bytearray(), 0
        for s, i in sorted(self.strings.items(), key=lambda p: p[1]):
            b = s.encode()
            names += svarint(i - before) + varint(len(b)) + b
            before = i
        index = item(1, bytes(names)) + b"".join(self.items) + bytes(blocks)
        recording_id = int.from_bytes(os.urandom(8), "little")
        head = b"\x89CLIKA\r\n" + struct.pack("<HHIQQQI", 1, 0, 64, recording_id, 2 if complete else 0, 0,
                                             0 if complete else 1)
        with open(path, "wb") as f:
            f.write(head + struct.pack("<I", zlib.crc32(head)) + bytes(16))
            f.write(self._segment(recording_id, 0, meta, b""))
            f.write(self._segment(recording_id, 1, index, bytes(data)))
        return path
