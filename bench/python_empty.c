/* SPDX-License-Identifier: Apache-2.0 */
/* The least that a context manager of a C type can be: what span() is measured against. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif

static PyObject *enter(PyObject *self, PyObject *none)
{
	(void)none;
	Py_INCREF(self);
	return self;
}

static PyObject *leave(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
	(void)self;
	(void)args;
	(void)n;
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
	{ "__enter__", enter, METH_NOARGS, NULL },
	{ "__exit__", (PyCFunction)(void (*)(void))leave, METH_FASTCALL, NULL },
	{ 0 },
};

static PyType_Slot slots[] = {
	{ Py_tp_methods, methods },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "python_empty.Empty",
	.basicsize = sizeof(PyObject),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

static struct PyModuleDef module = { PyModuleDef_HEAD_INIT, .m_name = "python_empty",
				     .m_size = -1 };

PyMODINIT_FUNC PyInit_python_empty(void);
PyMODINIT_FUNC PyInit_python_empty(void)
{
	PyObject *m = PyModule_Create(&module), *type = PyType_FromSpec(&spec);

	if (!m || !type || PyModule_AddObject(m, "Empty", type))
		return NULL;
	return m;
}
