// SPDX-License-Identifier: Apache-2.0
/* clika_runtime._core and its submodule clika_runtime._core.profiler. */
#include "core.h"

#define FULL_NAME "clika_runtime._core.profiler"

static struct PyModuleDef profiler_def = {
	PyModuleDef_HEAD_INIT,
	.m_name = FULL_NAME,
	.m_doc = "Native half of clika_runtime.profiler. Use it through that module.",
	.m_size = -1,
};

/* What a second import in this process (after sys.modules was tampered with) gets again. */
static PyObject *profiler;

static int refuse_subinterpreters(void)
{
	if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0)
		return 0;
	PyErr_SetString(PyExc_ImportError,
			"clika_runtime works in the main interpreter only: its sessions and marker "
			"buffers belong to the process. Import it there, not in a subinterpreter");
	return -1;
}

static int core__exec(PyObject *core)
{
	PyObject *modules;

	if (refuse_subinterpreters())
		return -1;
	if (!profiler) {
		PyObject *m = PyModule_Create(&profiler_def);

		if (!m)
			return -1;
		if (errors__add(m) || session__add(m) || scope__add(m) || span__add(m)) {
			Py_DECREF(m);
			return -1;
		}
		profiler = m;
	}
	/* A module that a shared object carries inside is found by its name alone. */
	modules = PyImport_GetModuleDict();
	if (PyDict_SetItemString(modules, FULL_NAME, profiler))
		return -1;
	return PyObject_SetAttrString(core, "profiler", profiler);
}

static PyModuleDef_Slot core_slots[] = {
	{ Py_mod_exec, SLOT(core__exec) },
	{ 0, NULL },
};

static struct PyModuleDef core_def = {
	PyModuleDef_HEAD_INIT,
	.m_name = "clika_runtime._core",
	.m_doc = "Native modules of clika_runtime.",
	.m_size = 0,
	.m_slots = core_slots,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
	return PyModuleDef_Init(&core_def);
}
