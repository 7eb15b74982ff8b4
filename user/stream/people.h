/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes and threads as the stream meets them: identity from the kernel's records, details from
 * /proc while they live, definitions for the recording. What has ended is freed after a grace in
 * which records still under way can arrive, so a long recording does not grow with churn.
 */
#ifndef CLIKA_USER_STREAM_PEOPLE_H
#define CLIKA_USER_STREAM_PEOPLE_H

#include "include/wire.h"
#include "user/recording/writer.h"
#include "user/stream/chain.h"

struct person_thread;

/* A buffer of a target's thread (batched markers). */
struct thread_buffer {
	uint64_t addr, born, object;
	uint64_t expected; /* stream position up to which records were taken */
	uint64_t dropped;  /* of the target's counter, already reported */
	uint32_t file;     /* number in the file registry, UINT32_MAX = not known yet */
	bool positioned;   /* expected is meaningful */
	struct person_thread *thread;
	struct chain *chain;
	struct thread_buffer *next;
};

struct person_process {
	uint32_t tgid, exec_gen;
	uint64_t start;
	uint32_t lpid;  /* in the loader's pid namespace: what /proc calls it; 0 = not visible */
	uint32_t index; /* in the recording, UINT32_MAX = not written yet */
	struct process_info info;
	int64_t clock_ahead; /* see struct wire_process; of its own times it is taken off */
	bool detailed;       /* /proc was asked */
	uint32_t args_at;    /* see struct wire_process; 0 = not told */
	uint64_t ended;
	uint32_t alive_threads; /* entries below that have not ended */
	struct person_thread *threads;
	struct person_process *next_same_tgid;
	uint64_t recorded; /* records taken, for the accounting by process */
	/* clika objects that it maps, at run-time addresses */
	struct marked_object {
		uint64_t addr;
		uint32_t file;
	} * objects;
	unsigned n_objects;
};

/* A call of a probed function that has not returned: what its return needs to know. */
struct call_frame {
	uint64_t sp, start, child_ns;
	uint32_t func;
	uint8_t n_vals, faults, texts;
	uint16_t data_bytes;
	uint8_t *data; /* n_vals values, then the texts; NULL = the return needs none */
};

struct person_thread {
	uint32_t tid, ns_tid;
	uint64_t start;
	uint32_t index;
	struct person_process *process;
	struct thread_info info;
	bool named_by_marker;
	uint64_t ended;      /* ns, 0 = alive */
	uint64_t ended_pass; /* drain pass in which the end was seen */
	struct thread_buffer *buffers;
	struct chain *hits, *calls;
	struct call_frame *frames; /* outermost first */
	uint32_t n_frames, cap_frames;
	struct last_call {
		uint64_t sp;
		uint32_t func;
		bool is_return, parity;
	} last_call;
	uint64_t probe_hits;            /* of functions, since the budget looked last */
	uint64_t probe_cpu_ns;          /* CPU time at that look, 0 = not known */
	struct person_thread *next;     /* of the process */
	struct person_thread *next_all; /* all threads with chains */
	struct person_thread **prev_all;
};

/* The innermost frame goes. */
void person_thread__drop_frame(struct person_thread *th, struct chain_env *env);

struct people;
struct people_opts {
	struct recording_writer *w;
	struct chain_env *env;
	bool redact;
};

struct people *people__new(const struct people_opts *o);
void people__free(struct people *p);

/* The process image @t belongs to, made when new. @wp: what BPF told of it, may be NULL. */
struct person_process *people__process(struct people *p, const struct wire_task *t,
				       const struct wire_process *wp);
struct person_process *people__find_process(struct people *p, const struct wire_task *t);
struct person_thread *people__thread(struct people *p, const struct wire_task *t, const char *comm);
struct person_thread *people__find_thread(struct people *p, const struct wire_task *t);
/* Asks /proc about the process now, before it can have become another image. */
void people__look(struct people *p, struct person_process *proc);
/* Index of the process in the recording; writes its definition first when needed. */
uint32_t people__index(struct people *p, struct person_process *proc);
/* Newest image under a tgid with this start (0 = any). */
struct person_process *people__newest(struct people *p, uint32_t tgid, uint64_t start);

/* The buffer at @addr of @th; a new @born under a known address starts a new stream. */
/* Remembers an object of the process; true when it is new. */
bool people__add_object(struct person_process *proc, uint64_t addr, uint32_t file);
struct thread_buffer *people__buffer(struct people *p, struct person_thread *th, uint64_t addr,
				     uint64_t born);

void people__rename(struct people *p, struct person_thread *th, const char *name, size_t len,
		    bool by_marker);
void people__label(struct people *p, struct person_process *proc, const char *label, size_t len);
void people__thread_ended(struct people *p, struct person_thread *th, uint64_t ts, uint64_t pass);
void people__process_ended(struct people *p, struct person_process *proc, uint64_t ts, int status);

int people__flush(struct people *p); /* all chains into the writer */
/* Frees what ended before drain pass @before. */
void people__reap(struct people *p, uint64_t before);

/* Frees a process that has ended without ever marking anything. */
void people__forget_quiet(struct people *p, struct person_process *proc);

size_t people__n_processes(const struct people *p); /* that are in the recording so far */
size_t people__n_threads(const struct people *p);
/* Living processes / their threads; non-zero from @fn stops. */
int people__each_process(struct people *p, int (*fn)(void *ctx, struct person_process *proc),
			 void *ctx);

#endif
