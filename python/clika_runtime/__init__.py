# SPDX-License-Identifier: Apache-2.0
"""clika_runtime: profile inference from Python. See clika_runtime.profiler."""

from . import profiler
from ._version import version as __version__

__all__ = ["profiler", "__version__"]
