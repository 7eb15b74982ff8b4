/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives an unmodified libonnxruntime through its public C API and says exactly what it called.
 *
 *   drive LIBRARY MODEL PROFILE-PREFIX [wait]
 *
 * PROFILE-PREFIX "-": no profile of ONNX Runtime's own; "wait": says "loaded PID" and waits for a line before it opens
 * the model. Prints "ready PID", then obeys lines on stdin, each answered by a JSON line: "run N" and "bind N" run the model
 * N times (plainly, and by Run with a binding), "fail N" asks for an input that the model has not, "alloc N BYTES"
 * allocates and frees N blocks, "keep N BYTES" allocates N blocks and frees them at "drop"; "profile" ends the
 * profile and names its file; "quit" ends. The API is a table of functions whose order never changes, so this
 * source needs no header of a given version.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum slot {
	GET_ERROR_MESSAGE = 2,
	CREATE_ENV = 3,
	CREATE_SESSION = 7,
	RUN = 9,
	CREATE_SESSION_OPTIONS = 10,
	ENABLE_PROFILING = 14,
	SET_INTRA_OP_NUM_THREADS = 24,
	SESSION_GET_INPUT_COUNT = 30,
	SESSION_GET_INPUT_TYPE_INFO = 33,
	SESSION_GET_INPUT_NAME = 36,
	SESSION_GET_OUTPUT_NAME = 37,
	CREATE_TENSOR_AS_ORT_VALUE = 48,
	GET_TENSOR_MUTABLE_DATA = 51,
	CAST_TYPE_INFO_TO_TENSOR_INFO = 55,
	GET_TENSOR_ELEMENT_TYPE = 60,
	GET_DIMENSIONS_COUNT = 61,
	GET_DIMENSIONS = 62,
	ALLOCATOR_ALLOC = 75,
	ALLOCATOR_FREE = 76,
	GET_ALLOCATOR_WITH_DEFAULT_OPTIONS = 78,
	RELEASE_STATUS = 93,
	RELEASE_SESSION = 95,
	RELEASE_VALUE = 96,
	RELEASE_TYPE_INFO = 98,
	SESSION_END_PROFILING = 110,
	RUN_WITH_BINDING = 133,
	CREATE_IO_BINDING = 134,
	BIND_INPUT = 136,
	BIND_OUTPUT = 137,
};

enum { ELEMENT_FLOAT = 1, MAX_INPUTS = 8, MAX_DIMS = 8, MAX_KEPT = 1024 };

typedef void *(*call8)(void *, ...);
static call8 const *api;

/* Every function that can fail returns NULL or a status. */
#define ORT(slot, ...) check(#slot, api[slot](__VA_ARGS__))

static bool check(const char *what, void *status)
{
	if (!status)
		return true;
	fprintf(stderr, "drive: %s: %s\n", what, (char *)api[GET_ERROR_MESSAGE](status));
	api[RELEASE_STATUS](status);
	return false;
}

struct model {
	void *session, *allocator, *binding;
	char *input_names[MAX_INPUTS], *output_name;
	void *inputs[MAX_INPUTS];
	size_t n_inputs;
	void *kept[MAX_KEPT];
	size_t n_kept;
};

/* Unknown dimensions are 1; the data is the same at every start. */
static bool make_input(struct model *m, size_t i)
{
	int64_t dims[MAX_DIMS];
	size_t n = 0, elements = 1;
	const void *info = NULL;
	void *type = NULL;
	float *data = NULL;
	int element = 0;

	if (!ORT(SESSION_GET_INPUT_NAME, m->session, i, m->allocator, &m->input_names[i]) ||
	    !ORT(SESSION_GET_INPUT_TYPE_INFO, m->session, i, &type) ||
	    !ORT(CAST_TYPE_INFO_TO_TENSOR_INFO, type, &info) ||
	    !ORT(GET_TENSOR_ELEMENT_TYPE, (void *)info, &element) ||
	    !ORT(GET_DIMENSIONS_COUNT, (void *)info, &n))
		return false;
	if (element != ELEMENT_FLOAT || n > MAX_DIMS) {
		fprintf(stderr, "drive: input %zu is not a tensor of floats that fits\n", i);
		return false;
	}
	if (!ORT(GET_DIMENSIONS, (void *)info, dims, n))
		return false;
	api[RELEASE_TYPE_INFO](type);
	for (size_t d = 0; d < n; d++) {
		if (dims[d] < 1)
			dims[d] = 1;
		elements *= (size_t)dims[d];
	}
	if (!ORT(CREATE_TENSOR_AS_ORT_VALUE, m->allocator, dims, n, ELEMENT_FLOAT, &m->inputs[i]) ||
	    !ORT(GET_TENSOR_MUTABLE_DATA, m->inputs[i], &data))
		return false;
	for (size_t e = 0; e < elements; e++)
		data[e] = (float)(e % 17) / 17.0f;
	return true;
}

static bool open_model(struct model *m, const char *path, const char *profile)
{
	void *env = NULL, *options = NULL;

	if (!ORT(CREATE_ENV, (void *)(uintptr_t)3, "drive", &env) ||
	    !ORT(CREATE_SESSION_OPTIONS, (void *)&options) ||
	    !ORT(SET_INTRA_OP_NUM_THREADS, options, 1) ||
	    (strcmp(profile, "-") && !ORT(ENABLE_PROFILING, options, profile)) ||
	    !ORT(CREATE_SESSION, env, path, options, &m->session) ||
	    !ORT(GET_ALLOCATOR_WITH_DEFAULT_OPTIONS, (void *)&m->allocator) ||
	    !ORT(SESSION_GET_INPUT_COUNT, m->session, &m->n_inputs) || m->n_inputs > MAX_INPUTS)
		return false;
	for (size_t i = 0; i < m->n_inputs; i++)
		if (!make_input(m, i))
			return false;
	return ORT(SESSION_GET_OUTPUT_NAME, m->session, (size_t)0, m->allocator, &m->output_name);
}

/* The first word of the result, so that one can see that runs agree. */
static bool run(struct model *m, const char *const *names, void **output)
{
	const char *outputs[] = { m->output_name };

	return ORT(RUN, m->session, NULL, names, m->inputs, m->n_inputs, outputs, (size_t)1,
		   output);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool run_times(struct model *m, long n)
{
	uint64_t begin = now();
	void *output = NULL;
	float *data = NULL;

	for (long i = 0; i < n; i++) {
		if (output)
			api[RELEASE_VALUE](output);
		output = NULL;
		if (!run(m, (const char *const *)m->input_names, &output))
			return false;
	}
	uint64_t ns = now() - begin;

	if (output && !ORT(GET_TENSOR_MUTABLE_DATA, output, &data))
		return false;
	printf("{\"runs\": %ld, \"ns\": %llu, \"first\": %.9g}\n", n, (unsigned long long)ns,
	       data ? (double)data[0] : 0.0);
	if (output)
		api[RELEASE_VALUE](output);
	return true;
}

static bool bind_times(struct model *m, long n)
{
	void *output = NULL;

	if (!m->binding) {
		if (!ORT(CREATE_IO_BINDING, m->session, &m->binding) ||
		    !run(m, (const char *const *)m->input_names, &output) ||
		    !ORT(BIND_OUTPUT, m->binding, m->output_name, output))
			return false;
		for (size_t i = 0; i < m->n_inputs; i++)
			if (!ORT(BIND_INPUT, m->binding, m->input_names[i], m->inputs[i]))
				return false;
	}
	for (long i = 0; i < n; i++)
		if (!ORT(RUN_WITH_BINDING, m->session, NULL, m->binding))
			return false;
	printf("{\"bound\": %ld}\n", n);
	return true;
}

static bool fail_times(struct model *m, long n)
{
	const char *names[MAX_INPUTS] = { "no-such-input" }, *outputs[] = { m->output_name };
	long failed = 0;

	for (long i = 0; i < n; i++) {
		void *output = NULL;
		void *status = api[RUN](m->session, NULL, names, m->inputs, (size_t)1, outputs,
					(size_t)1, &output);

		if (status) {
			api[RELEASE_STATUS](status);
			failed++;
		}
	}
	printf("{\"failed\": %ld}\n", failed);
	return failed == n;
}

static bool alloc_times(struct model *m, long n, size_t bytes)
{
	for (long i = 0; i < n; i++) {
		void *block = NULL;

		if (!ORT(ALLOCATOR_ALLOC, m->allocator, bytes, &block))
			return false;
		memset(block, 1, bytes);
		if (!ORT(ALLOCATOR_FREE, m->allocator, block))
			return false;
	}
	printf("{\"allocated\": %ld}\n", n);
	return true;
}

static bool keep(struct model *m, long n, size_t bytes)
{
	for (long i = 0; i < n && m->n_kept < MAX_KEPT; i++)
		if (!ORT(ALLOCATOR_ALLOC, m->allocator, bytes, &m->kept[m->n_kept++]))
			return false;
	printf("{\"kept\": %zu}\n", m->n_kept);
	return true;
}

static bool drop(struct model *m)
{
	size_t n = m->n_kept;

	while (m->n_kept)
		if (!ORT(ALLOCATOR_FREE, m->allocator, m->kept[--m->n_kept]))
			return false;
	printf("{\"dropped\": %zu}\n", n);
	return true;
}

static bool obey(struct model *m, const char *line)
{
	char *file = NULL;
	size_t bytes;
	long n;

	if (sscanf(line, "run %ld", &n) == 1)
		return run_times(m, n);
	if (sscanf(line, "bind %ld", &n) == 1)
		return bind_times(m, n);
	if (sscanf(line, "fail %ld", &n) == 1)
		return fail_times(m, n);
	if (sscanf(line, "alloc %ld %zu", &n, &bytes) == 2)
		return alloc_times(m, n, bytes);
	if (sscanf(line, "keep %ld %zu", &n, &bytes) == 2)
		return keep(m, n, bytes);
	if (!strcmp(line, "drop\n"))
		return drop(m);
	if (!strcmp(line, "profile\n")) {
		if (!ORT(SESSION_END_PROFILING, m->session, m->allocator, &file))
			return false;
		printf("{\"profile\": \"%s\"}\n", file);
		return ORT(ALLOCATOR_FREE, m->allocator, file);
	}
	fprintf(stderr, "drive: cannot obey %s", line);
	return false;
}

int main(int argc, char **argv)
{
	struct api_base {
		const void *(*get_api)(uint32_t version);
		const char *(*version)(void);
	} const *(*get_base)(void);
	static struct model m;
	char line[256];

	if (argc != 4 && (argc != 5 || strcmp(argv[4], "wait"))) {
		fprintf(stderr, "usage: drive LIBRARY MODEL PROFILE-PREFIX [wait]\n");
		return 2;
	}
	void *lib = dlopen(argv[1], RTLD_NOW);

	*(void **)&get_base = lib ? dlsym(lib, "OrtGetApiBase") : NULL;
	if (!get_base) {
		fprintf(stderr, "drive: %s\n", dlerror());
		return 1;
	}
	if (argc == 5) {
		printf("loaded %d\n", getpid());
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			return 1;
	}
	/* All functions used here are in version 11 and every later one. */
	api = get_base()->get_api(11);
	if (!api || !open_model(&m, argv[2], argv[3]))
		return 1;
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "quit\n"))
			break;
		if (!obey(&m, line))
			return 1;
		fflush(stdout);
	}
	api[RELEASE_SESSION](m.session);
	return 0;
}
