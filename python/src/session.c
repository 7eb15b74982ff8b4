// SPDX-License-Identifier: Apache-2.0
/*
 * Session: what ProfileSession stands on. Everything here that waits does so without the GIL.
 *
 * A client is shared by the session and the calls that are in it: closing a session while another
 * thread waits in it frees nothing under that thread's feet.
 */
#include "core.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct link { /* counted under the GIL */
	struct clika_client *client;
	unsigned uses;
	struct link *next, **at; /* of all links, for a forked child */
};

struct session {
	PyObject_HEAD struct link *link; /* NULL: not started, or closed */
	pid_t owner;
	bool started, closed;
	pthread_mutex_t opening; /* one thread attaches, others wait for it, none with the GIL; it
				  * tells a thread that it has it already */
	struct clika_client_opts opts; /* its strings lie in @held */
	PyObject *held;
	char **argv;
	const char **probes, **usdts, **recipes;
};

static struct link *links;
static bool shutting_down;
static PyTypeObject *session_type;

/* --- clients --------------------------------------------------------------------------------- */

static void link__drop(struct link *l)
{
	struct clika_client *client = l->client;

	if (--l->uses)
		return;
	*l->at = l->next;
	if (l->next)
		l->next->at = l->at;
	free(l);
	Py_BEGIN_ALLOW_THREADS clika_client__free(client);
	Py_END_ALLOW_THREADS
}

static struct link *link__new(struct clika_client *client)
{
	struct link *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->client = client;
	l->uses = 1;
	l->next = links;
	l->at = &links;
	if (links)
		links->at = &l->next;
	links = l;
	return l;
}

/* In a forked child: no connection is spoken on, or kept open, by two processes. */
static PyObject *after_fork(PyObject *module, PyObject *none)
{
	(void)module;
	(void)none;
	for (struct link *l = links; l; l = l->next)
		clika_client__after_fork(l->client);
	Py_RETURN_NONE;
}

static PyObject *shut_down(PyObject *module, PyObject *none)
{
	(void)module;
	(void)none;
	shutting_down = true;
	Py_RETURN_NONE;
}

/* --- signals ---------------------------------------------------------------------------------- */

/*
 * Python runs handlers of signals on its main thread, when that asks for them. A call that waits
 * asks, so that Ctrl-C ends it. Without the GIL.
 */
static bool interrupted(void *unused)
{
	PyGILState_STATE gil;
	bool yes;

	(void)unused;
	if (shutting_down || syscall(SYS_gettid) != getpid())
		return false;
	gil = PyGILState_Ensure();
	yes = PyErr_CheckSignals() != 0;
	PyGILState_Release(gil);
	return yes;
}

/* 0, -ECANCELED with an exception, or -EDEADLK. Without the GIL. */
static int lock_opening(struct session *s)
{
	struct timespec ts;
	int ret;

	do {
		clock_gettime(CLOCK_REALTIME, &ts);
		ts.tv_nsec += 50000000;
		ts.tv_sec += ts.tv_nsec / 1000000000;
		ts.tv_nsec %= 1000000000;
		ret = pthread_mutex_timedlock(&s->opening, &ts);
		if (ret == ETIMEDOUT && interrupted(NULL))
			return -ECANCELED;
	} while (ret == ETIMEDOUT);
	return -ret;
}

/* --- options ---------------------------------------------------------------------------------- */

/* The UTF-8 of @str, kept as long as the session. NULL with an exception. */
static const char *hold(struct session *s, PyObject *str)
{
	PyObject *bytes;
	const char *text = NULL;

	if (PyUnicode_Check(str))
		bytes = PyUnicode_EncodeFSDefault(str);
	else
		bytes = PyObject_Bytes(str);
	if (bytes && !PyList_Append(s->held, bytes))
		text = PyBytes_AsString(bytes);
	Py_XDECREF(bytes);
	if (text && strlen(text) != (size_t)PyBytes_Size(bytes)) {
		PyErr_SetString(PyExc_ValueError, "embedded null byte");
		return NULL;
	}
	return text;
}

static char **hold_list(struct session *s, PyObject *list, size_t *n)
{
	Py_ssize_t count = PySequence_Size(list);
	char **out;

	if (count < 0)
		return NULL;
	out = calloc((size_t)count + 1, sizeof(*out));
	if (!out)
		return (char **)PyErr_NoMemory();
	for (Py_ssize_t i = 0; i < count; i++) {
		PyObject *item = PySequence_GetItem(list, i);

		if (item)
			out[i] = (char *)(uintptr_t)hold(s, item);
		Py_XDECREF(item);
		if (!out[i]) {
			free(out);
			return NULL;
		}
	}
	*n = (size_t)count;
	return out;
}

static int hold_optional(struct session *s, PyObject *str, const char **out)
{
	if (str == Py_None)
		return 0;
	*out = hold(s, str);
	return *out ? 0 : -1;
}

PyDoc_STRVAR(configure_doc, "_configure(options, /)\n--\n\nSets what the session will be, from a "
			    "complete dict. Before it starts, once.");

static PyObject *configure(PyObject *self, PyObject *options)
{
	struct session *s = (struct session *)self;
	struct clika_client_opts *o = &s->opts;
	PyObject *argv, *probes, *usdts, *recipes, *socket, *loader, *empty;
	int target, pid, via, children, redact, flight, timeout_ms, no_auto, ok;
	double budget;
	unsigned long long ring, max;
	static char *names[] = { "target",          "pid",        "argv",       "via",
				 "socket",          "loader",     "children",   "probes",
				 "usdts",           "redact",     "ring_bytes", "max_bytes",
				 "flight_recorder", "timeout_ms", "no_auto",    "recipes",
				 "budget",          NULL };

	if (s->started || s->argv || s->probes || s->usdts || s->recipes) {
		PyErr_SetString(PyExc_RuntimeError, "the session has its options already");
		return NULL;
	}
	empty = PyTuple_New(0);
	if (!empty)
		return NULL;
	ok = PyArg_ParseTupleAndKeywords(empty, options, "iiOiOOpOOpKKpipOd", names, &target, &pid,
					 &argv, &via, &socket, &loader, &children, &probes, &usdts,
					 &redact, &ring, &max, &flight, &timeout_ms, &no_auto,
					 &recipes, &budget);
	Py_DECREF(empty);
	if (!ok)
		return NULL;
	o->target = (enum clika_client_target)target;
	o->pid = pid;
	o->via = (enum clika_client_via)via;
	o->children = children;
	o->redact = redact;
	o->ring_bytes = ring;
	o->max_bytes = max;
	o->flight_recorder = flight;
	o->timeout_ms = timeout_ms;
	o->no_auto = no_auto;
	o->budget = budget;
	if (hold_optional(s, socket, &o->socket_path) || hold_optional(s, loader, &o->loader_path))
		return NULL;
	if (argv != Py_None) {
		size_t n;

		s->argv = hold_list(s, argv, &n);
		if (!s->argv)
			return NULL;
	}
	s->probes = (const char **)hold_list(s, probes, &o->n_probes);
	if (!s->probes)
		return NULL;
	s->usdts = (const char **)hold_list(s, usdts, &o->n_usdts);
	if (!s->usdts)
		return NULL;
	s->recipes = (const char **)hold_list(s, recipes, &o->n_recipes);
	if (!s->recipes)
		return NULL;
	o->argv = s->argv;
	o->probes = s->probes;
	o->usdts = s->usdts;
	o->recipes = s->recipes;
	Py_RETURN_NONE;
}

/* --- life -------------------------------------------------------------------------------------- */

static PyObject *session__new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct session *s = (struct session *)alloc(type, 0);
	pthread_mutexattr_t checked;

	(void)args;
	(void)kw;
	if (!s)
		return NULL;
	s->link = NULL;
	s->owner = getpid();
	s->started = s->closed = false;
	pthread_mutexattr_init(&checked);
	pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&s->opening, &checked);
	pthread_mutexattr_destroy(&checked);
	clika_client_opts__init(&s->opts);
	s->opts.interrupted = interrupted;
	s->held = PyList_New(0);
	if (!s->held) {
		Py_DECREF((PyObject *)s);
		return NULL;
	}
	return (PyObject *)s;
}

static void session__dealloc(PyObject *self)
{
	struct session *s = (struct session *)self;
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (s->link)
		link__drop(s->link);
	pthread_mutex_destroy(&s->opening);
	Py_XDECREF(s->held);
	free(s->argv);
	free(s->probes);
	free(s->usdts);
	free(s->recipes);
	release(self);
	Py_DECREF((PyObject *)type);
}

static int usable(struct session *s)
{
	if (s->owner != getpid()) {
		errors__raise_text(-EPERM,
				   "this session belongs to the process that made it, not to one "
				   "forked from it: make a new ProfileSession here");
		return -1;
	}
	if (s->closed) {
		errors__raise_text(-EBADF, "the session is closed");
		return -1;
	}
	return 0;
}

/* The client for one call; give it back with link__drop(). NULL with an exception. */
static struct link *session__use(struct session *s)
{
	if (usable(s))
		return NULL;
	if (!s->link) {
		errors__raise_text(-EINVAL, "the session has not started");
		return NULL;
	}
	s->link->uses++;
	return s->link;
}

PyDoc_STRVAR(check_doc,
	     "_check()\n--\n\nRaises what a session that is closed, or another process', raises.");

static PyObject *check(PyObject *self, PyObject *none)
{
	(void)none;
	if (usable((struct session *)self))
		return NULL;
	Py_RETURN_NONE;
}

PyDoc_STRVAR(open_doc, "_open()\n--\n\nConnects and attaches, if that has not been done.");

static PyObject *open_session(PyObject *self, PyObject *none)
{
	struct session *s = (struct session *)self;
	struct clika_client_error err = { 0 };
	struct clika_client *client = NULL;
	int ret = 0, locked;

	(void)none;
	if (usable(s))
		return NULL;
	if (s->link)
		Py_RETURN_NONE;
	Py_BEGIN_ALLOW_THREADS locked = lock_opening(s);
	if (!locked && !__atomic_load_n(&s->link, __ATOMIC_ACQUIRE))
		ret = clika_client__new(&s->opts, &client, &err);
	Py_END_ALLOW_THREADS if (locked) return errors__raise_text(
		locked, "this thread is beginning the session's first capture already");
	/* The lock is held: link is set by nobody else. */
	if (client && s->closed) {
		clika_client__free(client);
		ret = -EBADF;
		strcpy(err.msg, "the session was closed meanwhile");
		err.code = ret;
	} else if (client) {
		struct link *l = link__new(client);

		if (l) {
			__atomic_store_n(&s->link, l, __ATOMIC_RELEASE);
			s->started = true;
		} else {
			clika_client__free(client);
			err.code = ret = -ENOMEM;
		}
	}
	pthread_mutex_unlock(&s->opening);
	if (ret)
		return errors__raise(&err);
	Py_RETURN_NONE;
}

PyDoc_STRVAR(close_doc,
	     "_close()\n--\n\nEnds the session and gives up what was not saved. Twice is fine.");

static PyObject *close_session(PyObject *self, PyObject *none)
{
	struct session *s = (struct session *)self;
	struct link *l = s->link;

	(void)none;
	if (s->owner != getpid())
		Py_RETURN_NONE;
	s->closed = true;
	s->link = NULL;
	if (l)
		link__drop(l);
	Py_RETURN_NONE;
}

/* --- captures, results ------------------------------------------------------------------------- */

/* Id of the new capture, 0 with an exception. */
static int64_t begin_capture(PyObject *self, PyObject *tag)
{
	struct clika_client_error err = { 0 };
	PyObject *utf8, *done;
	struct link *l;
	int64_t id = 0;

	if (!PyUnicode_Check(tag)) {
		PyErr_Format(PyExc_TypeError, "tag must be str, not %S", (PyObject *)Py_TYPE(tag));
		return 0;
	}
	utf8 = text__utf8(tag);
	if (!utf8)
		return 0;
	done = open_session(self, NULL);
	l = done ? session__use((struct session *)self) : NULL;
	Py_XDECREF(done);
	if (l) {
		const char *text = PyBytes_AsString(utf8);

		Py_BEGIN_ALLOW_THREADS id = clika_client__capture_begin(l->client, text, &err);
		Py_END_ALLOW_THREADS link__drop(l);
		if (id <= 0)
			errors__raise(&err);
	}
	Py_DECREF(utf8);
	return id > 0 ? id : 0;
}

PyDoc_STRVAR(begin_doc, "_begin(tag, /)\n--\n\nBegins a capture.");

static PyObject *begin(PyObject *self, PyObject *tag)
{
	int64_t id = begin_capture(self, tag);

	return id ? scope__new(self, tag, id) : NULL;
}

PyDoc_STRVAR(begin_last_doc,
	     "_begin_last(tag, /)\n--\n\nBegins a capture that ends with the session.");

static PyObject *begin_last(PyObject *self, PyObject *tag)
{
	if (!begin_capture(self, tag))
		return NULL;
	Py_RETURN_NONE;
}

bool session__is_over(PyObject *self)
{
	struct session *s = (struct session *)self;

	return s->owner != getpid() || s->closed || !s->link || shutting_down;
}

int session__end_capture(PyObject *self, int64_t id, struct clika_client_error *err)
{
	struct link *l = ((struct session *)self)->link;
	int ret;

	if (session__is_over(self))
		return 0;
	l->uses++;
	Py_BEGIN_ALLOW_THREADS ret = clika_client__capture_end(l->client, id, err);
	Py_END_ALLOW_THREADS link__drop(l);
	return ret;
}

PyDoc_STRVAR(flush_doc, "_flush()\n--\n\nBarrier.");

static PyObject *flush(PyObject *self, PyObject *none)
{
	struct clika_client_error err = { 0 };
	struct link *l = session__use((struct session *)self);
	int ret;

	(void)none;
	if (!l)
		return NULL;
	Py_BEGIN_ALLOW_THREADS ret = clika_client__flush(l->client, &err);
	Py_END_ALLOW_THREADS link__drop(l);
	if (ret)
		return errors__raise(&err);
	Py_RETURN_NONE;
}

#define MAX_FORMATS 16

PyDoc_STRVAR(export_doc,
	     "_export(formats, descriptors, capture, last_ns, /)\n--\n\n"
	     "One snapshot, formats[i] to descriptors[i]; of one tag, of the last nanoseconds.");

static PyObject *export_fds(PyObject *self, PyObject *args)
{
	struct clika_client_error err = { 0 };
	const char *formats[MAX_FORMATS];
	struct clika_client_view view = { .sz = sizeof(view) };
	PyObject *names, *numbers, *held[MAX_FORMATS];
	int fds[MAX_FORMATS], ret = 0;
	unsigned long long last;
	Py_ssize_t n, have = 0;
	struct link *l = NULL;

	if (!PyArg_ParseTuple(args, "O!O!zK", &PyTuple_Type, &names, &PyTuple_Type, &numbers,
			      &view.capture, &last))
		return NULL;
	view.last_ns = last;
	n = PyTuple_Size(names);
	if (n != PyTuple_Size(numbers) || n < 1 || n > MAX_FORMATS) {
		PyErr_SetString(PyExc_ValueError, "one descriptor for each format, at most 16");
		return NULL;
	}
	for (; have < n; have++) {
		held[have] = PyUnicode_AsUTF8String(PyTuple_GetItem(names, have));
		if (!held[have])
			break;
		formats[have] = PyBytes_AsString(held[have]);
		fds[have] = (int)PyLong_AsLong(PyTuple_GetItem(numbers, have));
		if (PyErr_Occurred()) {
			Py_DECREF(held[have]);
			break;
		}
	}
	if (have == n)
		l = session__use((struct session *)self);
	if (l) {
		Py_BEGIN_ALLOW_THREADS ret =
			clika_client__export_view(l->client, formats, fds, (size_t)n, &view, &err);
		Py_END_ALLOW_THREADS link__drop(l);
	}
	while (have)
		Py_DECREF(held[--have]);
	if (!l)
		return NULL;
	if (ret)
		return errors__raise(&err);
	Py_RETURN_NONE;
}

PyDoc_STRVAR(export_bytes_doc, "_export_bytes(format, /)\n--\n\nA snapshot in one format.");

static PyObject *export_bytes(PyObject *self, PyObject *format)
{
	struct clika_client_error err = { 0 };
	PyObject *name = PyUnicode_AsUTF8String(format), *out = NULL;
	const char *text = name ? PyBytes_AsString(name) : NULL;
	struct link *l = name ? session__use((struct session *)self) : NULL;
	char *data = NULL;
	size_t len = 0;
	int ret;

	if (l) {
		Py_BEGIN_ALLOW_THREADS ret =
			clika_client__export_mem(l->client, text, &data, &len, &err);
		Py_END_ALLOW_THREADS link__drop(l);
		out = ret ? errors__raise(&err) : PyBytes_FromStringAndSize(data, (Py_ssize_t)len);
		free(data);
	}
	Py_XDECREF(name);
	return out;
}

PyDoc_STRVAR(stats_doc,
	     "_stats()\n--\n\nCounts so far, as a dict; times in nanoseconds, sizes in bytes.");

static PyObject *stats(PyObject *self, PyObject *none)
{
	struct clika_client_stats st = { .sz = sizeof(st) };
	struct clika_client_error err = { 0 };
	struct link *l = session__use((struct session *)self);
	int ret;

	(void)none;
	if (!l)
		return NULL;
	Py_BEGIN_ALLOW_THREADS ret = clika_client__stats(l->client, &st, &err);
	Py_END_ALLOW_THREADS link__drop(l);
	if (ret)
		return errors__raise(&err);
#define U64(v) (unsigned long long)(v)
	return Py_BuildValue("{sK sK sK sK sK sK sK sI sI sI sI sN sN si sN}", "elapsed_ns",
			     U64(st.elapsed_ns), "records", U64(st.records), "spans", U64(st.spans),
			     "lost", U64(st.lost), "filtered", U64(st.filtered), "unknown_at_most",
			     U64(st.unknown_at_most), "file_bytes", U64(st.file_bytes), "processes",
			     st.processes, "threads", st.threads, "captures_open", st.captures_open,
			     "targets_alive", st.targets_alive, "ended", PyBool_FromLong(st.ended),
			     "full", PyBool_FromLong(st.full), "command_status", st.command_status,
			     "private_loader", PyBool_FromLong(st.private_loader));
#undef U64
}

/* --- attributes --------------------------------------------------------------------------------- */

static PyObject *get_started(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct session *)self)->started);
}

static PyObject *get_closed(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct session *)self)->closed);
}

static PyObject *get_detached(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct session *)self)->owner != getpid());
}

static PyObject *get_alive(PyObject *self, void *unused)
{
	struct session *s = (struct session *)self;

	(void)unused;
	return PyBool_FromLong(s->owner == getpid() && s->link &&
			       clika_client__alive(s->link->client));
}

static PyGetSetDef attributes[] = {
	{ "started", get_started, NULL, "True once the first capture has attached the session.",
	  NULL },
	{ "closed", get_closed, NULL, "True after close().", NULL },
	{ "detached", get_detached, NULL,
	  "True in a process forked from the one that made the session.", NULL },
	{ "alive", get_alive, NULL,
	  "True while the session is started and its loader is there. Never waits.", NULL },
	{ 0 },
};

static PyMethodDef methods[] = {
	{ "_configure", configure, METH_O, configure_doc },
	{ "_check", check, METH_NOARGS, check_doc },
	{ "_open", open_session, METH_NOARGS, open_doc },
	{ "_close", close_session, METH_NOARGS, close_doc },
	{ "_begin", begin, METH_O, begin_doc },
	{ "_begin_last", begin_last, METH_O, begin_last_doc },
	{ "_flush", flush, METH_NOARGS, flush_doc },
	{ "_export", export_fds, METH_VARARGS, export_doc },
	{ "_export_bytes", export_bytes, METH_O, export_bytes_doc },
	{ "_stats", stats, METH_NOARGS, stats_doc },
	{ 0 },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc,
	  "One session of the loader. clika_runtime.profiler.ProfileSession builds on it." },
	{ Py_tp_new, SLOT(session__new) },
	{ Py_tp_dealloc, SLOT(session__dealloc) },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, attributes },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "clika_runtime._core.profiler.Session",
	.basicsize = sizeof(struct session),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};

static PyMethodDef functions[] = {
	{ "_after_fork", after_fork, METH_NOARGS,
	  "Lets go of connections that a forked child inherited." },
	{ "_shut_down", shut_down, METH_NOARGS,
	  "From here on nothing waits for a loader any more." },
	{ 0 },
};

int session__add(PyObject *module)
{
	session_type = (PyTypeObject *)PyType_FromSpec(&spec);
	if (!session_type)
		return -1;
	if (PyObject_SetAttrString(module, "Session", (PyObject *)session_type))
		return -1;
	return PyModule_AddFunctions(module, functions);
}
