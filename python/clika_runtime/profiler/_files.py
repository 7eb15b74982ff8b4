# SPDX-License-Identifier: Apache-2.0
"""Output files: written beside their names, by this process' rights, and renamed when complete."""
import os

_tries = 100


class Outputs:
    """Open files under temporary names. commit() gives them theirs; without it they vanish."""

    def __init__(self, paths):
        self._pending = []
        try:
            for path in paths:
                self._pending.append(self._create(os.fspath(path)))
        except BaseException:
            self.discard()
            raise

    @staticmethod
    def _create(path):
        folder, name = os.path.split(path)
        if not name:
            raise IsADirectoryError(21, "a file name is needed", path)
        if isinstance(path, bytes):
            path, folder, name = os.fsdecode(path), os.fsdecode(folder), os.fsdecode(name)
        for _ in range(_tries):
            beside = os.path.join(folder, f".{name[:200]}.{os.urandom(6).hex()}")
            try:
                # The mode that the umask leaves, as for any file that this program makes.
                fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            except FileExistsError:
                continue
            return fd, beside, path
        raise FileExistsError(17, "no free temporary name", path)

    @property
    def descriptors(self):
        return tuple(fd for fd, _, _ in self._pending)

    def commit(self):
        try:
            while self._pending:
                fd, beside, path = self._pending[0]
                os.close(fd)
                self._pending[0] = (-1, beside, path)
                os.replace(beside, path)
                del self._pending[0]
        finally:
            self.discard()

    def discard(self):
        for fd, beside, _ in self._pending:
            if fd >= 0:
                os.close(fd)
            try:
                os.unlink(beside)
            except OSError:
                pass
        self._pending = []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.discard()
