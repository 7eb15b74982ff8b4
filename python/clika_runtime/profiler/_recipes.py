# SPDX-License-Identifier: Apache-2.0
"""Options about recipes, as they are given by keyword or in the environment."""
import math
import os

from .._core.profiler import ProfilerError

_OFF, _DEFAULT = -1.0, 0.0  # budget of struct clika_client_opts


def names(value):
    if value is None:
        return None
    if isinstance(value, (str, bytes, os.PathLike)):
        raise ValueError("recipes is a list of names")
    return tuple(os.fsdecode(name) for name in value)


def budget(value):
    """The share that the loader is told; None stays None."""
    if value is None:
        return None
    if isinstance(value, str):
        return _budget_text(value)
    if isinstance(value, bool) or not value > 0 or 1 < value < math.inf:
        raise ValueError("budget is a share of CPU time above 0, at most 1 (0.05 is 5 %), or \"off\" for no limit, "
                         f"not {value!r}")
    return _OFF if value == math.inf else float(value)


def _budget_text(text):
    if text == "off":
        return _OFF
    try:
        share = float(text[:-1]) / 100 if text.endswith("%") else 0
    except ValueError:
        share = 0
    if not 0 < share <= 1:
        raise ValueError(f"budget is a percentage like \"5%\", or \"off\" for no limit, not {text!r}")
    return share


def _flag(text):
    if text not in ("0", "1"):
        raise ValueError(f"it is 1 or 0, not {text!r}")
    return text == "1"


def _list(text):
    return tuple(name.strip() for name in text.split(",") if name.strip())


_VARIABLES = (
    ("no_auto", "CLIKA_PROF_NO_AUTO", _flag, False),
    ("recipes", "CLIKA_PROF_RECIPES", _list, ()),
    ("budget", "CLIKA_PROF_BUDGET", _budget_text, _DEFAULT),
)


def with_environment(options):
    """@options, complete: what was not given by keyword comes from the environment."""
    out = dict(options)
    for key, variable, read, default in _VARIABLES:
        if out[key] is not None:
            continue
        text = os.environ.get(variable, "")
        try:
            out[key] = read(text) if text else default
        except ValueError as e:
            raise ProfilerError(f"{variable}: {e}") from None
    return out
