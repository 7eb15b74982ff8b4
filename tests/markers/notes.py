#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the notes of a file with batched markers: notes.py FILE [stripped]

One object, one semaphore, one probe site; the site is a 1-byte nop (arm64: nop) and the
semaphore lies in writable file-backed data and is 0. Unless stripped, the stapsdt note agrees.
"""
import struct
import sys


class Elf:
    def __init__(self, path):
        self.data = data = open(path, "rb").read()
        assert data[:6] == b"\x7fELF\x02\x01", "not a 64-bit little-endian ELF file"
        (self.machine,) = struct.unpack_from("<H", data, 18)
        phoff, shoff = struct.unpack_from("<QQ", data, 32)
        phentsize, phnum, shentsize, shnum, shstrndx = struct.unpack_from("<HHHHH", data, 54)
        self.segments = [struct.unpack_from("<IIQQQQQQ", data, phoff + i * phentsize)
                         for i in range(phnum)]
        raw = [struct.unpack_from("<IIQQQQ", data, shoff + i * shentsize) for i in range(shnum)]
        self.sections = {}
        for name, kind, flags, addr, offset, size in raw:
            start = raw[shstrndx][4] + name
            text = data[start:data.index(b"\0", start)].decode()
            self.sections.setdefault(text, []).append((kind, flags, addr, offset, size))

    def offset(self, vaddr, writable=False):
        for kind, flags, offset, start, _, filesz, _, _ in self.segments:
            if kind == 1 and start <= vaddr < start + filesz:
                assert not writable or flags & 2, "not in a writable segment"
                return vaddr - start + offset
        raise AssertionError("0x%x is in no loaded file bytes" % vaddr)

    @staticmethod
    def notes(data, at, size, align):
        end = at + size
        while at + 12 <= end:
            namesz, descsz, kind = struct.unpack_from("<III", data, at)
            name = data[at + 12:at + 12 + namesz].rstrip(b"\0").decode()
            desc = (at + 12 + namesz + align - 1) // align * align
            yield name, kind, desc, descsz
            at = (desc + descsz + align - 1) // align * align


def main(path, stripped):
    elf = Elf(path)
    found = set()
    for kind, _, offset, vaddr, _, filesz, _, align in elf.segments:
        if kind != 4:
            continue
        for name, ntype, desc, size in elf.notes(elf.data, offset, filesz, max(align, 4)):
            if name != "clika":
                continue
            assert ntype == 1 and size == 16, "note of another form"
            abi, *rel = struct.unpack_from("<Iiii", elf.data, desc)
            assert abi == 1
            at = desc - offset + vaddr
            found.add(tuple(at + 4 * (i + 1) + rel[i] for i in range(3)))
    assert len(found) == 1, "%d different clika notes in segments" % len(found)
    obj, semaphore, probe = found.pop()
    magic, abi, size = struct.unpack_from("<QII", elf.data, elf.offset(obj, True))
    assert (magic, abi, size) == (0x4A424F4B494C4331, 1, 2144)
    assert elf.data[elf.offset(semaphore, True):][:2] == b"\0\0", "semaphore is not 0"
    code = elf.data[elf.offset(probe):][:8]
    if elf.machine == 62:
        assert code[:2] == b"\x90\xc3", code
    else:
        assert code == bytes.fromhex("1f2003d5c0035fd6"), code
    if stripped:
        return
    base = elf.sections[".stapsdt.base"][0][2]
    probes = set()
    for _, flags, _, offset, size in elf.sections[".note.stapsdt"]:
        assert flags & 2 == 0, "allocated stapsdt note"
        for name, ntype, desc, descsz in elf.notes(elf.data, offset, size, 4):
            assert name == "stapsdt" and ntype == 3
            addr = struct.unpack_from("<QQQ", elf.data, desc)
            strings = elf.data[desc + 24:desc + descsz].split(b"\0")
            if strings[:2] == [b"clika", b"batch"]:
                probes.add(addr + (strings[2].decode(),))
    recipe = "8@%rdi 8@%rsi 8@%rdx" if elf.machine == 62 else "8@x0 8@x1 8@x2"
    assert probes == {(probe, base, semaphore, recipe)}, probes


if __name__ == "__main__":
    try:
        main(sys.argv[1], "stripped" in sys.argv[2:])
    except (AssertionError, KeyError) as e:
        sys.exit("%s: %r" % (sys.argv[1], e))
