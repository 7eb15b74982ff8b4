// SPDX-License-Identifier: Apache-2.0
/* What can go wrong, as Python exceptions. */
#include "core.h"

#include <errno.h>
#include <string.h>

static PyObject *profiler_error, *unavailable, *lost, *timed_out, *not_permitted, *warning;

struct row {
	const char *name, *doc;
	PyObject **type;
	PyObject **also; /* a builtin that it is as well */
};

#define PREFIX "clika_runtime.profiler."

static const struct row rows[] = {
	{ PREFIX "LoaderUnavailableError",
	  "There is no loader service, and this process may not load BPF programs itself. The text "
	  "names\nwhat is missing and the one command that mends it.",
	  &unavailable, &PyExc_ConnectionError },
	{ PREFIX "LoaderLostError",
	  "The loader has gone (ended, killed) or speaks another protocol. The session is over; "
	  "what "
	  "was\nsaved before, `saved` names it, is kept.",
	  &lost, &PyExc_ConnectionError },
	{ PREFIX "LoaderTimeoutError",
	  "The loader did not answer in time. The session is given up, so that the process is not "
	  "held "
	  "up\nagain; what was saved before is kept.",
	  &timed_out, &PyExc_TimeoutError },
	{ PREFIX "NotPermittedError",
	  "This process or user may not do that: profile a process of another user, record the "
	  "whole\n"
	  "machine, or use a session that belongs to the process this one was forked from.",
	  &not_permitted, &PyExc_PermissionError },
};

/* Defaults in the class: exceptions that Python code raises have the attributes too. */
static PyObject *defaults(void)
{
	PyObject *dict = PyDict_New(), *none = PyTuple_New(0);

	if (dict && none && !PyDict_SetItemString(dict, "code", Py_None) &&
	    !PyDict_SetItemString(dict, "saved", none)) {
		Py_DECREF(none);
		return dict;
	}
	Py_XDECREF(dict);
	Py_XDECREF(none);
	return NULL;
}

static int add(PyObject *module, const char *full, PyObject *type)
{
	const char *name = strrchr(full, '.') + 1;

	/* The module takes a reference of its own; the variable keeps the first. */
	return type ? PyObject_SetAttrString(module, name, type) : -1;
}

int errors__add(PyObject *module)
{
	PyObject *dict = defaults();

	if (!dict)
		return -1;
	profiler_error = PyErr_NewExceptionWithDoc(PREFIX "ProfilerError",
						   "Profiling could not do what was asked. `code` "
						   "is the errno number or None, `saved` the\n"
						   "paths that this session had written before. "
						   "The work that is profiled is unharmed.",
						   PyExc_RuntimeError, dict);
	Py_DECREF(dict);
	if (add(module, PREFIX "ProfilerError", profiler_error))
		return -1;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		PyObject *bases = PyTuple_Pack(2, profiler_error, *rows[i].also);

		if (!bases)
			return -1;
		*rows[i].type = PyErr_NewExceptionWithDoc(rows[i].name, rows[i].doc, bases, NULL);
		Py_DECREF(bases);
		if (add(module, rows[i].name, *rows[i].type))
			return -1;
	}
	warning = PyErr_NewExceptionWithDoc(PREFIX "ProfilerWarning",
					    "Something about profiling went wrong where an "
					    "exception would harm the work that is\n"
					    "profiled: at the end of a `with` block, or when a "
					    "capture was left to the collector.",
					    PyExc_RuntimeWarning, NULL);
	return add(module, PREFIX "ProfilerWarning", warning);
}

static PyObject *type_of(int code)
{
	switch (-code) {
	case ECONNREFUSED:
	case ENOENT:
	case EACCES:
		return unavailable;
	case EPIPE:
	case EBADMSG:
	case ECONNRESET:
		return lost;
	case ETIMEDOUT:
		return timed_out;
	case EPERM:
		return not_permitted;
	default:
		return profiler_error;
	}
}

PyObject *errors__raise_text(int code, const char *text)
{
	PyObject *e = NULL, *number = NULL, *message, *type;

	/* A loader may answer with any number. */
	if (code >= 0 || code < -4095)
		code = -EBADMSG;
	/* What interrupted the call is the exception already. */
	if (code == -ECANCELED && PyErr_Occurred())
		return NULL;
	type = type_of(code);
	if (code == -ENOMEM)
		return PyErr_NoMemory();
	/* Texts hold names of foreign files. */
	message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
	if (message)
		e = PyObject_CallFunctionObjArgs(type, message, NULL);
	if (e)
		number = PyLong_FromLong(-code);
	if (number && !PyObject_SetAttrString(e, "code", number))
		PyErr_SetObject(type, e);
	Py_XDECREF(number);
	Py_XDECREF(e);
	Py_XDECREF(message);
	return NULL;
}

PyObject *errors__raise(const struct clika_client_error *err)
{
	return errors__raise_text(err->code, err->msg);
}

int errors__warn(const char *what, const struct clika_client_error *err)
{
	return PyErr_WarnFormat(warning, 1, "%s: %s", what, err->msg);
}
