// SPDX-License-Identifier: Apache-2.0
#include "tests/common/decode_bench.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int decode_bench__open(struct decode_bench *b, uint64_t not_before, bool redact)
{
	struct recording_meta m = { .tool = "test", .version = "0" };
	struct writer_opts wo = { .owner = (uid_t)-1 };
	struct files_opts fo = { .markers = true };
	struct people_opts po = { .env = &b->env, .redact = redact };
	struct decoder_opts o = { .env = &b->env, .not_before = not_before, .redact = redact };
	int fd, ret;

	memset(b, 0, sizeof(*b));
	b->pool = strpool__new(10000, 1 << 20);
	fd = memfd_create("decode", MFD_CLOEXEC);
	b->fd = dup(fd);
	ret = writer__create_fd(fd, &m, b->pool, &wo, &b->env.w, NULL);
	if (ret)
		return ret;
	b->env.next_stream = 1;
	po.w = b->env.w;
	ret = files__new(&fo, &b->files, NULL);
	if (ret)
		return ret;
	b->people = people__new(&po);
	b->names = names__new(b->pool, b->files, NULL, 0);
	o.people = b->people;
	o.names = b->names;
	o.files = b->files;
	o.w = b->env.w;
	b->d = decoder__new(&o);
	return b->d ? 0 : -ENOMEM;
}

int decode_bench__finish(struct decode_bench *b)
{
	int ret = people__flush(b->people);

	decoder__captures_close(b->d, UINT64_MAX / 2);
	if (!ret)
		ret = writer__finish(b->env.w, NULL);
	else
		writer__abort(b->env.w);
	b->env.w = NULL;
	return ret;
}

void decode_bench__close(struct decode_bench *b)
{
	decoder__free(b->d);
	people__free(b->people);
	names__free(b->names);
	files__free(b->files);
	writer__abort(b->env.w);
	strpool__free(b->pool);
	close(b->fd);
}
