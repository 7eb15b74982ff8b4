/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes on ggml alone, as whisper.cpp and others do, and loads and unloads its libraries meanwhile.
 *
 *   graph LIB-DIR CPU-LIBRARY
 *
 * Prints "ready PID", then obeys lines on stdin: "round N NAME" loads the libraries, computes two products of
 * matrices N times on one thread, the second into a tensor of that name, unloads the libraries and prints a
 * JSON line that says whether they are gone; "hold" has them loaded until the next
 * line; "endless" computes until somebody ends the process; "quit" ends.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct init_params {
	size_t mem_size;
	void *mem_buffer;
	_Bool no_alloc;
};

struct ggml {
	void *base, *cpu;
	void *(*init)(struct init_params params);
	void (*free)(void *ctx);
	void *(*new_tensor_2d)(void *ctx, int type, int64_t ne0, int64_t ne1);
	void *(*set_name)(void *tensor, const char *name);
	void *(*mul_mat)(void *ctx, void *a, void *b);
	void *(*new_graph)(void *ctx);
	void (*build_forward_expand)(void *graph, void *tensor);
	float *(*get_data_f32)(const void *tensor);
	int (*graph_compute_with_ctx)(void *ctx, void *graph, int n_threads);
};

static int load(struct ggml *g, const char *dir, const char *cpu)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/libggml-base.so", dir);
	g->base = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	snprintf(path, sizeof(path), "%s/%s", dir, cpu);
	g->cpu = g->base ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	if (!g->cpu) {
		fprintf(stderr, "graph: %s\n", dlerror());
		return -1;
	}
#define SYM(lib, field, name)                                                                      \
	do {                                                                                       \
		*(void **)&g->field = dlsym(g->lib, name);                                         \
		if (!g->field) {                                                                   \
			fprintf(stderr, "graph: %s\n", dlerror());                                 \
			return -1;                                                                 \
		}                                                                                  \
	} while (0)
	SYM(base, init, "ggml_init");
	SYM(base, free, "ggml_free");
	SYM(base, new_tensor_2d, "ggml_new_tensor_2d");
	SYM(base, set_name, "ggml_set_name");
	SYM(base, mul_mat, "ggml_mul_mat");
	SYM(base, new_graph, "ggml_new_graph");
	SYM(base, build_forward_expand, "ggml_build_forward_expand");
	SYM(base, get_data_f32, "ggml_get_data_f32");
	SYM(cpu, graph_compute_with_ctx, "ggml_graph_compute_with_ctx");
#undef SYM
	return 0;
}

/* (W1 X), then (W2 of that): 96 x 7, then 32 x 7. */
static int compute(const struct ggml *g, long n, const char *name, double *sum)
{
	struct init_params params = { .mem_size = 16u << 20 };
	void *ctx = g->init(params), *w1, *w2, *x, *hidden, *out, *graph;

	if (!ctx)
		return -1;
	w1 = g->set_name(g->new_tensor_2d(ctx, 0, 64, 96), "first.weight");
	w2 = g->set_name(g->new_tensor_2d(ctx, 0, 96, 32), "second.weight");
	x = g->set_name(g->new_tensor_2d(ctx, 0, 64, 7), "input");
	for (int i = 0; i < 64 * 96; i++)
		g->get_data_f32(w1)[i] = (float)(i % 13) / 13;
	for (int i = 0; i < 96 * 32; i++)
		g->get_data_f32(w2)[i] = (float)(i % 11) / 11;
	for (int i = 0; i < 64 * 7; i++)
		g->get_data_f32(x)[i] = (float)(i % 7) / 7;
	hidden = g->set_name(g->mul_mat(ctx, w1, x), "hidden");
	out = g->set_name(g->mul_mat(ctx, w2, hidden), name);
	graph = g->new_graph(ctx);
	g->build_forward_expand(graph, out);
	for (long i = 0; n < 0 || i < n; i++)
		if (g->graph_compute_with_ctx(ctx, graph, 1))
			return -1;
	for (int i = 0; i < 32 * 7; i++)
		*sum += (double)g->get_data_f32(out)[i];
	g->free(ctx);
	return 0;
}

static int is_mapped(const char *name)
{
	char line[4096];
	FILE *f = fopen("/proc/self/maps", "r");
	int found = 0;

	while (f && fgets(line, sizeof(line), f))
		found |= strstr(line, name) != NULL;
	if (f)
		fclose(f);
	return found;
}

int main(int argc, char **argv)
{
	char line[128];

	if (argc != 3) {
		fprintf(stderr, "usage: %s LIB-DIR CPU-LIBRARY\n", argv[0]);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready %d\n", (int)getpid());
	while (fgets(line, sizeof(line), stdin) && strncmp(line, "quit", 4)) {
		char name[64] = "scores";
		long n = -1;
		struct ggml g = { 0 };
		double sum = 0;
		bool hold = !strncmp(line, "hold", 4);

		if (!strncmp(line, "endless", 7))
			puts("{\"endless\": true}");
		else if (!hold && sscanf(line, "round %ld %63s", &n, name) != 2)
			continue;
		if (load(&g, argv[1], argv[2]))
			return 1;
		if (hold) {
			puts("{\"held\": true}");
			if (!fgets(line, sizeof(line), stdin))
				return 1;
		} else if (compute(&g, n, name, &sum)) {
			return 1;
		}
		dlclose(g.cpu);
		dlclose(g.base);
		printf("{\"computes\": %ld, \"sum\": %.3f, \"cpu_gone\": %s, \"base_gone\": %s}\n",
		       n, sum, is_mapped(argv[2]) ? "false" : "true",
		       is_mapped("libggml-base") ? "false" : "true");
	}
	return 0;
}
