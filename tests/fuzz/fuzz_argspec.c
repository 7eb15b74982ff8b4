// SPDX-License-Identifier: Apache-2.0
/* Any text as the arguments of a marker; what is accepted must be within bounds. */
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "user/probe/elf_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct wire_spec *s, uint16_t regs_size)
{
	if (s->kind < SPEC_CONST || s->kind > SPEC_SIB)
		abort();
	if (s->bytes != 1 && s->bytes != 2 && s->bytes != 4 && s->bytes != 8)
		abort();
	if (s->kind == SPEC_REG && s->reg > regs_size - 8)
		abort();
	if (s->kind >= SPEC_MEM && s->reg != SPEC_NO_REG && s->reg > regs_size - 8)
		abort();
	if (s->kind == SPEC_SIB && (s->index > regs_size - 8 || !s->scale || s->scale > 16))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct {
		uint16_t machine, regs_size;
	} machines[] = { { EM_X86_64, 168 }, { EM_AARCH64, 272 } };
	struct wire_spec specs[WIRE_MAX_ARGS];
	struct clika_error err;
	char *text = malloc(size + 1);
	size_t m;
	int i, n;

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = 0;
	for (m = 0; m < 2; m++) {
		n = argspec__parse(machines[m].machine, text, specs, &err);
		for (i = 0; i < n; i++)
			check(&specs[i], machines[m].regs_size);
	}
	free(text);
	return 0;
}
