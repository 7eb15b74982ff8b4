// SPDX-License-Identifier: Apache-2.0
/* Any bytes as a recipe; what is taken is tried on a file. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "user/probe/recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_pick(void *ctx, const struct recipe_pick *p)
{
	unsigned *left = ctx;

	if (!p->names[0] || p->match >= p->rule->n_match)
		abort();
	return --*left == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct elf_file *file;
	struct clika_error err = { 0 };
	unsigned left = 100;
	struct recipe *r;

	if (!file) {
		int fd = open("build/libdigits.so", O_RDONLY | O_CLOEXEC);

		if (fd < 0 || elf_file__open(fd, "libdigits.so", &file, &err))
			abort(); /* make all first */
		close(fd);
	}
	if (recipe__parse((const char *)data, size, "fuzz", &r, &err)) {
		if (!err.msg[0])
			abort();
		return 0;
	}
	recipe__library_of(r, file, "/lib/libdigits.so");
	recipe__pick(r, UINT64_MAX, file, NULL, on_pick, &left, NULL, NULL, &err);
	recipe__free(r);
	return 0;
}
