// SPDX-License-Identifier: Apache-2.0
#include "user/recording/info_codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "user/recording/format.h"

/* Length + 1, bytes; 0 for a string that is not known. */
static void put_string(struct buf *b, const char *s)
{
	size_t n;

	if (!s) {
		buf__varint(b, 0);
		return;
	}
	n = strnlen(s, FMT_MAX_STRING);
	buf__varint(b, n + 1);
	buf__append(b, s, n);
}

struct decoder {
	struct cursor *c;
	bool no_memory;
};

static char *get_string(struct decoder *d)
{
	uint64_t n = cursor__varint(d->c);
	const uint8_t *p;
	char *s;

	if (!n)
		return NULL;
	if (n - 1 > FMT_MAX_STRING) {
		d->c->bad = true;
		return NULL;
	}
	p = cursor__bytes(d->c, (size_t)n - 1);
	if (!p)
		return NULL;
	s = malloc((size_t)n);
	if (!s) {
		d->no_memory = true;
		return NULL;
	}
	memcpy(s, p, (size_t)n - 1);
	s[n - 1] = '\0';
	return s;
}

static char *get_string_or_empty(struct decoder *d)
{
	char *s = get_string(d);

	if (!s && !d->c->bad && !d->no_memory) {
		s = strdup("");
		d->no_memory = !s;
	}
	return s;
}

static uint32_t get_u32(struct decoder *d)
{
	uint64_t v = cursor__varint(d->c);

	if (v > UINT32_MAX) {
		d->c->bad = true;
		return 0;
	}
	return (uint32_t)v;
}

static int32_t get_s32(struct decoder *d)
{
	int64_t v = cursor__svarint(d->c);

	if (v > INT32_MAX || v < INT32_MIN) {
		d->c->bad = true;
		return 0;
	}
	return (int32_t)v;
}

static int decoder__error(const struct decoder *d)
{
	if (d->no_memory)
		return -ENOMEM;
	return d->c->bad ? -EBADMSG : 0;
}

void process_info__encode(struct buf *b, uint32_t index, const struct process_info *p)
{
	buf__varint(b, index);
	buf__varint(b, p->pid);
	buf__varint(b, p->ppid);
	buf__varint(b, p->ns_pid);
	buf__varint(b, p->uid);
	buf__varint(b, p->start);
	buf__varint(b, p->exec_gen);
	buf__varint(b, p->first_seen);
	buf__varint(b, p->ended);
	buf__svarint(b, p->exit_code);
	put_string(b, p->comm);
	put_string(b, p->exe);
	put_string(b, p->cmdline);
	put_string(b, p->cgroup);
	put_string(b, p->container);
	put_string(b, p->label);
}

int process_info__decode(struct cursor *c, uint32_t *index, struct process_info *p)
{
	struct decoder d = { c, false };
	int err;

	*index = get_u32(&d);
	p->pid = get_u32(&d);
	p->ppid = get_u32(&d);
	p->ns_pid = get_u32(&d);
	p->uid = get_u32(&d);
	p->start = cursor__varint(c);
	p->exec_gen = get_u32(&d);
	p->first_seen = cursor__varint(c);
	p->ended = cursor__varint(c);
	p->exit_code = get_s32(&d);
	p->comm = get_string(&d);
	p->exe = get_string(&d);
	p->cmdline = get_string(&d);
	p->cgroup = get_string(&d);
	p->container = get_string(&d);
	p->label = get_string(&d);
	err = decoder__error(&d);
	if (err)
		process_info__clear(p);
	return err;
}

void process_info__clear(struct process_info *p)
{
	free(p->comm);
	free(p->exe);
	free(p->cmdline);
	free(p->cgroup);
	free(p->container);
	free(p->label);
	*p = (struct process_info){ 0 };
}

void thread_info__encode(struct buf *b, uint32_t index, const struct thread_info *t)
{
	buf__varint(b, index);
	buf__varint(b, t->process);
	buf__varint(b, t->tid);
	buf__varint(b, t->ns_tid);
	buf__varint(b, t->start);
	buf__varint(b, t->ended);
	put_string(b, t->name);
}

int thread_info__decode(struct cursor *c, uint32_t *index, struct thread_info *t)
{
	struct decoder d = { c, false };
	int err;

	*index = get_u32(&d);
	t->process = get_u32(&d);
	t->tid = get_u32(&d);
	t->ns_tid = get_u32(&d);
	t->start = cursor__varint(c);
	t->ended = cursor__varint(c);
	t->name = get_string(&d);
	err = decoder__error(&d);
	if (err)
		thread_info__clear(t);
	return err;
}

void thread_info__clear(struct thread_info *t)
{
	free(t->name);
	*t = (struct thread_info){ 0 };
}

void recording_meta__encode(struct buf *b, const struct recording_meta *m)
{
	put_string(b, m->tool);
	put_string(b, m->version);
	put_string(b, m->command);
	put_string(b, m->host);
	put_string(b, m->kernel);
	put_string(b, m->arch);
	put_string(b, m->machine_id);
	put_string(b, m->targets);
	buf__varint(b, m->cpus);
	buf__varint(b, m->page_size);
	buf__varint(b, m->ram_bytes);
	buf__varint(b, m->created_realtime);
}

int recording_meta__decode(struct cursor *c, struct recording_meta *m)
{
	struct decoder d = { c, false };
	int err;

	m->tool = get_string(&d);
	m->version = get_string(&d);
	m->command = get_string(&d);
	m->host = get_string(&d);
	m->kernel = get_string(&d);
	m->arch = get_string(&d);
	m->machine_id = get_string(&d);
	m->targets = get_string(&d);
	m->cpus = get_u32(&d);
	m->page_size = get_u32(&d);
	m->ram_bytes = cursor__varint(c);
	m->created_realtime = cursor__varint(c);
	err = decoder__error(&d);
	if (err)
		recording_meta__clear(m);
	return err;
}

int recording_meta__fill_empty(struct recording_meta *m)
{
	char **fields[] = { &m->tool,   &m->version, &m->command,    &m->host,
			    &m->kernel, &m->arch,    &m->machine_id, &m->targets };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(fields); i++) {
		if (*fields[i])
			continue;
		*fields[i] = strdup("");
		if (!*fields[i])
			return -ENOMEM;
	}
	return 0;
}

void recording_meta__clear(struct recording_meta *m)
{
	free(m->tool);
	free(m->version);
	free(m->command);
	free(m->host);
	free(m->kernel);
	free(m->arch);
	free(m->machine_id);
	free(m->targets);
	*m = (struct recording_meta){ 0 };
}

/* Index + 1, 0 for UINT32_MAX: what is not known costs one byte. */
static void put_process(struct buf *b, uint32_t process)
{
	buf__varint(b, (uint32_t)(process + 1));
}

static uint32_t get_process(struct decoder *d)
{
	return get_u32(d) - 1;
}

void loss_info__encode(struct buf *b, const struct loss_info *l)
{
	put_process(b, l->process);
	buf__svarint(b, l->cpu);
	buf__varint(b, l->cause);
	buf__varint(b, l->records);
	buf__varint(b, l->at_most);
	put_string(b, l->probe);
}

int loss_info__decode(struct cursor *c, struct loss_info *l)
{
	struct decoder d = { c, false };
	int err;

	l->process = get_process(&d);
	l->cpu = get_s32(&d);
	l->cause = (uint16_t)get_u32(&d);
	l->records = cursor__varint(c);
	l->at_most = cursor__varint(c);
	l->probe = get_string(&d);
	err = decoder__error(&d);
	if (err)
		loss_info__clear(l);
	return err;
}

void loss_info__clear(struct loss_info *l)
{
	free(l->probe);
	*l = (struct loss_info){ 0 };
}

void count_info__encode(struct buf *b, const struct count_info *n)
{
	buf__varint(b, n->emitted);
	buf__varint(b, n->recorded);
	buf__varint(b, n->lost);
	buf__varint(b, n->filtered);
}

int count_info__decode(struct cursor *c, struct count_info *n)
{
	n->emitted = cursor__varint(c);
	n->recorded = cursor__varint(c);
	n->lost = cursor__varint(c);
	n->filtered = cursor__varint(c);
	return c->bad ? -EBADMSG : 0;
}

void capture_info__encode(struct buf *b, const struct capture_info *i)
{
	buf__varint(b, i->id);
	put_process(b, i->process);
	buf__varint(b, i->begin);
	buf__varint(b, i->end);
	put_string(b, i->tag);
}

int capture_info__decode(struct cursor *c, struct capture_info *i)
{
	struct decoder d = { c, false };
	int err;

	i->id = cursor__varint(c);
	i->process = get_process(&d);
	i->begin = cursor__varint(c);
	i->end = cursor__varint(c);
	i->tag = get_string_or_empty(&d);
	err = decoder__error(&d);
	if (err)
		capture_info__clear(i);
	return err;
}

void capture_info__clear(struct capture_info *i)
{
	free(i->tag);
	*i = (struct capture_info){ 0 };
}

void clock_anchor__encode(struct buf *b, const struct clock_anchor *a)
{
	buf__varint(b, a->boottime);
	buf__varint(b, a->monotonic);
	buf__varint(b, a->monotonic_raw);
	buf__varint(b, a->realtime);
	buf__varint(b, a->monotonic_coarse);
}

int clock_anchor__decode(struct cursor *c, struct clock_anchor *a)
{
	a->boottime = cursor__varint(c);
	a->monotonic = cursor__varint(c);
	a->monotonic_raw = cursor__varint(c);
	a->realtime = cursor__varint(c);
	a->monotonic_coarse = cursor__varint(c);
	return c->bad ? -EBADMSG : 0;
}

void warning_info__encode(struct buf *b, const char *code, const char *text)
{
	put_string(b, code);
	put_string(b, text);
}

int warning_info__decode(struct cursor *c, struct warning_info *w)
{
	struct decoder d = { c, false };
	int err;

	w->code = get_string_or_empty(&d);
	w->text = get_string_or_empty(&d);
	err = decoder__error(&d);
	if (err)
		warning_info__clear(w);
	return err;
}

void warning_info__clear(struct warning_info *w)
{
	free(w->code);
	free(w->text);
	*w = (struct warning_info){ 0 };
}
