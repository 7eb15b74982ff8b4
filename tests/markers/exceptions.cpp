// SPDX-License-Identifier: Apache-2.0
// Spans of C++: closed by exceptions, inside templates, lambdas, inline functions, destructors.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <clika/markers.h>
#include "tests/markers/records.h"
#include <stdexcept>
#include <string>
#include <vector>

#define REQUIRE(what)                                                                              \
	do {                                                                                       \
		if (!(what)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);         \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

extern "C" int part_a(int n, const char *dynamic);

namespace
{

static mark marks[256];

template <typename T> T twice(T v)
{
	CLIKA_SPAN("twice", CLIKA_U64("size", sizeof(T)));
	return v + v;
}

inline int inline_function(int n)
{
	CLIKA_SPAN("inline");
	return n + 1;
}

struct worker {
	std::string name;
	explicit worker(std::string n) : name(std::move(n))
	{
		CLIKA_INSTANT("made", CLIKA_STR("name", name.c_str()));
	}
	~worker()
	{
		CLIKA_INSTANT("unmade", CLIKA_STR("name", name.c_str()));
	}
	void fail(int depth)
	{
		CLIKA_SPAN("fail", CLIKA_I64("depth", depth));
		if (depth == 0)
			throw std::runtime_error("wanted");
		CLIKA_SPAN("plain");
		fail(depth - 1);
	}
};

enum class colour : int { red = 4 };

int check()
{
	int begins = 0, ends = 0, spans = 0, caught = 0;

	REQUIRE(marks__wait_unwatched(&clika_semaphore_v1) == 0);
	clika_semaphore_v1 = 1;
	{
		CLIKA_SPAN("outer");
		for (int i = 0; i < 3; i++) {
			try {
				worker w("w");
				w.fail(3);
			} catch (const std::runtime_error &) {
				caught++;
			}
		}
		auto lambda = [&](int n) {
			CLIKA_SPAN_DYN(std::to_string(n).c_str());
			return twice(n) + inline_function(n) + static_cast<int>(twice(1.5));
		};
		REQUIRE(lambda(2) == 4 + 3 + 3);
		CLIKA_COUNTER_I64("colour", colour::red);
		CLIKA_ASYNC_BEGIN("pointer", &caught, CLIKA_U64("p", &caught));
	}
	clika_semaphore_v1 = 0;
	clika_buffer *b = reinterpret_cast<clika_buffer *>(clika_object_v1.buffers);
	REQUIRE(caught == 3 && b && b->depth == 0 && b->dropped == 0 && b->flushed == 0);
	const int n = marks__decode(b, 0, b->head, marks, 256);
	REQUIRE(n == static_cast<int>(b->count) && n < 256);
	for (int i = 0; i < n; i++) {
		const mark &m = marks[i];

		begins += m.kind == CLIKA_REC_BEGIN;
		ends += m.kind == CLIKA_REC_END;
		spans += m.kind == CLIKA_REC_SPAN;
		if (m.kind == CLIKA_REC_BEGIN && !strcmp(m.name, "twice"))
			REQUIRE(m.args[0].i == 4 || m.args[0].i == 8);
		if (m.kind == CLIKA_REC_COUNTER_I64)
			REQUIRE(m.value == 4);
		if (m.kind == CLIKA_REC_ASYNC_BEGIN)
			REQUIRE(m.id == reinterpret_cast<uintptr_t>(&caught));
	}
	// outer, 3 x (4 "fail", 3 "plain" that a deeper begin announces), the lambda's 4
	REQUIRE(begins == ends && begins + spans == 1 + 3 * 7 + 4);
	REQUIRE(spans == 1);
	return 0;
}

} // namespace

int main()
{
	return check() || part_a(1, "x") != 2;
}
