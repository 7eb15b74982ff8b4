// SPDX-License-Identifier: Apache-2.0
#include "mark.h"

#include <string.h>

static PyObject *thread_namer;

/* --- Python values as arguments -------------------------------------------------------------------- */

static uint64_t bits(double v)
{
	uint64_t u;

	memcpy(&u, &v, sizeof(u));
	return u;
}

/* The UTF-8 of @str, held; an empty text when there is no memory. */
static const char *held_text(struct mark_args *a, PyObject *str, uint16_t *len)
{
	PyObject *bytes = str ? text__utf8(str) : NULL;
	Py_ssize_t n;

	if (!bytes) {
		PyErr_Clear();
		*len = 0;
		return "";
	}
	a->held[a->n_held++] = bytes;
	n = PyBytes_Size(bytes);
	*len = (uint16_t)(n < TEXT_MAX ? n : TEXT_MAX);
	return PyBytes_AsString(bytes);
}

static void put_text(struct mark_args *a, struct record_arg *to, PyObject *str)
{
	to->type = CLIKA_ARG_STR;
	to->value = (uint64_t)(uintptr_t)held_text(a, str, &to->len);
}

/* Any object, as it shows itself. Its __str__ may do anything, fail for instance. */
static void put_object(struct mark_args *a, struct record_arg *to, PyObject *value)
{
	PyObject *str = PyObject_Str(value);

	if (!str) {
		PyErr_Clear();
		str = PyObject_Str((PyObject *)Py_TYPE(value));
	}
	put_text(a, to, str);
	PyErr_Clear();
	Py_XDECREF(str);
}

static void put_int(struct mark_args *a, struct record_arg *to, PyObject *value)
{
	int overflow;
	long long v = PyLong_AsLongLongAndOverflow(value, &overflow);

	to->type = CLIKA_ARG_I64;
	to->value = (uint64_t)v;
	if (overflow > 0) {
		to->type = CLIKA_ARG_U64;
		to->value = PyLong_AsUnsignedLongLong(value);
	}
	if (overflow < 0 || PyErr_Occurred()) {
		PyErr_Clear();
		put_object(a, to, value);
	}
}

void mark__args(struct mark_args *a, PyObject *keys, PyObject *const *values, uint32_t n)
{
	a->n = a->n_held = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct record_arg *to = &a->arg[a->n++];
		PyObject *v = values[i];

		to->key = held_text(a, PyTuple_GetItem(keys, i), &to->key_len);
		to->len = 8;
		if (PyFloat_Check(v)) {
			to->type = CLIKA_ARG_F64;
			to->value = bits(PyFloat_AsDouble(v));
		} else if (PyLong_Check(v)) {
			put_int(a, to, v);
		} else if (PyUnicode_Check(v)) {
			put_text(a, to, v);
		} else {
			put_object(a, to, v);
		}
	}
}

void mark__args_done(struct mark_args *a)
{
	while (a->n_held)
		Py_DECREF(a->held[--a->n_held]);
}

/* --- records ------------------------------------------------------------------------------------------ */

static void emit(struct record *r, PyObject *name, PyObject *keys, PyObject *const *values,
		 uint32_t n)
{
	const struct text *text;
	struct mark_args a;

	mark__args(&a, keys, values, n);
	text = name ? text__of(name) : NULL;
	if (text || !name) {
		r->name = text ? text->utf8 : NULL;
		r->name_len = text ? text->len : 0;
		r->args = a.arg;
		r->nargs = a.n;
		record__emit(r);
		r->args = NULL;
	}
	mark__args_done(&a);
	PyErr_Clear();
}

void mark__with_id(uint32_t kind, PyObject *name, uint64_t id, PyObject *keys,
		   PyObject *const *values, uint32_t n)
{
	struct record r = { .kind = kind, .fixed = 1, .words = { id } };

	emit(&r, name, keys, values, n);
}

void mark__thread(void)
{
	static __thread bool told;
	const struct text *text;
	PyObject *name;

	if (told || !thread_namer)
		return;
	told = true;
	name = PyObject_CallObject(thread_namer, NULL);
	if (name && PyUnicode_Check(name)) {
		text = text__of(name);
		if (text)
			record__thread_name(text->utf8);
	}
	Py_XDECREF(name);
	PyErr_Clear();
}

/* --- functions: a name, numbers, arguments --------------------------------------------------------------- */

#define MAX_PARAMS 4

struct function {
	const char *name, *usage;
	const char
		*params[MAX_PARAMS]; /* those after the ones that must be there may be keywords */
	Py_ssize_t need;
};

/* Sorts positional and keyword arguments into @out; missing ones are NULL. */
static int take(const struct function *f, PyObject *const *args, Py_ssize_t n, PyObject *keys,
		PyObject **out)
{
	Py_ssize_t n_keys = keys ? PyTuple_Size(keys) : 0, most = 0, i, k;

	while (most < MAX_PARAMS && f->params[most])
		most++;
	for (i = 0; i < most; i++)
		out[i] = i < n ? args[i] : NULL;
	for (k = 0; k < n_keys && n <= most; k++) {
		for (i = 0; i < most; i++)
			if (!PyUnicode_CompareWithASCIIString(PyTuple_GetItem(keys, k),
							      f->params[i]))
				break;
		if (i == most || out[i])
			break;
		out[i] = args[n + k];
	}
	for (i = 0; i < f->need && out[i]; i++)
		;
	if (n <= most && k == n_keys && i == f->need)
		return 0;
	PyErr_Format(PyExc_TypeError, "usage: %s", f->usage);
	return -1;
}

static int need_str(PyObject *name, const char *what)
{
	if (!name || PyUnicode_Check(name))
		return 0;
	PyErr_Format(PyExc_TypeError, "%s: name must be str", what);
	return -1;
}

/* Modulo 2^64, as an address or an id: 0 when it is no integer. */
static uint64_t word(PyObject *v)
{
	uint64_t w = v && PyLong_Check(v) ? PyLong_AsUnsignedLongLongMask(v) : 0;

	if (PyErr_Occurred())
		PyErr_Clear();
	return w;
}

static PyObject *instant(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *keys)
{
	Py_ssize_t n_keys = keys ? PyTuple_Size(keys) : 0;
	struct record r = { .kind = CLIKA_REC_INSTANT };

	(void)module;
	if (n != 1 || !PyUnicode_Check(args[0]) || n_keys > (Py_ssize_t)CLIKA_MAX_ARGS) {
		PyErr_SetString(PyExc_TypeError,
				"instant(name, **args): name is a str, and at most 8 arguments");
		return NULL;
	}
	if (record__enabled()) {
		mark__thread();
		emit(&r, args[0], keys, args + 1, (uint32_t)n_keys);
	}
	Py_RETURN_NONE;
}

static PyObject *counter(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *keys)
{
	static const struct function f = {
		"counter", "counter(name, value)", { "name", "value" }, 2
	};
	struct record r = { .kind = CLIKA_REC_COUNTER_F64, .fixed = 1 };
	PyObject *in[MAX_PARAMS];
	int overflow = 1;

	(void)module;
	if (take(&f, args, n, keys, in) || need_str(in[0], f.name))
		return NULL;
	if (!record__enabled())
		Py_RETURN_NONE;
	mark__thread();
	if (PyLong_Check(in[1]))
		r.words[0] = (uint64_t)PyLong_AsLongLongAndOverflow(in[1], &overflow);
	if (!overflow) {
		r.kind = CLIKA_REC_COUNTER_I64;
	} else {
		double v = PyFloat_AsDouble(in[1]);

		if (PyErr_Occurred()) {
			PyErr_Clear();
			Py_RETURN_NONE;
		}
		r.words[0] = bits(v);
	}
	emit(&r, in[0], NULL, NULL, 0);
	Py_RETURN_NONE;
}

static PyObject *take_memory(const struct function *f, uint32_t kind, PyObject *const *args,
			     Py_ssize_t n, PyObject *keys)
{
	struct record r = { .kind = kind, .fixed = 3 };
	PyObject *in[MAX_PARAMS];

	if (take(f, args, n, keys, in) || need_str(in[3], f->name))
		return NULL;
	if (!record__enabled())
		Py_RETURN_NONE;
	mark__thread();
	r.words[0] = word(in[0]);
	r.words[1] = word(in[1]);
	r.words[2] = (uint32_t)word(in[2]);
	/* What the name of such a record says is its pool. */
	emit(&r, in[3], NULL, NULL, 0);
	Py_RETURN_NONE;
}

static PyObject *give_memory(const struct function *f, uint32_t kind, PyObject *const *args,
			     Py_ssize_t n, PyObject *keys)
{
	struct record r = { .kind = kind, .fixed = 2 };
	PyObject *in[MAX_PARAMS];

	if (take(f, args, n, keys, in))
		return NULL;
	if (!record__enabled())
		Py_RETURN_NONE;
	mark__thread();
	r.words[0] = word(in[0]);
	r.words[1] = (uint32_t)word(in[1]);
	emit(&r, NULL, NULL, NULL, 0);
	Py_RETURN_NONE;
}

#define MEMORY(fn, how, kind, usage, ...)                                                          \
	static PyObject *fn(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *keys) \
	{                                                                                          \
		static const struct function f = { #fn, #fn usage, __VA_ARGS__ };                  \
                                                                                                   \
		(void)module;                                                                      \
		return how(&f, kind, args, n, keys);                                               \
	}
#define TAKES { "address", "size", "device", "pool" }, 2
#define GIVES { "address", "device" }, 1
MEMORY(memory_alloc, take_memory, CLIKA_REC_ALLOC, "(address, size, device=0, pool='')", TAKES)
MEMORY(memory_free, give_memory, CLIKA_REC_FREE, "(address, device=0)", GIVES)
MEMORY(memory_reserve, take_memory, CLIKA_REC_RESERVE, "(address, size, device=0, pool='')", TAKES)
MEMORY(memory_release, give_memory, CLIKA_REC_RELEASE, "(address, device=0)", GIVES)

static PyObject *flow(uint32_t kind, PyObject *const *args, Py_ssize_t n, PyObject *keys)
{
	static const struct function f = { "flow", "flow_...(name, id)", { "name", "id" }, 2 };
	PyObject *in[MAX_PARAMS];

	if (take(&f, args, n, keys, in) || need_str(in[0], f.name))
		return NULL;
	if (record__enabled()) {
		mark__thread();
		mark__with_id(kind, in[0], word(in[1]), NULL, NULL, 0);
	}
	Py_RETURN_NONE;
}

static PyObject *flow_out(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *keys)
{
	(void)module;
	return flow(CLIKA_REC_FLOW_OUT, args, n, keys);
}

static PyObject *flow_step(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *keys)
{
	(void)module;
	return flow(CLIKA_REC_FLOW_STEP, args, n, keys);
}

static PyObject *flow_in(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *keys)
{
	(void)module;
	return flow(CLIKA_REC_FLOW_IN, args, n, keys);
}

static PyObject *is_recording(PyObject *module, PyObject *none)
{
	(void)module;
	(void)none;
	return PyBool_FromLong(record__enabled());
}

/* A span that has ended: for hooks that learn of work afterwards. */
static PyObject *told_span(PyObject *module, PyObject *args)
{
	unsigned long long begin, end;
	const struct text *text;
	PyObject *name;

	(void)module;
	if (!PyArg_ParseTuple(args, "UKK", &name, &begin, &end))
		return NULL;
	if (!record__enabled())
		Py_RETURN_NONE;
	mark__thread();
	text = text__of(name);
	if (text)
		record__span(text->utf8, text->len, begin, end);
	if (PyErr_Occurred())
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *set_thread_namer(PyObject *module, PyObject *fn)
{
	(void)module;
	Py_INCREF(fn);
	Py_XDECREF(thread_namer);
	thread_namer = fn;
	Py_RETURN_NONE;
}

#define FLAGS (METH_FASTCALL | METH_KEYWORDS)
static PyMethodDef functions[] = {
	{ "instant", FAST(instant), FLAGS,
	  "instant($module, name, /, **args)\n--\n\nMark a moment. args as in span()." },
	{ "counter", FAST(counter), FLAGS,
	  "counter($module, name, value)\n--\n\nThe value of a counter from now on: int or "
	  "float." },
	{ "memory_alloc", FAST(memory_alloc), FLAGS,
	  "memory_alloc($module, address, size, device=0, pool='')\n--\n\n"
	  "size bytes at address are in use from now on. device 0 is the host." },
	{ "memory_free", FAST(memory_free), FLAGS,
	  "memory_free($module, address, device=0)\n--\n\nThe block at address is free." },
	{ "memory_reserve", FAST(memory_reserve), FLAGS,
	  "memory_reserve($module, address, size, device=0, pool='')\n--\n\n"
	  "A caching pool took size bytes at address from the device." },
	{ "memory_release", FAST(memory_release), FLAGS,
	  "memory_release($module, address, device=0)\n--\n\nA caching pool gave a block back." },
	{ "flow_out", FAST(flow_out), FLAGS,
	  "flow_out($module, name, id)\n--\n\nWork is sent: what receives (name, id) is caused "
	  "here." },
	{ "flow_step", FAST(flow_step), FLAGS,
	  "flow_step($module, name, id)\n--\n\nThe work passes through here." },
	{ "flow_in", FAST(flow_in), FLAGS,
	  "flow_in($module, name, id)\n--\n\nThe work is received: mark it inside the span that "
	  "does it." },
	{ "is_recording", is_recording, METH_NOARGS,
	  "is_recording($module, /)\n--\n\nTrue while somebody records this process." },
	{ "_told_span", told_span, METH_VARARGS,
	  "_told_span(name, begin, end, /)\n--\n\nCLOCK_BOOTTIME ns." },
	{ "_set_thread_namer", set_thread_namer, METH_O, "_set_thread_namer(function, /)\n--\n\n" },
	{ 0 },
};

int mark__add(PyObject *module)
{
	return PyModule_AddFunctions(module, functions);
}
