// SPDX-License-Identifier: Apache-2.0
#include "text.h"

#include <string.h>

#define SLOTS 512

static struct text *cache[SLOTS];

PyObject *text__utf8(PyObject *str)
{
	/* A lone surrogate is no reason to refuse a name. */
	return PyUnicode_AsEncodedString(str, "utf-8", "replace");
}

static struct text *fill(struct text *t, PyObject *str)
{
	PyObject *bytes = text__utf8(str);
	const char *p;
	Py_ssize_t len;

	if (!bytes)
		return NULL;
	p = PyBytes_AsString(bytes);
	len = PyBytes_Size(bytes);
	if (len > TEXT_MAX) {
		len = TEXT_MAX;
		while (len && ((uint8_t)p[len] & 0xc0) == 0x80)
			len--;
	}
	memcpy(t->utf8, p, (size_t)len);
	for (char *z = t->utf8; (z = memchr(z, 0, (size_t)(t->utf8 + len - z)));)
		*z = '?';
	t->utf8[len] = 0;
	t->len = (uint16_t)len;
	Py_DECREF(bytes);
	Py_INCREF(str);
	t->str = str;
	return t;
}

const struct text *text__of(PyObject *str)
{
	size_t slot = ((uintptr_t)str >> 4 ^ (uintptr_t)str >> 13) % SLOTS;
	struct text *t = cache[slot];
	PyObject *old;

	if (t && t->str == str)
		return t;
	if (!t) {
		t = cache[slot] = PyMem_Malloc(sizeof(*t));
		if (!t) {
			PyErr_NoMemory();
			return NULL;
		}
		t->str = NULL;
	}
	old = t->str;
	t->str = NULL;
	t = fill(t, str);
	/* A subclass of str may run code of its own when it goes: last. */
	Py_XDECREF(old);
	return t;
}
