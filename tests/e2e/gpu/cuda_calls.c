/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls the CUDA runtime as a program would, also where there is no device: then every call but a few says so.
 *
 *   cuda_calls LIBCUDART
 *
 * Prints "ready PID", then obeys lines on stdin: "calls N" makes each of the calls below N times and answers with a JSON
 * line of how many there were and what they returned, "quit" ends.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct dim3 {
	unsigned x, y, z;
};

static struct runtime {
	int (*get_device_count)(int *n);
	int (*malloc)(void **p, size_t bytes);
	int (*free)(void *p);
	int (*memcpy)(void *to, const void *from, size_t bytes, int kind);
	int (*memcpy_async)(void *to, const void *from, size_t bytes, int kind, void *stream);
	int (*memset)(void *p, int value, size_t bytes);
	int (*launch)(const void *kernel, struct dim3 grid, struct dim3 block, void **args,
		      size_t shared, void *stream);
	int (*event_record)(void *event, void *stream);
	int (*event_synchronize)(void *event);
	int (*stream_synchronize)(void *stream);
	int (*device_synchronize)(void);
} cuda;

static int load(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW);

	if (!lib) {
		fprintf(stderr, "cuda_calls: %s\n", dlerror());
		return -1;
	}
#define SYM(field, name)                                                                           \
	do {                                                                                       \
		*(void **)&cuda.field = dlsym(lib, name);                                          \
		if (!cuda.field) {                                                                 \
			fprintf(stderr, "cuda_calls: %s\n", dlerror());                            \
			return -1;                                                                 \
		}                                                                                  \
	} while (0)
	SYM(get_device_count, "cudaGetDeviceCount");
	SYM(malloc, "cudaMalloc");
	SYM(free, "cudaFree");
	SYM(memcpy, "cudaMemcpy");
	SYM(memcpy_async, "cudaMemcpyAsync");
	SYM(memset, "cudaMemset");
	SYM(launch, "cudaLaunchKernel");
	SYM(event_record, "cudaEventRecord");
	SYM(event_synchronize, "cudaEventSynchronize");
	SYM(stream_synchronize, "cudaStreamSynchronize");
	SYM(device_synchronize, "cudaDeviceSynchronize");
	return 0;
}

static void calls(long n)
{
	static char from[4096], to[4096];
	const struct dim3 grid = { 12, 3, 2 }, block = { 128, 2, 1 };
	int devices, count = 0, taken = 0, copied = 0;

	for (long i = 0; i < n; i++) {
		void *p = NULL;

		devices = 0;
		count = cuda.get_device_count(&devices);
		taken = cuda.malloc(&p, 1 << 20);
		copied = cuda.memcpy(to, from, 1000, 0);
		cuda.memcpy_async(to, from, 2000, 1, (void *)0x2);
		cuda.memset(p ? p : (void *)to, 0, 3000);
		cuda.launch((const void *)calls, grid, block, NULL, 256, (void *)0x2);
		cuda.event_record((void *)0x77, (void *)0x2);
		cuda.event_synchronize((void *)0x77);
		cuda.stream_synchronize((void *)0x2);
		cuda.device_synchronize();
		cuda.free(p);
	}
	printf("{\"each\": %ld, \"count\": %d, \"malloc\": %d, \"memcpy\": %d}\n", n, count, taken,
	       copied);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[256];
	long n;

	if (argc != 2) {
		fprintf(stderr, "usage: cuda_calls LIBCUDART\n");
		return 2;
	}
	if (load(argv[1]))
		return 1;
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n")) {
		if (sscanf(line, "calls %ld", &n) != 1) {
			fprintf(stderr, "cuda_calls: cannot obey %s", line);
			return 1;
		}
		calls(n);
	}
	return 0;
}
