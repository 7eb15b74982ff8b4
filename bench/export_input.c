// SPDX-License-Identifier: Apache-2.0
/*
 * A recording to measure exports with: a server whose workers run batches of layers and kernels,
 * with arguments, memory, requests and flows, as many spans as asked for.
 * Usage: export_input FILE SPANS
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "user/recording/writer.h"

#define WORKERS 4
#define LAYERS 12
#define SPANS_OF_BATCH (1 + 2 * LAYERS)
#define BATCHES_OF_BLOCK 32
#define ROOM (BATCHES_OF_BLOCK * (SPANS_OF_BATCH + LAYERS + 8))

struct load {
	struct recording_writer *w;
	struct strpool *pool;
	uint32_t worker[WORKERS];
	uint32_t batch, request, flow, layer_cat, kernel_cat, shape, flops, weights, layer[LAYERS];
	uint32_t kernel[LAYERS], src[LAYERS];
	uint64_t ts[WORKERS], requests;
	struct event ev[ROOM];
	struct event_arg args[ROOM][2];
	size_t n;
};

static struct event *add(struct load *l, uint8_t kind, uint64_t ts, uint32_t name)
{
	struct event *ev = &l->ev[l->n++];

	*ev = (struct event){ .kind = kind, .ts = ts, .name = name };
	return ev;
}

static void add_args(struct load *l, struct event *ev, uint64_t flops)
{
	struct event_arg *a = l->args[ev - l->ev];

	a[0] = (struct event_arg){ .key = l->shape, .type = ARG_STR, .len = 8, .str = "1x64x128" };
	a[1] = (struct event_arg){ .key = l->flops, .type = ARG_U64, .u = flops };
	ev->args = a;
	ev->nargs = 2;
}

static uint64_t add_layer(struct load *l, size_t i, uint64_t ts, uint64_t address)
{
	uint64_t kernel = 2000 + i * 300 + ts % 701;
	struct event *ev = add(l, EV_SPAN, ts, l->layer[i]);

	ev->dur = kernel + 900;
	ev->cat = l->layer_cat;
	ev->src = l->src[i];
	add_args(l, ev, 1000000 + i);
	ev = add(l, i % 2 ? EV_FREE : EV_ALLOC, ts + 100, 0);
	ev->id = address + i / 2 * 65536;
	ev->value = 4096 + i * 512;
	ev->pool = l->weights;
	ev = add(l, EV_SPAN, ts + 400, l->kernel[i]);
	ev->dur = kernel;
	ev->cat = l->kernel_cat;
	ev->src = l->src[i];
	return ts + kernel + 1000;
}

static void add_batch(struct load *l, size_t worker)
{
	uint64_t ts = l->ts[worker] + 500, id = ++l->requests, end = ts + 1000;
	struct event *batch = add(l, EV_SPAN, ts, l->batch);
	size_t i;

	add(l, EV_REQUEST_BEGIN, ts, l->request)->id = id;
	add(l, EV_FLOW_OUT, ts + 10, l->flow)->id = id;
	add(l, EV_FLOW_IN, ts + 500, l->flow)->id = id;
	for (i = 0; i < LAYERS; i++)
		end = add_layer(l, i, end, (worker + 1) << 32);
	add(l, EV_REQUEST_FIRST, end, l->request)->id = id;
	add(l, EV_REQUEST_END, end + 10, l->request)->id = id;
	batch->dur = end + 100 - ts;
	l->ts[worker] = end + 100;
}

static void name_all(struct load *l)
{
	char text[64];
	size_t i;

	l->batch = strpool__ids(l->pool, "batch");
	l->request = strpool__ids(l->pool, "generate");
	l->flow = strpool__ids(l->pool, "enqueue");
	l->layer_cat = strpool__ids(l->pool, "layer");
	l->kernel_cat = strpool__ids(l->pool, "kernel");
	l->shape = strpool__ids(l->pool, "shape");
	l->flops = strpool__ids(l->pool, "flops");
	l->weights = strpool__ids(l->pool, "activations");
	for (i = 0; i < LAYERS; i++) {
		snprintf(text, sizeof(text), "layer_%zu", i);
		l->layer[i] = strpool__ids(l->pool, text);
		snprintf(text, sizeof(text), "gemm_%zu", i);
		l->kernel[i] = strpool__ids(l->pool, text);
		snprintf(text, sizeof(text), "engine/layers.c:%zu", 100 + i * 7);
		l->src[i] = strpool__ids(l->pool, text);
	}
}

static int write_all(struct load *l, uint64_t spans, uint64_t begin)
{
	uint64_t made = 0;
	size_t worker = 0, i;

	for (; made < spans; worker = (worker + 1) % WORKERS) {
		l->n = 0;
		for (i = 0; i < BATCHES_OF_BLOCK && made < spans; i++, made += SPANS_OF_BATCH)
			add_batch(l, worker);
		if (writer__block(l->w, l->worker[worker], 0, l->ev, l->n, NULL, 0))
			return 1;
	}
	for (i = 0; i < WORKERS; i++)
		begin = l->ts[i] > begin ? l->ts[i] : begin;
	return writer__anchor(l->w,
			      &(struct clock_anchor){ .boottime = begin,
						      .realtime = 1700000000000000000ull + begin });
}

int main(int argc, char **argv)
{
	struct recording_meta meta = { .tool = (char *)"export_input" };
	struct writer_opts opts = { .owner = (uid_t)-1 };
	uint64_t spans = argc > 2 ? strtoull(argv[2], NULL, 10) : 0, begin = 3600 * NSEC_PER_SEC;
	struct process_info p = { .pid = 4711, .ns_pid = 4711, .comm = (char *)"server" };
	struct load *l = calloc(1, sizeof(*l));
	struct clika_error err = { 0 };
	uint32_t process, i;

	if (!l || !spans) {
		fprintf(stderr, "usage: export_input FILE SPANS\n");
		return 2;
	}
	l->pool = strpool__new(0, 0);
	name_all(l);
	if (writer__create(argv[1], &meta, l->pool, &opts, &l->w, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	if (writer__add_process(l->w, &p, &process) ||
	    writer__anchor(l->w, &(struct clock_anchor){ .boottime = begin,
							 .realtime = 1700000000000000000ull }))
		return 1;
	for (i = 0; i < WORKERS; i++) {
		struct thread_info t = { .process = process, .tid = 4711 + i, .ns_tid = 4711 + i };

		l->ts[i] = begin + 1000 * i;
		if (writer__add_thread(l->w, &t, &l->worker[i]))
			return 1;
	}
	if (write_all(l, spans, begin) || writer__finish(l->w, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	strpool__free(l->pool);
	free(l);
	return 0;
}
