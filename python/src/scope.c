// SPDX-License-Identifier: Apache-2.0
/* CaptureScope: ends the capture that start_capture() began. */
#include "core.h"

struct scope {
	PyObject_HEAD PyObject *session, *tag;
	int64_t id; /* 0 = ended */
};

static PyTypeObject *scope_type;

PyObject *scope__new(PyObject *session, PyObject *tag, int64_t id)
{
	struct scope *s = PyObject_GC_New(struct scope, scope_type);

	if (!s)
		return NULL;
	Py_INCREF(session);
	Py_INCREF(tag);
	s->session = session;
	s->tag = tag;
	s->id = id;
	PyObject_GC_Track(s);
	return (PyObject *)s;
}

static bool is_open(const struct scope *s)
{
	return s->id && s->session && !session__is_over(s->session);
}

/* 0 also when it had ended before: the flag is cleared under the GIL, so one thread ends it. */
static int scope__end(struct scope *s, struct clika_client_error *err)
{
	int64_t id = s->id;

	s->id = 0;
	return id && s->session ? session__end_capture(s->session, id, err) : 0;
}

PyDoc_STRVAR(
	stop_doc,
	"stop($self, /)\n--\n\n"
	"End the capture; on any thread, and again without effect.\n\n"
	"What was marked before the call belongs to the capture. Work that the capture caused and\n"
	"that still runs belongs to it too: see ProfileSession.\n\n"
	"Raises LoaderLostError or LoaderTimeoutError when the loader has gone or does not "
	"answer.");

static PyObject *stop(PyObject *self, PyObject *none)
{
	struct clika_client_error err = { 0 };

	(void)none;
	if (scope__end((struct scope *)self, &err))
		return errors__raise(&err);
	Py_RETURN_NONE;
}

PyDoc_STRVAR(enter_doc, "__enter__($self, /)\n--\n\nReturn the scope; the capture runs already.");

static PyObject *enter(PyObject *self, PyObject *none)
{
	(void)none;
	Py_INCREF(self);
	return self;
}

PyDoc_STRVAR(
	exit_doc,
	"__exit__($self, exc_type, exc, traceback, /)\n--\n\n"
	"End the capture. Never hides an exception of the block, and raises none of its own: when\n"
	"the loader has gone that is a ProfilerWarning.");

static PyObject *leave(PyObject *self, PyObject *args)
{
	struct clika_client_error err = { 0 };

	(void)args;
	if (scope__end((struct scope *)self, &err) &&
	    errors__warn("the end of a capture could not be told", &err))
		return NULL;
	Py_RETURN_NONE;
}

/* @source: the scope, if it may be referred to. */
static void scope__left_open(struct scope *s, PyObject *source)
{
	struct clika_client_error err = { 0 };
	PyObject *type, *value, *traceback;

	if (!is_open(s))
		return;
	PyErr_Fetch(&type, &value, &traceback);
	if (PyErr_ResourceWarning(source, 1,
				  "capture %R was left open and ends only now: use it in a `with` "
				  "block, or call its stop()",
				  s->tag))
		PyErr_WriteUnraisable(s->tag);
	scope__end(s, &err);
	PyErr_Restore(type, value, traceback);
}

/* The collector calls it before it breaks a cycle, while the session is still there. */
static void scope__finalize(PyObject *self)
{
	scope__left_open((struct scope *)self, self);
}

static int scope__traverse(PyObject *self, visitproc visit, void *arg)
{
	struct scope *s = (struct scope *)self;

	Py_VISIT((PyObject *)Py_TYPE(self));
	Py_VISIT(s->session);
	Py_VISIT(s->tag);
	return 0;
}

static int scope__clear(PyObject *self)
{
	struct scope *s = (struct scope *)self;

	Py_CLEAR(s->session);
	Py_CLEAR(s->tag);
	return 0;
}

static void scope__dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	PyObject_GC_UnTrack(self);
	scope__left_open((struct scope *)self, NULL);
	scope__clear(self);
	PyObject_GC_Del(self);
	Py_DECREF((PyObject *)type);
}

static PyObject *scope__repr(PyObject *self)
{
	struct scope *s = (struct scope *)self;

	return PyUnicode_FromFormat("<CaptureScope %R, %s>", s->tag ? s->tag : Py_None,
				    is_open(s) ? "open" : "ended");
}

static PyObject *get_tag(PyObject *self, void *unused)
{
	PyObject *tag = ((struct scope *)self)->tag;

	(void)unused;
	tag = tag ? tag : Py_None;
	Py_INCREF(tag);
	return tag;
}

static PyObject *get_session(PyObject *self, void *unused)
{
	PyObject *session = ((struct scope *)self)->session;

	(void)unused;
	session = session ? session : Py_None;
	Py_INCREF(session);
	return session;
}

static PyObject *get_active(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(is_open((struct scope *)self));
}

static PyGetSetDef attributes[] = {
	{ "tag", get_tag, NULL, "Name of the capture.", NULL },
	{ "session", get_session, NULL, "The ProfileSession that it belongs to.", NULL },
	{ "active", get_active, NULL, "True until the capture is ended.", NULL },
	{ 0 },
};

static PyMethodDef methods[] = {
	{ "stop", stop, METH_NOARGS, stop_doc },
	{ "__enter__", enter, METH_NOARGS, enter_doc },
	{ "__exit__", leave, METH_VARARGS, exit_doc },
	{ 0 },
};

static PyObject *no_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	(void)type;
	(void)args;
	(void)kw;
	PyErr_SetString(PyExc_TypeError,
			"a CaptureScope comes from ProfileSession.start_capture()");
	return NULL;
}

static PyType_Slot slots[] = {
	{ Py_tp_doc,
	  "A capture that has begun. It ends at the end of a `with` block, by stop(), or, with a\n"
	  "ResourceWarning, when the last reference to it goes. Made by "
	  "ProfileSession.start_capture()." },
	/* Without one of its own it would inherit object's. */
	{ Py_tp_new, SLOT(no_new) },
	{ Py_tp_dealloc, SLOT(scope__dealloc) },
	{ Py_tp_finalize, SLOT(scope__finalize) },
	{ Py_tp_traverse, SLOT(scope__traverse) },
	{ Py_tp_clear, SLOT(scope__clear) },
	{ Py_tp_repr, SLOT(scope__repr) },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, attributes },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "clika_runtime._core.profiler.CaptureScope",
	.basicsize = sizeof(struct scope),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
	.slots = slots,
};

int scope__add(PyObject *module)
{
	scope_type = (PyTypeObject *)PyType_FromSpec(&spec);
	if (!scope_type)
		return -1;
	return PyObject_SetAttrString(module, "CaptureScope", (PyObject *)scope_type);
}
