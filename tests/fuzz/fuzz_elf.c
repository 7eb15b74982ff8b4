// SPDX-License-Identifier: Apache-2.0
/* Any bytes as the ELF file of a target: headers, notes, functions and their code, types, tables of functions. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "user/probe/layout.h"
#include "user/probe/vtables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct elf_file *file;

static int on_site(void *ctx, const struct usdt_site *s)
{
	struct wire_spec specs[WIRE_MAX_ARGS];

	(void)ctx;
	argspec__parse(elf_file__ident(file)->machine, s->args, specs, NULL);
	return 0;
}

static int on_function(void *ctx, const struct elf_func *fu)
{
	unsigned *left = ctx;
	struct func_sites sites;
	uint64_t vaddr;

	func_sites__find(file, fu, &sites, NULL);
	if (!elf_file__vaddr(file, fu->offset, &vaddr))
		abort();
	return --*left == 0;
}

static void ask_for_layouts(void)
{
	static struct recipe_layout_row row = { .exports = (char *)"get" };
	struct recipe_layout l = {
		.name = (char *)"l", .accessor = (char *)"*", .rows = &row, .n_rows = 1
	};
	struct recipe_table t = { .name = (char *)"t" };
	uint64_t at, *slots, start, size;
	struct clika_error err;
	int64_t value;
	size_t n;
	int how;

	for (how = RECIPE_HOW_ADDRESS; how <= RECIPE_HOW_VALUE; how++) {
		l.how = (enum recipe_how)how;
		layout__find(&l, file, &value, &err);
	}
	l.accessor = NULL;
	l.debug_type = (char *)"outer::holder";
	l.debug_member = (char *)"in";
	layout__find(&l, file, &value, &err);
	for (n = 0; n < 2; n++) {
		size_t count;

		t.getter = n ? (char *)"*e*" : NULL;
		if (pointer_table__find(&t, file, &at, &slots, &count, &err) == 1 &&
		    elf_file__function_at(file, slots[0], &start, &size) &&
		    slots[0] - start >= size)
			abort();
		free(slots);
	}
}

static int on_class(void *ctx, const struct vtable *v)
{
	unsigned *left = ctx;

	if (v->n_slots > VTABLE_MAX_SLOTS)
		abort();
	if (v->n_slots)
		elf_file__jumps_on(file, v->slots[v->n_slots - 1]);
	return --*left == 0;
}

static void ask_for_classes(void)
{
	static const char *const bases[] = { "rt::Kernel", "ns::B" };
	struct clika_error err;
	struct vtables *x;
	unsigned left = 200;
	size_t i;

	if (vtables__read(file, &x, &err))
		return;
	for (i = 0; i < sizeof(bases) / sizeof(bases[0]); i++)
		vtables__each(x, bases[i], on_class, &left, &err);
	vtables__free(x);
}

static const char recipe_text[] =
	"{ \"recipe\": 1, \"name\": \"t\", \"libraries\": [ { \"id\": \"a\", \"file\": \"*\" } ],"
	"  \"tables\": [ { \"name\": \"classes\", \"derived_from\": \"rt::Kernel\", "
	"\"follow_jumps\": "
	"true, \"slots\": { \"0\": \"a\", \"2\": \"compute\" } },"
	"              { \"name\": \"api\", \"slots\": { \"0\": \"first\", \"1\": \"second\" } } ],"
	"  \"functions\": [ { \"table\": \"classes\", \"match\": \"*::*\", \"name\": \"$1.$2\" },"
	"    { \"table\": \"api\", \"match\": \"*\" },"
	"    { \"match\": \"*a*\", \"name\": \"rt::$2\", \"cut_to_text\": \"_\" },"
	"    { \"match\": [ \"std::*::*\", \"*[e-g]*t*\" ], \"name\": \"lib$1\", "
	"\"cut_to_text\": \"t\" } ] }";

static int on_pick(void *ctx, const struct recipe_pick *p)
{
	unsigned *left = ctx;
	unsigned i;

	for (i = 0; i < p->rule->n_names; i++)
		if (strlen(p->names[i]) > 1 << 20)
			abort();
	return --*left == 0;
}

static void apply_a_recipe(void)
{
	static struct recipe *r;
	struct clika_error err;
	unsigned left = 1000;

	if (!r && recipe__parse(recipe_text, strlen(recipe_text), "t", &r, &err))
		abort();
	if (recipe__library_of(r, file, "lib") != 1)
		abort();
	recipe__pick(r, 1, file, NULL, on_pick, &left, NULL, NULL, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct clika_note note;
	struct clika_error err;
	unsigned left = 200;
	uint8_t bytes[32];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	if (elf_file__open(fd, "fuzz", &file, &err) == 0) {
		if (elf_file__clika(file, &note, &err) == 1)
			elf_file__read(file, note.probe_vaddr, bytes, sizeof(bytes));
		elf_file__soname(file);
		elf_file__exports(file, "malloc");
		elf_file__exports(file, "");
		elf_file__usdts(file, on_site, NULL, &err);
		elf_file__functions(file, "*a*", on_function, &left, NULL, &err);
		left = 200;
		elf_file__functions(file, "std::*", on_function, &left, NULL, &err);
		ask_for_layouts();
		ask_for_classes();
		apply_a_recipe();
		elf_file__close(file);
	}
	close(fd);
	return 0;
}
