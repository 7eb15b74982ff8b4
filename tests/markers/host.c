/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the objects that it is given out of one another's sight and has each check itself, then
 * once more after they were closed: host LIBRARY FUNCTION [LIBRARY FUNCTION]...
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void *nothing(void *arg)
{
	return arg;
}

static void *call(void *arg)
{
	int (*fn)(void);

	memcpy(&fn, &arg, sizeof(fn));
	return fn() == 0 ? NULL : arg;
}

int main(int argc, char **argv)
{
	void *lib[8] = { NULL }, *fn, *bad;
	pthread_t t;
	int n = 0;

	for (int round = 0; round < 2; round++) {
		for (n = 0; n < 8 && 2 * n + 2 < argc; n++) {
			lib[n] = dlopen(argv[2 * n + 1], RTLD_NOW | RTLD_LOCAL);
			if (!lib[n]) {
				fprintf(stderr, "%s\n", dlerror());
				return 2;
			}
			fn = dlsym(lib[n], argv[2 * n + 2]);
			/* the first round on a thread that ends while the object is there */
			if (!fn || (round == 0 ? pthread_create(&t, NULL, call, fn) != 0 ||
							 pthread_join(t, &bad) != 0 || bad
					       : call(fn) != NULL))
				return 3;
		}
		while (n > 0)
			dlclose(lib[--n]);
		/* a key left behind would call into what is not there any more */
		if (pthread_create(&t, NULL, nothing, NULL) != 0 || pthread_join(t, NULL) != 0)
			return 4;
	}
	return 0;
}
