// SPDX-License-Identifier: Apache-2.0
/*
 * span(): a context manager and decorator. A span object holds its name and arguments; what it has
 * begun is told apart by thread or task, so that one object may serve several at once.
 *
 * While nobody records, creating, entering and leaving one touches no marker but the check.
 */
#include "mark.h"

#include <stdlib.h>
#include <string.h>

struct open_span {
	uint64_t what;   /* token of a thread's span, id of an async span */
	const void *key; /* address of the thread's mark, or its task */
	PyObject *task;  /* weak reference to it, NULL = none */
	bool async;
};

struct span {
	PyObject_HEAD PyObject *name, *keys; /* keys: tuple of str, or NULL */
	PyObject *values[CLIKA_MAX_ARGS];
	uint32_t n, n_open;
	struct open_span last; /* the newest; older ones lie in @more */
	struct open_span *more;
};

static PyTypeObject *span_type, *ready_type;
static PyObject *decorate, *running_loop, *current_task, *asyncio_name;
static __thread char thread_mark;
static uint64_t last_id;

/* --- asyncio ------------------------------------------------------------------------------------ */

/* The functions, once somebody has imported asyncio. */
static bool find_asyncio(void)
{
	PyObject *module;

	if (running_loop)
		return true;
	module = PyImport_GetModule(asyncio_name);
	if (module) {
		PyObject *task = PyObject_GetAttrString(module, "current_task");
		PyObject *loop = PyObject_GetAttrString(module, "_get_running_loop");

		if (task && loop) {
			current_task = task;
			running_loop = loop;
		} else {
			Py_XDECREF(task);
			Py_XDECREF(loop);
		}
		Py_DECREF(module);
	}
	PyErr_Clear();
	return running_loop != NULL;
}

/* The task that runs on this thread; NULL = none. Only its address is used. */
static const void *this_task(void)
{
	PyObject *loop, *task = NULL;

	if (!find_asyncio())
		return NULL;
	loop = PyObject_CallObject(running_loop, NULL);
	if (loop && loop != Py_None)
		task = PyObject_CallFunctionObjArgs(current_task, loop, NULL);
	PyErr_Clear();
	Py_XDECREF(loop);
	/* Whoever is running it holds it. */
	Py_XDECREF(task);
	return task == Py_None ? NULL : task;
}

/* --- begin and end ------------------------------------------------------------------------------- */

static uint64_t begin_on_thread(struct span *s)
{
	struct mark_args a;
	const struct text *name;
	uint64_t token = 0;

	mark__thread();
	mark__args(&a, s->keys, s->values, s->n);
	name = text__of(s->name);
	if (name)
		token = record__span_begin(name->utf8, name->len, a.n, a.arg);
	mark__args_done(&a);
	PyErr_Clear();
	return token;
}

static uint64_t begin_async(struct span *s)
{
	uint64_t id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);

	mark__thread();
	mark__with_id(CLIKA_REC_ASYNC_BEGIN, s->name, id, s->keys, s->values, s->n);
	return id;
}

static void end_async(struct span *s, uint64_t id)
{
	mark__with_id(CLIKA_REC_ASYNC_END, s->name, id, NULL, NULL, 0);
}

static void push(struct span *s, uint64_t what, const void *key, bool async)
{
	if (s->n_open) {
		struct open_span *more = PyMem_Realloc(s->more, s->n_open * sizeof(*more));

		if (!more)
			return; /* the span stays open until an outer one ends */
		more[s->n_open - 1] = s->last;
		s->more = more;
	}
	s->last = (struct open_span){ what, key, NULL, async };
	s->n_open++;
	/* So that another task can end what an ended one has left, see pop(). */
	if (async && key)
		s->last.task = PyWeakref_NewRef((PyObject *)(uintptr_t)key, NULL);
	PyErr_Clear();
}

static bool task_ended(PyObject *ref)
{
	PyObject *task = PyObject_CallObject(ref, NULL), *done = NULL;
	bool ended = task == Py_None;

	if (task && !ended) {
		done = PyObject_CallMethod(task, "done", NULL);
		ended = done && PyObject_IsTrue(done) == 1;
	}
	Py_XDECREF(done);
	Py_XDECREF(task);
	PyErr_Clear();
	return ended;
}

static struct open_span *open_at(struct span *s, uint32_t i)
{
	return i == s->n_open ? &s->last : &s->more[i - 1];
}

/*
 * What was begun in a task that has ended, and is ended in another: an asynchronous generator that
 * the event loop closes, an exit stack that is passed on. Its place, 0 = there is none.
 */
static uint32_t find_orphan(struct span *s)
{
	for (uint32_t i = s->n_open; i; i--) {
		PyObject *ref = open_at(s, i)->task;
		bool ended, same;

		if (!ref)
			continue;
		Py_INCREF(ref);
		ended = task_ended(ref);
		/* What was asked is Python code, which may have ended or begun spans. */
		same = i <= s->n_open && open_at(s, i)->task == ref;
		Py_DECREF(ref);
		if (!same)
			return 0;
		if (ended)
			return i;
	}
	return 0;
}

/* What this thread or task began last; false = nothing. */
static bool pop(struct span *s, struct open_span *out)
{
	const void *task = NULL;
	bool known = false;
	uint32_t i;

	for (i = s->n_open; i; i--) {
		const struct open_span *o = open_at(s, i);

		if (o->async && !known) {
			task = this_task();
			known = true;
		}
		if (o->key == (o->async ? task : (const void *)&thread_mark))
			break;
	}
	if (!i && known)
		i = find_orphan(s);
	if (!i)
		return false;
	if (i == s->n_open) {
		*out = s->last;
	} else {
		*out = s->more[i - 1];
		memmove(&s->more[i - 1], &s->more[i], (s->n_open - 1 - i) * sizeof(*s->more));
		s->more[s->n_open - 2] = s->last;
	}
	s->n_open--;
	if (s->n_open)
		s->last = s->more[s->n_open - 1];
	Py_CLEAR(out->task);
	return true;
}

static void enter_now(struct span *s, bool async)
{
	const void *task = this_task();

	if (task || async) {
		push(s, begin_async(s), task, true);
	} else {
		uint64_t token = begin_on_thread(s);

		if (token)
			push(s, token, &thread_mark, false);
	}
}

static void leave_now(struct span *s)
{
	struct open_span o;

	if (!pop(s, &o))
		return;
	if (o.async)
		end_async(s, o.what);
	else
		record__span_end(o.what);
}

static PyObject *enter(PyObject *self, PyObject *none)
{
	(void)none;
	if (record__enabled())
		enter_now((struct span *)self, false);
	Py_INCREF(self);
	return self;
}

static PyObject *leave(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	(void)args;
	(void)n;
	if (((struct span *)self)->n_open)
		leave_now((struct span *)self);
	Py_RETURN_NONE;
}

/* --- async with: what is awaited is ready ---------------------------------------------------------- */

struct ready {
	PyObject_HEAD PyObject *value;
};

static PyObject *ready__new(PyObject *value)
{
	struct ready *r = PyObject_New(struct ready, ready_type);

	if (r) {
		Py_INCREF(value);
		r->value = value;
	}
	return (PyObject *)r;
}

static PyObject *ready__self(PyObject *self)
{
	Py_INCREF(self);
	return self;
}

static PyObject *ready__next(PyObject *self)
{
	PyObject *e = PyObject_CallFunctionObjArgs(PyExc_StopIteration,
						   ((struct ready *)self)->value, NULL);

	if (e)
		PyErr_SetObject(PyExc_StopIteration, e);
	Py_XDECREF(e);
	return NULL;
}

static void ready__dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	Py_DECREF(((struct ready *)self)->value);
	PyObject_Free(self);
	Py_DECREF((PyObject *)type);
}

static PyType_Slot ready_slots[] = {
	{ Py_tp_dealloc, SLOT(ready__dealloc) },
	{ Py_am_await, SLOT(ready__self) },
	{ Py_tp_iter, SLOT(ready__self) },
	{ Py_tp_iternext, SLOT(ready__next) },
	{ 0, NULL },
};

static PyType_Spec ready_spec = {
	.name = "clika_runtime._core.profiler._Ready",
	.basicsize = sizeof(struct ready),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = ready_slots,
};

static PyObject *async_enter(PyObject *self, PyObject *none)
{
	(void)none;
	if (record__enabled())
		enter_now((struct span *)self, true);
	return ready__new(self);
}

static PyObject *async_leave(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	leave(self, args, n);
	return ready__new(Py_None);
}

/* --- as a decorator ----------------------------------------------------------------------------------- */

static PyObject *call(PyObject *self, PyObject *args, PyObject *kw)
{
	if (PyTuple_Size(args) != 1 || (kw && PyDict_Size(kw)) || !decorate) {
		PyErr_SetString(PyExc_TypeError, "a span as a decorator takes one function");
		return NULL;
	}
	return PyObject_CallFunctionObjArgs(decorate, self, PyTuple_GetItem(args, 0), NULL);
}

static struct span *as_span(PyObject *o)
{
	if (Py_TYPE(o) == span_type)
		return (struct span *)o;
	PyErr_SetString(PyExc_TypeError, "not a span");
	return NULL;
}

static PyObject *end_last(PyObject *module, PyObject *token)
{
	unsigned long long v = PyLong_AsUnsignedLongLong(token);

	(void)module;
	if (PyErr_Occurred())
		return NULL;
	return PyBool_FromLong(!v || record__span_end_last(v));
}

/* For the wrappers of functions: what begun it is kept in their frames. */
static PyObject *begin_token(PyObject *module, PyObject *o)
{
	struct span *s = as_span(o);

	(void)module;
	if (!s)
		return NULL;
	return PyLong_FromUnsignedLongLong(record__enabled() ? begin_on_thread(s) : 0);
}

static PyObject *end_token(PyObject *module, PyObject *token)
{
	unsigned long long v = PyLong_AsUnsignedLongLong(token);

	(void)module;
	if (PyErr_Occurred())
		return NULL;
	if (v)
		record__span_end(v);
	Py_RETURN_NONE;
}

static PyObject *begin_id(PyObject *module, PyObject *o)
{
	struct span *s = as_span(o);

	(void)module;
	if (!s)
		return NULL;
	return PyLong_FromUnsignedLongLong(record__enabled() ? begin_async(s) : 0);
}

static PyObject *end_id(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
	struct span *s = n == 2 ? as_span(args[0]) : NULL;
	unsigned long long id = s ? PyLong_AsUnsignedLongLong(args[1]) : 0;

	(void)module;
	if (PyErr_Occurred())
		return NULL;
	if (s && id)
		end_async(s, id);
	Py_RETURN_NONE;
}

static PyObject *set_decorator(PyObject *module, PyObject *fn)
{
	(void)module;
	Py_INCREF(fn);
	Py_XDECREF(decorate);
	decorate = fn;
	Py_RETURN_NONE;
}

/* --- the object ------------------------------------------------------------------------------------------ */

/* Spans come and go by the million: some dead ones are kept. */
#define SPARE 64
static struct span *spare[SPARE];
static unsigned n_spare;

static struct span *span__alloc(void)
{
	struct span *s;

	if (!n_spare)
		return PyObject_New(struct span, span_type);
	s = spare[--n_spare];
	return (struct span *)PyObject_Init((PyObject *)s, span_type);
}

static PyObject *span__new(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *keys)
{
	Py_ssize_t n_keys = keys ? PyTuple_Size(keys) : 0;
	struct span *s;

	(void)module;
	if (n != 1 || !PyUnicode_Check(args[0])) {
		PyErr_SetString(
			PyExc_TypeError,
			"span(name, **args): name is a str and the only positional argument");
		return NULL;
	}
	if (n_keys > (Py_ssize_t)CLIKA_MAX_ARGS) {
		PyErr_SetString(PyExc_TypeError, "a span takes at most 8 arguments");
		return NULL;
	}
	s = span__alloc();
	if (!s)
		return NULL;
	Py_INCREF(args[0]);
	s->name = args[0];
	s->n = (uint32_t)n_keys;
	s->n_open = 0;
	s->more = NULL;
	s->keys = n_keys ? keys : NULL;
	Py_XINCREF(s->keys);
	for (Py_ssize_t i = 0; i < n_keys; i++) {
		s->values[i] = args[1 + i];
		Py_INCREF(s->values[i]);
	}
	return (PyObject *)s;
}

static void span__dealloc(PyObject *self)
{
	struct span *s = (struct span *)self;
	PyTypeObject *type = Py_TYPE(self);

	Py_DECREF(s->name);
	Py_XDECREF(s->keys);
	for (uint32_t i = 0; i < s->n; i++)
		Py_DECREF(s->values[i]);
	for (uint32_t i = s->n_open; i; i--)
		Py_XDECREF(open_at(s, i)->task);
	PyMem_Free(s->more);
	if (n_spare < SPARE)
		spare[n_spare++] = s;
	else
		PyObject_Free(self);
	Py_DECREF((PyObject *)type);
}

static PyObject *span__repr(PyObject *self)
{
	return PyUnicode_FromFormat("span(%R)", ((struct span *)self)->name);
}

static PyObject *get_name(PyObject *self, void *unused)
{
	PyObject *name = ((struct span *)self)->name;

	(void)unused;
	Py_INCREF(name);
	return name;
}

static PyGetSetDef attributes[] = {
	{ "name", get_name, NULL, "Name of the span.", NULL },
	{ 0 },
};

static PyMethodDef methods[] = {
	{ "__enter__", enter, METH_NOARGS, "__enter__($self, /)\n--\n\nBegin the span." },
	{ "__exit__", FAST(leave), METH_FASTCALL,
	  "__exit__($self, exc_type, exc, traceback, /)\n--\n\nEnd the span." },
	{ "__aenter__", async_enter, METH_NOARGS,
	  "__aenter__($self, /)\n--\n\nBegin an async span." },
	{ "__aexit__", FAST(async_leave), METH_FASTCALL,
	  "__aexit__($self, exc_type, exc, traceback, /)\n--\n\nEnd the async span." },
	{ 0 },
};

static PyObject *no_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	(void)type;
	(void)args;
	(void)kw;
	PyErr_SetString(PyExc_TypeError, "spans are made by span()");
	return NULL;
}

static PyType_Slot slots[] = {
	{ Py_tp_doc, "What span() gives: a context manager, and a decorator for functions." },
	{ Py_tp_new, SLOT(no_new) },
	{ Py_tp_dealloc, SLOT(span__dealloc) },
	{ Py_tp_repr, SLOT(span__repr) },
	{ Py_tp_call, SLOT(call) },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, attributes },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "clika_runtime._core.profiler.Span",
	.basicsize = sizeof(struct span),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

PyDoc_STRVAR(span_doc,
	     "span($module, name, /, **args)\n--\n\n"
	     "Mark a stretch of work; costs a fraction of a microsecond while nobody records.\n\n"
	     "    with span(\"decode\", batch=8):\n"
	     "        ...\n\n"
	     "    @span(\"tokenize\")\n"
	     "    def tokenize(text): ...\n\n"
	     "Also for coroutines (`async with`, `async def`) and generators. In an asyncio task, "
	     "and around\n"
	     "what may be suspended, the span is an async span on a lane of its own; elsewhere it "
	     "nests on\n"
	     "its thread. args, at most 8, are shown with the span: int, float, bool or str; "
	     "anything else as\n"
	     "str() gives it, and only while somebody records. Names are cut at 255 bytes.");

static PyMethodDef functions[] = {
	{ "span", FAST(span__new), METH_FASTCALL | METH_KEYWORDS, span_doc },
	{ "_begin", begin_token, METH_O,
	  "_begin(span, /)\n--\n\nToken of a thread's span, 0 = not begun." },
	{ "_end", end_token, METH_O, "_end(token, /)\n--\n\nEnds it." },
	{ "_end_last", end_last, METH_O,
	  "_end_last(token, /)\n--\n\nEnds it unless others are open inside; False: they are." },
	{ "_begin_async", begin_id, METH_O,
	  "_begin_async(span, /)\n--\n\nId of an async span, 0 = not begun." },
	{ "_end_async", FAST(end_id), METH_FASTCALL, "_end_async(span, id, /)\n--\n\nEnds it." },
	{ "_set_decorator", set_decorator, METH_O,
	  "_set_decorator(function, /)\n--\n\nWhat wraps functions." },
	{ 0 },
};

int span__add(PyObject *module)
{
	asyncio_name = PyUnicode_InternFromString("asyncio");
	ready_type = (PyTypeObject *)PyType_FromSpec(&ready_spec);
	span_type = (PyTypeObject *)PyType_FromSpec(&spec);
	if (!asyncio_name || !ready_type || !span_type)
		return -1;
	if (PyObject_SetAttrString(module, "Span", (PyObject *)span_type))
		return -1;
	if (PyModule_AddFunctions(module, functions))
		return -1;
	return mark__add(module);
}
