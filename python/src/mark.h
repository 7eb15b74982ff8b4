/* SPDX-License-Identifier: Apache-2.0 */
/* Markers from Python values. None of these leaves an exception: a marker harms no work. */
#ifndef CLIKA_PYTHON_MARK_H
#define CLIKA_PYTHON_MARK_H

#include "record.h"
#include "text.h"

struct mark_args {
	struct record_arg arg[CLIKA_MAX_ARGS];
	PyObject *held[2 * CLIKA_MAX_ARGS]; /* what their text lies in */
	uint32_t n, n_held;
};

/* @keys: tuple of str, may be NULL when @n is 0. */
void mark__args(struct mark_args *a, PyObject *keys, PyObject *const *values, uint32_t n);
void mark__args_done(struct mark_args *a);
/* A record with one id and arguments. */
void mark__with_id(uint32_t kind, PyObject *name, uint64_t id, PyObject *keys,
		   PyObject *const *values, uint32_t n);
/* Gives this thread the name that Python knows it by, once. */
void mark__thread(void);
int mark__add(PyObject *module);

#endif
