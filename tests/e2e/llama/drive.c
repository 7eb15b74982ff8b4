/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives an unmodified libllama through its public C API and says exactly what it called.
 *
 *   drive LIB-DIR MODEL
 *
 * Prints "ready PID", then obeys lines on stdin: "run N" makes N llama_decode calls of one token each
 * and prints a JSON line; "quit" ends. The API's parameter structs are passed by value. They are declared
 * larger than they are here, which every ABI used here allows for structs in memory: the callee
 * reads or writes the bytes that it knows, so this source needs no header of a given version.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
};

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

int main(int argc, char **argv)
{
	struct llama l = { 0 };
	void *model, *ctx;
	char line[128];
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
		else if (!strncmp(line, "quit", 4))
			break;
	}
	l.context_free(ctx);
	l.model_free(model);
	return rc ? 1 : 0;
}
