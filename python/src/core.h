/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The native half of clika_runtime: sessions over libclika-client, and markers. Limited API of
 * CPython 3.9, so one build serves every later version; what that API took in only later and has
 * always had the same layout is declared here.
 */
#ifndef CLIKA_PYTHON_CORE_H
#define CLIKA_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

#include <clika/client.h>

/* Part of the stable ABI since 3.10, unchanged since 3.7. */
#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif
#define FAST(fn) ((PyCFunction)(void (*)(void))(fn))
#define SLOT(fn) ((void *)(uintptr_t)(fn))

/* Each adds to the module what it has; 0 or -1 with an exception. */
int errors__add(PyObject *module);
int session__add(PyObject *module);
int scope__add(PyObject *module);
int span__add(PyObject *module);

/* Raises what fits the code; always NULL. */
PyObject *errors__raise(const struct clika_client_error *err);
PyObject *errors__raise_text(int code, const char *text);
/* As a ProfilerWarning; -1 when warnings are errors. */
int errors__warn(const char *what, const struct clika_client_error *err);

/* UTF-8 of a str, NUL-free, at most 255 bytes: for tags and paths any length. New reference. */
PyObject *text__utf8(PyObject *str);

/* A capture of @session that has begun, as a CaptureScope. */
PyObject *scope__new(PyObject *session, PyObject *tag, int64_t id);
/* Ends a capture with the GIL released; 0, or a negative errno and @err. A session that was closed, or
 * belongs to another process, has ended its captures: 0. */
int session__end_capture(PyObject *session, int64_t id, struct clika_client_error *err);
/* Nothing of it is left to end: closed, another process', or the interpreter is going. */
bool session__is_over(PyObject *session);

#endif
