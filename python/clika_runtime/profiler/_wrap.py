# SPDX-License-Identifier: Apache-2.0
"""span() as a decorator."""
import functools
import inspect
import sys

from .._core import profiler as _native


def decorate(span, function):
    """A function that runs inside a span of its own each time it is called."""
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(decorate(span, function.__func__))
    if not callable(function):
        raise TypeError(f"a span decorates functions, not {type(function).__name__}")
    if inspect.iscoroutinefunction(function):
        return _coroutine(span, function)
    if inspect.isasyncgenfunction(function):
        return _async_generator(span, function)
    if inspect.isgeneratorfunction(function):
        return _generator(span, function)
    return _plain(span, function)


def _plain(span, function):
    begin, end = _native._begin, _native._end

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        token = begin(span)
        if not token:
            return function(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        finally:
            end(token)

    return wrapper


# What may be suspended does not nest on its thread: others run there meanwhile.


def _coroutine(span, function):
    begin, end = _native._begin_async, _native._end_async

    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        number = begin(span)
        try:
            return await function(*args, **kwargs)
        finally:
            end(span, number)

    return wrapper


def _generator(span, function):
    begin, end = _native._begin_async, _native._end_async

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        number = begin(span)
        try:
            return (yield from function(*args, **kwargs))
        finally:
            end(span, number)

    return wrapper


def _async_generator(span, function):
    begin, end = _native._begin_async, _native._end_async

    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        number = begin(span)
        inner = function(*args, **kwargs)
        try:
            try:
                value = await inner.__anext__()
                while True:
                    try:
                        sent = yield value
                    except GeneratorExit:
                        raise
                    except BaseException as e:
                        value = await inner.athrow(e)
                    else:
                        value = await inner.asend(sent)
            except StopAsyncIteration:
                return
        finally:
            try:
                await inner.aclose()
            finally:
                end(span, number)

    return wrapper


def thread_name():
    """The name that `threading` knows the calling thread by; None: it knows none."""
    threading = sys.modules.get("threading")
    if threading is None:
        return None
    me = threading.get_ident()
    # The main thread is named after the program, as every tool shows it.
    for t in threading.enumerate():
        if t.ident == me:
            return None if t is threading.main_thread() else t.name
    return None
