/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives an unmodified libllama through its public C API and says exactly what it called.
 *
 *   drive LIB-DIR MODEL
 *
 * Prints "ready PID", then obeys lines on stdin and answers each with a JSON line:
 *
 *   run N                   N llama_decode calls of one token each
 *   generate N LENGTH MORE  N prompts of LENGTH tokens in one batch, each answered with MORE tokens
 *   ops LENGTH              decodes LENGTH tokens in one batch; tells which operations that took
 *   threads N               computes with so many threads from now on
 *   again N                 makes a context and frees it, N times; tells which buffers that took
 *   quit
 *
 * What it tells of graphs comes from the calls of the library itself: ggml_backend_graph_compute_async is
 * defined here as well and takes the library's place in its own calls; each graph is counted with ggml's
 * accessors and handed on. So are the functions that give out and take back buffers.
 *
 * The API's parameter structs are passed by value. They are declared larger than they are here, which every
 * ABI used here allows for structs in memory: the callee reads or writes the bytes that it knows, so
 * this source needs no header of a given version.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct by_value {
	uint64_t words[64];
};

struct llama {
	void (*log_set)(void (*fn)(int level, const char *text, void *ctx), void *ctx);
	void (*load_backends)(const char *dir);
	void (*backend_init)(void);
	struct by_value (*model_default_params)(void);
	void *(*model_load_from_file)(const char *path, struct by_value params);
	struct by_value (*context_default_params)(void);
	void *(*init_from_model)(void *model, struct by_value params);
	void (*set_n_threads)(void *ctx, int32_t n_threads, int32_t n_threads_batch);
	struct by_value (*batch_get_one)(int32_t *tokens, int32_t n_tokens);
	int32_t (*decode)(void *ctx, struct by_value batch);
	float *(*get_logits)(void *ctx);
	void *(*get_memory)(const void *ctx);
	void (*memory_clear)(void *memory, _Bool data);
	void (*context_free)(void *ctx);
	void (*model_free)(void *model);
	void *(*sampler_greedy)(void);
	int32_t (*sampler_sample)(void *sampler, void *ctx, int32_t i);
	void (*sampler_free)(void *sampler);
};

/* --- graphs that pass by ---------------------------------------------------------------------------- */

#define MAX_OPS 64

static struct {
	int (*compute)(void *backend, void *graph);
	int (*n_nodes)(const void *graph);
	void *(*node)(const void *graph, int i);
	const char *(*op)(const void *tensor);
	const char *(*name)(const void *tensor);

	long graphs, nodes;
	struct {
		const char *op;
		long n;
	} ops[MAX_OPS];
	int n_ops;
	const void *last;

	void *(*alloc_buffer)(void *type, size_t size);
	void (*free_buffer)(void *buffer);
	size_t (*buffer_size)(void *buffer);
	long allocs, frees;
	size_t alloc_bytes, freed_bytes;
} seen;

__attribute__((visibility("default"))) int ggml_backend_graph_compute_async(void *backend,
									    void *graph);

int ggml_backend_graph_compute_async(void *backend, void *graph)
{
	int n = seen.n_nodes(graph), k;

	seen.graphs++;
	seen.nodes += n;
	for (int i = 0; i < n; i++) {
		const char *op = seen.op(seen.node(graph, i));

		for (k = 0; k < seen.n_ops && strcmp(seen.ops[k].op, op); k++)
			;
		if (k == MAX_OPS)
			continue;
		if (k == seen.n_ops)
			seen.ops[seen.n_ops++].op = op;
		seen.ops[k].n++;
	}
	seen.last = n ? seen.node(graph, n - 1) : NULL;
	return seen.compute(backend, graph);
}

__attribute__((visibility("default"))) void *ggml_backend_buft_alloc_buffer(void *type,
									    size_t size);

void *ggml_backend_buft_alloc_buffer(void *type, size_t size)
{
	void *buffer = seen.alloc_buffer(type, size);

	if (buffer && size) {
		seen.allocs++;
		seen.alloc_bytes += seen.buffer_size(buffer);
	}
	return buffer;
}

__attribute__((visibility("default"))) void ggml_backend_buffer_free(void *buffer);

void ggml_backend_buffer_free(void *buffer)
{
	size_t size = buffer ? seen.buffer_size(buffer) : 0;

	if (size) {
		seen.frees++;
		seen.freed_bytes += size;
	}
	seen.free_buffer(buffer);
}

static void forget_graphs(void)
{
	seen.graphs = seen.nodes = seen.n_ops = 0;
	memset(seen.ops, 0, sizeof(seen.ops));
}

static void log_errors(int level, const char *text, void *ctx)
{
	(void)ctx;
	if (level == 4) /* GGML_LOG_LEVEL_ERROR */
		fputs(text, stderr);
}

static void *open_lib(const char *dir, const char *prefix)
{
	char path[4096];
	void *lib = NULL;
	struct dirent *e;
	DIR *d = opendir(dir);

	if (!d)
		return NULL;
	while (!lib && (e = readdir(d))) {
		if (strncmp(e->d_name, prefix, strlen(prefix)))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
		if (!lib)
			fprintf(stderr, "drive: %s\n", dlerror());
	}
	closedir(d);
	return lib;
}

static int load_symbols(struct llama *l, const char *dir)
{
	void *base = open_lib(dir, "libggml-base.");
	void *ggml = base ? open_lib(dir, "libggml.") : NULL;
	void *llama = ggml ? open_lib(dir, "libllama.") : NULL;

	if (!llama)
		return -1;
#define SYM(lib, field, name)                                                                      \
	do {                                                                                       \
		*(void **)&l->field = dlsym(lib, name);                                            \
		if (!l->field) {                                                                   \
			fprintf(stderr, "drive: %s\n", dlerror());                                 \
			return -1;                                                                 \
		}                                                                                  \
	} while (0)
	SYM(ggml, load_backends, "ggml_backend_load_all_from_path");
	SYM(llama, log_set, "llama_log_set");
	SYM(llama, backend_init, "llama_backend_init");
	SYM(llama, model_default_params, "llama_model_default_params");
	SYM(llama, model_load_from_file, "llama_model_load_from_file");
	SYM(llama, context_default_params, "llama_context_default_params");
	SYM(llama, init_from_model, "llama_init_from_model");
	SYM(llama, set_n_threads, "llama_set_n_threads");
	SYM(llama, batch_get_one, "llama_batch_get_one");
	SYM(llama, decode, "llama_decode");
	SYM(llama, get_logits, "llama_get_logits");
	SYM(llama, get_memory, "llama_get_memory");
	SYM(llama, memory_clear, "llama_memory_clear");
	SYM(llama, context_free, "llama_free");
	SYM(llama, model_free, "llama_model_free");
	SYM(llama, sampler_greedy, "llama_sampler_init_greedy");
	SYM(llama, sampler_sample, "llama_sampler_sample");
	SYM(llama, sampler_free, "llama_sampler_free");
#undef SYM
#define SYM(field, symbol)                                                                         \
	do {                                                                                       \
		*(void **)&seen.field = dlsym(base, symbol);                                       \
		if (!seen.field) {                                                                 \
			fprintf(stderr, "drive: %s\n", dlerror());                                 \
			return -1;                                                                 \
		}                                                                                  \
	} while (0)
	SYM(compute, "ggml_backend_graph_compute_async");
	SYM(n_nodes, "ggml_graph_n_nodes");
	SYM(node, "ggml_graph_node");
	SYM(op, "ggml_op_desc");
	SYM(name, "ggml_get_name");
	SYM(alloc_buffer, "ggml_backend_buft_alloc_buffer");
	SYM(free_buffer, "ggml_backend_buffer_free");
	SYM(buffer_size, "ggml_backend_buffer_get_size");
#undef SYM
	return 0;
}

static int run(const struct llama *l, void *ctx, long n)
{
	uint64_t checksum = 1469598103934665603ull;
	long calls = 0;

	for (long i = 0; i < n; i++) {
		int32_t token = 3 + (int32_t)(i * 7 % 250);
		uint32_t bits;

		/* The context has room for 512 positions. */
		if (i % 256 == 0)
			l->memory_clear(l->get_memory(ctx), 1);
		if (l->decode(ctx, l->batch_get_one(&token, 1)))
			return -1;
		calls++;
		memcpy(&bits, l->get_logits(ctx), sizeof(bits));
		checksum = (checksum ^ bits) * 1099511628211ull;
	}
	printf("{\"decodes\": %ld, \"tokens\": %ld, \"checksum\": \"%016llx\"}\n", calls, calls,
	       (unsigned long long)checksum);
	return 0;
}

static double ms_since(const struct timespec *t)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - t->tv_sec) * 1e3 + (double)(now.tv_nsec - t->tv_nsec) / 1e6;
}

/* Each prompt in one batch, then token by token what the greedy sampler chooses. */
static int generate(const struct llama *l, void *ctx, long n, long length, long more)
{
	long decodes = 0, tokens = 0, sampled = 0;
	double first = 0, rest = 0;
	void *sampler = l->sampler_greedy();
	int32_t *prompt = calloc((size_t)(length ? length : 1), sizeof(*prompt));
	int rc = sampler && prompt ? 0 : -1;

	forget_graphs();
	for (long i = 0; !rc && i < n; i++) {
		struct timespec begin;
		int32_t token;
		double t;

		for (long k = 0; k < length; k++)
			prompt[k] = 3 + (int32_t)((i * 31 + k * 7) % 250);
		l->memory_clear(l->get_memory(ctx), 1);
		clock_gettime(CLOCK_MONOTONIC, &begin);
		rc = l->decode(ctx, l->batch_get_one(prompt, (int32_t)length));
		decodes++;
		tokens += length;
		token = rc ? 0 : l->sampler_sample(sampler, ctx, -1);
		sampled++;
		t = ms_since(&begin);
		first += t;
		for (long k = 1; !rc && k < more; k++) {
			rc = l->decode(ctx, l->batch_get_one(&token, 1));
			decodes++;
			tokens++;
			token = rc ? 0 : l->sampler_sample(sampler, ctx, -1);
			sampled++;
		}
		rest += ms_since(&begin) - t;
	}
	if (!rc)
		printf("{\"prompts\": %ld, \"decodes\": %ld, \"tokens\": %ld, \"sampled\": %ld, "
		       "\"graphs\": %ld, "
		       "\"nodes\": %ld, \"first_ms\": %.6f, \"rest_ms\": %.6f}\n",
		       n, decodes, tokens, sampled, seen.graphs, seen.nodes, first, rest);
	free(prompt);
	if (sampler)
		l->sampler_free(sampler);
	return rc;
}

static int ops(const struct llama *l, void *ctx, long length)
{
	int32_t *prompt = calloc((size_t)(length ? length : 1), sizeof(*prompt));
	int rc;

	if (!prompt)
		return -1;
	for (long k = 0; k < length; k++)
		prompt[k] = 3 + (int32_t)(k * 7 % 250);
	l->memory_clear(l->get_memory(ctx), 1);
	forget_graphs();
	rc = l->decode(ctx, l->batch_get_one(prompt, (int32_t)length));
	free(prompt);
	if (rc)
		return rc;
	l->get_logits(ctx); /* waits for the end */
	printf("{\"graphs\": %ld, \"nodes\": %ld, \"last\": \"%s\", \"ops\": {", seen.graphs,
	       seen.nodes, seen.last ? seen.name(seen.last) : "");
	for (int k = 0; k < seen.n_ops; k++)
		printf("%s\"%s\": %ld", k ? ", " : "", seen.ops[k].op, seen.ops[k].n);
	puts("}}");
	return 0;
}

static int again(const struct llama *l, void *model, long n)
{
	seen.allocs = seen.frees = 0;
	seen.alloc_bytes = seen.freed_bytes = 0;
	for (long i = 0; i < n; i++) {
		void *ctx = l->init_from_model(model, l->context_default_params());

		if (!ctx)
			return -1;
		l->context_free(ctx);
	}
	printf("{\"contexts\": %ld, \"allocs\": %ld, \"alloc_bytes\": %zu, \"frees\": %ld, "
	       "\"freed_bytes\": %zu}\n",
	       n, seen.allocs, seen.alloc_bytes, seen.frees, seen.freed_bytes);
	return 0;
}

int main(int argc, char **argv)
{
	struct llama l = { 0 };
	void *model, *ctx;
	char line[128];
	long a, b, c;
	int rc = 0;

	if (argc != 3) {
		fprintf(stderr, "usage: %s LIB-DIR MODEL\n", argv[0]);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (load_symbols(&l, argv[1]))
		return 1;
	l.log_set(log_errors, NULL);
	l.load_backends(argv[1]);
	l.backend_init();
	model = l.model_load_from_file(argv[2], l.model_default_params());
	ctx = model ? l.init_from_model(model, l.context_default_params()) : NULL;
	if (!ctx) {
		fprintf(stderr, "drive: the model could not be loaded\n");
		return 1;
	}
	l.set_n_threads(ctx, 1, 1);
	printf("ready %d\n", (int)getpid());
	while (!rc && fgets(line, sizeof(line), stdin)) {
		if (!strncmp(line, "run ", 4))
			rc = run(&l, ctx, atol(line + 4));
		else if (sscanf(line, "generate %ld %ld %ld", &a, &b, &c) == 3)
			rc = generate(&l, ctx, a, b, c);
		else if (sscanf(line, "ops %ld", &a) == 1)
			rc = ops(&l, ctx, a);
		else if (sscanf(line, "again %ld", &a) == 1)
			rc = again(&l, model, a);
		else if (sscanf(line, "threads %ld", &a) == 1) {
			l.set_n_threads(ctx, (int32_t)a, (int32_t)a);
			printf("{\"threads\": %ld}\n", a);
		} else if (!strncmp(line, "quit", 4))
			break;
	}
	l.context_free(ctx);
	l.model_free(model);
	return rc ? 1 : 0;
}
