# SPDX-License-Identifier: Apache-2.0
"""Windows of steps: wait, warm up, capture, over again."""
import warnings

from .._core.profiler import ProfilerWarning


class Schedule:
    def __init__(self, session, wait, warmup, active, repeat, tag, on_window):
        for name, value, least in (("wait", wait, 0), ("warmup", warmup, 0), ("active", active, 1),
                                   ("repeat", repeat, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be an int of at least {least}, not {value!r}")
        self._session = session
        self._wait, self._warmup, self._active, self._repeat = wait, warmup, active, repeat
        self._tag, self._on_window = tag, on_window
        self._step = 0
        self._scope = None
        self.windows = 0

    @property
    def done(self):
        """All windows have been captured."""
        return bool(self._repeat) and self.windows >= self._repeat

    def tag_of(self, number):
        return f"{self._tag} {number}"

    def enter(self):
        """What the present step needs. Attaching is done while warming up, or in the last step before."""
        if self.done:
            return
        place = self._step % (self._wait + self._warmup + self._active)
        if place >= self._wait + self._warmup:
            if self._scope is None:
                self._scope = self._session.start_capture(self.tag_of(self.windows))
        elif place >= self._wait and not self._session.started:
            self._session._attach()

    def step(self):
        self._step += 1
        if self._scope is not None and self._step % (self._wait + self._warmup + self._active) == 0:
            self._end_window()
        self.enter()

    def _end_window(self):
        scope, self._scope = self._scope, None
        scope.stop()
        number = self.windows
        self.windows += 1
        if self._on_window is not None:
            self._on_window(self._session, number)

    def close(self):
        scope, self._scope = self._scope, None
        if scope is not None and scope.active:
            # What the unfinished window holds can still be saved by whoever closes later.
            scope.__exit__(None, None, None)
        if not self.windows:
            warnings.warn(
                f"the session ends before the first window of its schedule was complete: {self._step} of "
                f"{self._wait + self._warmup + self._active} steps were told by step()",
                ProfilerWarning, stacklevel=4)
