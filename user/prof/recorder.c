// SPDX-License-Identifier: Apache-2.0
/* The life of a recorder: options, set-up, start, captures, stop. */
#include "user/prof/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define DEFAULT_RING (16u << 20)
#define DEFAULT_MEMORY (256u << 20)
#define MAX_NAMES (1u << 18)
#define MAX_NAME_BYTES (48u << 20)
#define FLUSH_EVERY NSEC_PER_SEC
#define ANCHOR_EVERY (5 * NSEC_PER_SEC)
#define LOOK_EVERY (50 * NSEC_PER_MSEC)
#define BUSY_WAIT_MS 10
#define IDLE_WAIT_MS 50
#define MAX_SINGLE_FUNCS 64
#define DEFAULT_BUDGET 0.1

void clika_recorder_opts__init(struct clika_recorder_opts *o)
{
	memset(o, 0, sizeof(*o));
	o->sz = sizeof(*o);
	o->uid = -1;
	o->on_behalf = -1;
	o->owner = (uid_t)-1;
	o->group = (gid_t)-1;
}

int prof_error__set(struct clika_prof_error *to, int code, const struct clika_error *from)
{
	if (to) {
		to->code = code;
		snprintf(to->msg, sizeof(to->msg), "%s",
			 from && from->msg[0] ? from->msg : strerror(-code));
	}
	return code;
}

static void log_line(void *ctx, enum log_level level, const char *area, const char *line)
{
	struct clika_recorder *r = ctx;

	if (r->o.log)
		r->o.log(r->o.log_ctx, (int)level, area, line);
}

static size_t power_of_two(size_t n)
{
	size_t p = sysconf(_SC_PAGESIZE);

	while (p < n && p < (size_t)1 << 31)
		p <<= 1;
	return p;
}

static int check_opts(const struct clika_recorder_opts *o, struct clika_error *err)
{
	const char *star;

	if (o->sz < sizeof(*o))
		return error__set(err, -EINVAL,
				  "clika_recorder_opts: size %zu is not this library's %zu", o->sz,
				  sizeof(*o));
	if (o->target == CLIKA_TARGET_PIDS && !o->n_pids)
		return error__set(err, -EINVAL, "no process is named");
	if (o->target == CLIKA_TARGET_COMMAND && (!o->argv || !o->argv[0]))
		return error__set(err, -EINVAL, "no command is given");
	if (o->retprobe && o->target == CLIKA_TARGET_SYSTEM)
		return error__set(err, -EINVAL,
				  "return probes can end the processes they are put into: name "
				  "the process (-p) or the command");
	star = o->comm ? strpbrk(o->comm, "*?[") : NULL;
	if (star && (*star != '*' || star[1]))
		return error__set(err, -EINVAL,
				  "command name filter '%s': NAME or NAME*, since the kernel side "
				  "decides it",
				  o->comm);
	if (o->no_markers && !o->n_probes && !o->n_usdts && o->no_auto && !o->n_recipes)
		return error__set(err, -EINVAL,
				  "nothing to record: markers are left out and no probe is named");
	return 0;
}

/* --- recording file ----------------------------------------------------------------------------- */

static char *read_line(const char *path)
{
	char *text = NULL;
	size_t len;

	if (file__read_all(-1, path, 4096, &text, &len))
		return NULL;
	text[strcspn(text, "\n")] = 0;
	return text;
}

static char *own_command_line(void)
{
	char *text = NULL;
	size_t len;

	if (file__read_all(-1, "/proc/self/cmdline", 65536, &text, &len))
		return NULL;
	for (size_t i = 0; i + 1 < len; i++)
		if (!text[i])
			text[i] = ' ';
	return text;
}

static char *describe_targets(const struct clika_recorder_opts *o)
{
	struct buf b = { 0 };

	switch (o->target) {
	case CLIKA_TARGET_SYSTEM:
		buf__printf(&b, "the whole machine");
		break;
	case CLIKA_TARGET_PIDS:
		buf__printf(&b, "pid");
		for (size_t i = 0; i < o->n_pids; i++)
			buf__printf(&b, "%s%d", i ? ", " : " ", (int)o->pids[i]);
		break;
	case CLIKA_TARGET_COMMAND:
		buf__printf(&b, "command");
		for (size_t i = 0; o->argv[i] && !(o->redact && i > 0); i++)
			buf__printf(&b, " %s", o->argv[i]);
		break;
	}
	buf__u8(&b, 0);
	if (buf__error(&b)) {
		buf__free(&b);
		return NULL;
	}
	return (char *)b.data;
}

static int open_writer(struct clika_recorder *r, struct clika_error *err)
{
	struct writer_opts wo = { .owner = r->o.owner,
				  .group = r->o.group,
				  .max_bytes = r->o.max_bytes,
				  .drop_oldest = r->o.drop_oldest };
	struct recording_meta m = { 0 };
	struct clock_anchor now;
	struct utsname u;
	char text[512];
	int ret;

	uname(&u);
	clock__anchor(&now);
	snprintf(text, sizeof(text), "%s %s", u.release, u.version);
	m.tool = "clika-bpf-prof";
	m.version = CLIKA_PROF_VERSION;
	/* Whoever opens its own captures records for others: how it was started tells them nothing. */
	m.command = r->o.redact || r->o.no_capture ? NULL : own_command_line();
	m.host = u.nodename;
	m.kernel = text;
	m.arch = u.machine;
	m.machine_id = read_line("/proc/sys/kernel/random/boot_id");
	m.targets = describe_targets(&r->o);
	m.cpus = sysconf(_SC_NPROCESSORS_ONLN);
	m.page_size = sysconf(_SC_PAGESIZE);
	m.ram_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * m.page_size;
	m.created_realtime = now.realtime;
	if (r->path) {
		ret = writer__create(r->path, &m, r->pool, &wo, &r->w, err);
	} else {
		int fd = open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

		if (fd < 0)
			fd = memfd_create("clika-recording", MFD_CLOEXEC);
		r->recording_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
		ret = fd < 0 ? error__set(err, -errno, "cannot make an unnamed file: %s",
					  strerror(errno))
			     : writer__create_fd(fd, &m, r->pool, &wo, &r->w, err);
	}
	free(m.command);
	free(m.machine_id);
	free(m.targets);
	return ret;
}

/* --- set-up --------------------------------------------------------------------------------------- */

static void on_warning(void *ctx, const char *code, const char *text)
{
	struct clika_recorder *r = ctx;

	writer__warning(r->w, code, text);
}

static void tell(void *ctx, const char *line)
{
	struct clika_recorder *r = ctx;

	writer__warning(r->w, "recipe", line);
	if (r->o.note)
		r->o.note(r->o.note_ctx, line);
	else
		logger__log(&r->log, LOG_INFO, "attach", "%s", line);
}

static void on_implausible(void *ctx, const struct func_probe *f, const struct recipe_arg *a)
{
	struct clika_recorder *r = ctx;
	char text[400];

	snprintf(text, sizeof(text),
		 "recipe %s: argument %s of %s is left out: what lies there is none (another "
		 "version of "
		 "the runtime?)",
		 f->kind->recipe->name, a->name, f->name);
	/* A rule may cover thousands of functions: one line an argument is enough. */
	for (size_t i = 0; i < r->n_told_args; i++)
		if (r->told_args[i] == a)
			return;
	if (r->n_told_args < ARRAY_SIZE(r->told_args))
		r->told_args[r->n_told_args++] = a;
	writer__warning(r->w, "recipe-argument", text);
	logger__log(&r->log, LOG_WARN, "recipe", "%s", text);
}

static int cgroup_of(const char *path, uint64_t *id, unsigned *level, struct clika_error *err)
{
	char full[4200];
	struct stat st;
	const char *p;

	while (*path == '/')
		path++;
	if (!strncmp(path, "sys/fs/cgroup/", 14))
		path += 14;
	snprintf(full, sizeof(full), "/sys/fs/cgroup/%s", path);
	if (stat(full, &st) || !S_ISDIR(st.st_mode))
		return error__set(err, -ENOENT, "no cgroup '%s' below /sys/fs/cgroup", path);
	*level = *path ? 1 : 0;
	for (p = path; *p; p++)
		if (*p == '/' && p[1])
			(*level)++;
	*id = st.st_ino;
	return 0;
}

static int open_kernel(struct clika_recorder *r, struct clika_error *err)
{
	struct attach_opts ao = { .ring_bytes = power_of_two(r->o.ring_bytes ? r->o.ring_bytes
									     : DEFAULT_RING),
				  .system = r->o.target == CLIKA_TARGET_SYSTEM,
				  .follow = !r->o.no_follow,
				  .guarded = r->o.on_behalf >= 0,
				  .uid = r->o.uid,
				  .comm = r->o.comm,
				  .blocks = recipes__keep_blocks(r->recipes),
				  .log = &r->log };
	char missing[400];
	int ret = 0;

	features__probe(&r->features, err);
	if (features__missing(&r->features, missing, sizeof(missing)))
		return error__set(err, -EPERM, "%s", missing);
	if (r->o.cgroup)
		ret = cgroup_of(r->o.cgroup, &ao.cgroup_id, &ao.cgroup_level, err);
	return ret ? ret : attacher__new(&r->features, &ao, &r->attacher, err);
}

static int open_recipes(struct clika_recorder *r, struct clika_error *err)
{
	__cleanup_free char *dir = r->o.no_recipe_files ? NULL : recipes__user_dir();
	struct recipes_opts o = { .automatic = !r->o.no_auto,
				  .wanted = r->o.recipes,
				  .n_wanted = r->o.n_recipes,
				  .names_only = r->o.no_recipe_files,
				  .user_dir = dir };

	return recipes__open(&o, &r->log, &r->recipes, err);
}

static int open_stream(struct clika_recorder *r, struct clika_error *err)
{
	struct files_opts fo = { .attacher = r->attacher,
				 .log = &r->log,
				 .markers = !r->o.no_markers,
				 .probes = r->o.probes,
				 .n_probes = r->o.n_probes,
				 .usdts = r->o.usdts,
				 .n_usdts = r->o.n_usdts,
				 .retprobe = r->o.retprobe,
				 .max_single_funcs = MAX_SINGLE_FUNCS,
				 .recipes = r->recipes,
				 .told = tell,
				 .warn = on_warning,
				 .warn_ctx = r };
	struct people_opts po = { .env = &r->env, .redact = r->o.redact };
	struct decoder_opts d = { .files = NULL, .redact = r->o.redact, .env = &r->env };
	int ret;

	if (r->o.no_follow && r->o.target == CLIKA_TARGET_PIDS && r->o.n_pids == 1)
		fo.only_pid = r->o.pids[0];
	ret = files__new(&fo, &r->files, err);
	if (ret)
		return ret;
	ret = open_writer(r, err);
	if (ret)
		return ret;
	r->env.w = r->w;
	r->env.min_duration_ns = r->o.min_duration_ns;
	r->env.next_stream = 1;
	po.w = r->w;
	r->people = people__new(&po);
	r->names = names__new(r->pool, r->files, r->o.names, r->o.n_names);
	if (!r->people || !r->names)
		return error__set(err, -ENOMEM, "out of memory");
	d.people = r->people;
	d.names = r->names;
	d.files = r->files;
	d.w = r->w;
	d.not_before = r->attach_ts;
	r->decoder = decoder__new(&d);
	if (!r->decoder)
		return error__set(err, -ENOMEM, "out of memory");
	decoder__on_implausible(r->decoder, on_implausible, r);
	return ring__new(r->attacher, recorder__on_record, r, &r->ring, err);
}

static int open_waits(struct clika_recorder *r, struct clika_error *err)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ret;

	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll < 0 || epoll_ctl(r->epoll, EPOLL_CTL_ADD, ring__fd(r->ring), &ev))
		return error__set(err, -errno, "cannot make an epoll descriptor: %s",
				  strerror(errno));
	ret = mmaps__new(&r->mmaps, err);
	if (ret) {
		/* Files that are mapped already can still be recorded. */
		writer__warning(r->w, "no-mappings",
				"new mappings cannot be seen: libraries loaded and "
				"programs started later are not attached");
		logger__log(&r->log, LOG_WARN, "attach", "%s", err ? err->msg : "");
		if (err)
			memset(err, 0, sizeof(*err));
		return 0;
	}
	if (epoll_ctl(r->epoll, EPOLL_CTL_ADD, mmaps__fd(r->mmaps), &ev))
		return error__set(err, -errno, "cannot wait for events: %s", strerror(errno));
	return 0;
}

static void anchor(struct clika_recorder *r)
{
	struct clock_anchor a;

	clock__anchor(&a);
	writer__anchor(r->w, &a);
	r->last_anchor = a.boottime;
}

static int attach_all(struct clika_recorder *r, struct clika_error *err)
{
	uid_t uid = (uid_t)-1;
	int ret;

	ret = attacher__hooks(r->attacher, err);
	if (ret)
		return ret;
	if (r->o.target == CLIKA_TARGET_COMMAND) {
		if (!r->o.stay_root && geteuid() == 0)
			uid = r->o.owner;
		ret = command__prepare(&r->command, r->o.argv, uid, r->o.group, err);
		if (ret)
			return ret;
	}
	ret = recorder__find_targets(r, err);
	return ret ? ret : recorder__scan_targets(r, err);
}

static int setup(struct clika_recorder *r, struct clika_error *err)
{
	char path[4200];
	size_t memory = r->o.memory_bytes ? r->o.memory_bytes : DEFAULT_MEMORY;
	int ret;

	r->pending_limit = memory / 64;
	r->attach_ts = clock__boottime_ns();
	r->pool = strpool__new(MAX_NAMES, MAX_NAME_BYTES);
	r->tag = strdup(r->o.tag && *r->o.tag ? r->o.tag : "default");
	if (!r->pool || !r->tag)
		return error__set(err, -ENOMEM, "out of memory");
	if (r->o.output_dir) {
		snprintf(path, sizeof(path), "%s/recording.clika", r->o.output_dir);
		r->path = strdup(path);
		if (!r->path)
			return error__set(err, -ENOMEM, "out of memory");
		if (!r->o.overwrite && !access(path, F_OK))
			return error__set(err, -EEXIST, "%s exists already", path);
	}
	ret = open_recipes(r, err);
	if (!ret)
		ret = open_kernel(r, err);
	if (!ret)
		ret = open_stream(r, err);
	if (!ret && r->o.budget >= 0) {
		r->budget = budget__new(r->o.budget > 0 ? r->o.budget : DEFAULT_BUDGET);
		if (!r->budget)
			ret = error__set(err, -ENOMEM, "out of memory");
	}
	if (!ret)
		ret = open_waits(r, err);
	if (!ret)
		ret = attach_all(r, err);
	return ret;
}

int clika_recorder__new(const struct clika_recorder_opts *o, struct clika_recorder **out,
			struct clika_prof_error *perr)
{
	struct clika_error err = { 0 };
	struct clika_recorder *r;
	int ret;

	*out = NULL;
	ret = check_opts(o, &err);
	if (ret)
		return prof_error__set(perr, ret, &err);
	r = calloc(1, sizeof(*r));
	if (!r)
		return prof_error__set(perr, -ENOMEM, NULL);
	r->o = *o;
	r->epoll = r->recording_fd = r->command.go = r->command.failed = -1;
	r->log = (struct logger){ log_line, r, LOG_DEBUG };
	ret = setup(r, &err);
	if (ret) {
		/* Nothing was recorded: what open_writer() made is of no use to anybody. */
		if (r->w && r->path)
			unlink(r->path);
		clika_recorder__free(r, NULL, NULL);
		return prof_error__set(perr, ret, &err);
	}
	*out = r;
	return 0;
}

/* --- running --------------------------------------------------------------------------------------- */

int clika_recorder__start(struct clika_recorder *r, struct clika_prof_error *perr)
{
	struct clika_error err = { 0 };
	int ret;

	if (r->started)
		return prof_error__set(perr, -EALREADY, NULL);
	anchor(r);
	r->start_ts = r->last_flush = clock__boottime_ns();
	r->capture_at = r->start_ts + r->o.delay_ns;
	if (!r->o.delay_ns && !r->o.no_capture)
		r->capture = decoder__capture_begin(r->decoder, r->tag, r->start_ts);
	r->started = true;
	if (r->command.pid) {
		ret = command__go(&r->command, recorder__at_entry, r, &err);
		if (ret)
			return prof_error__set(perr, ret, &err);
	}
	return 0;
}

static int housekeeping(struct clika_recorder *r, struct clika_error *err)
{
	uint64_t now = clock__boottime_ns();
	int ret = 0;

	if (!r->capture && !r->o.no_capture && r->started && now >= r->capture_at)
		r->capture = decoder__capture_begin(r->decoder, r->tag, now);
	if (now - r->last_flush >= FLUSH_EVERY) {
		/* Ends of threads are kept for two passes: records may still be on their way. */
		people__reap(r->people, r->pass > 2 ? r->pass - 2 : 0);
		ret = recorder__write_out(r, err);
		recorder__account(r, false);
		if (!ret && writer__flush(r->w))
			ret = recorder__write_out(r, err);
	}
	if (now - r->last_anchor >= ANCHOR_EVERY)
		anchor(r);
	if (!ret && r->budget)
		budget__look(r->budget, r);
	if (!ret && now - r->last_look >= LOOK_EVERY) {
		r->last_look = now;
		if (!recorder__targets_left(r))
			r->ended = true;
	}
	return ret;
}

int clika_recorder__poll(struct clika_recorder *r, int timeout_ms, struct clika_prof_error *perr)
{
	uint64_t until =
		clock__boottime_ns() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * NSEC_PER_MSEC;
	struct clika_error err = { 0 };
	struct epoll_event ev[4];
	int ret, wait;

	if (r->stopped)
		return 0;
	for (;;) {
		recorder__new_mappings(r);
		ret = recorder__drain(r, &err);
		if (!ret)
			ret = housekeeping(r, &err);
		if (ret)
			return prof_error__set(perr, ret, &err);
		if (r->full || r->ended)
			return 0;
		wait = r->idle > 20 ? IDLE_WAIT_MS : BUSY_WAIT_MS;
		if (clock__boottime_ns() >= until)
			return 1;
		if (epoll_wait(r->epoll, ev, ARRAY_SIZE(ev), wait) < 0) {
			if (errno == EINTR)
				return 1;
			return prof_error__set(perr, -errno, NULL);
		}
	}
}

int clika_recorder__fd(const struct clika_recorder *r)
{
	return r->epoll;
}

int64_t clika_recorder__capture_begin(struct clika_recorder *r, const char *tag,
				      struct clika_prof_error *perr)
{
	uint64_t id = decoder__capture_begin(r->decoder, tag && *tag ? tag : "default",
					     clock__boottime_ns());

	return id ? (int64_t)id : prof_error__set(perr, -ENOMEM, NULL);
}

int clika_recorder__capture_end(struct clika_recorder *r, int64_t id, struct clika_prof_error *perr)
{
	struct clika_error err = { 0 };
	int ret = decoder__capture_end(r->decoder, id, clock__boottime_ns());

	if (ret == -ENOENT)
		error__set(&err, ret, "no open capture with id %lld", (long long)id);
	return ret ? prof_error__set(perr, ret, &err) : 0;
}

int clika_recorder__flush(struct clika_recorder *r, struct clika_prof_error *perr)
{
	struct clika_error err = { 0 };
	int ret = recorder__barrier(r, &err);

	recorder__account(r, false);
	if (!ret)
		ret = writer__flush(r->w);
	return ret ? prof_error__set(perr, ret, &err) : 0;
}

static void warn_unmatched(struct clika_recorder *r)
{
	const char *pattern;
	char text[600];

	for (size_t i = 0; (pattern = files__unmatched(r->files, i)); i++) {
		snprintf(text, sizeof(text), "'%s' matched nothing in any file of the targets",
			 pattern);
		writer__warning(r->w, "unmatched", text);
		logger__log(&r->log, LOG_WARN, "attach", "%s", text);
	}
}

static void warn_full(struct clika_recorder *r)
{
	char text[160];

	if (!r->full)
		return;
	snprintf(text, sizeof(text),
		 "the recording reached its size limit (--max-size) after %.3f s: what came later "
		 "is "
		 "not in it",
		 (double)(r->full_ts - r->start_ts) / NSEC_PER_SEC);
	writer__warning(r->w, "max-size", text);
}

int clika_recorder__stop(struct clika_recorder *r, struct clika_prof_error *perr)
{
	struct clika_error err = { 0 }, later = { 0 };
	int ret = 0, more;

	if (r->stopped)
		return 0;
	r->stopped = true;
	r->stop_ts = clock__boottime_ns();
	if (!r->full)
		ret = recorder__barrier(r, &err);
	/* From here on nothing new is taken; what was is drained, so that the account closes. */
	attacher__quiesce(r->attacher);
	more = recorder__drain(r, &later);
	if (!more)
		more = recorder__drain(r, &later);
	if (!more)
		more = recorder__write_out(r, &later);
	if (!ret && more) {
		ret = more;
		err = later;
	}
	decoder__captures_close(r->decoder, r->stop_ts);
	command__reap(&r->command);
	warn_unmatched(r);
	warn_full(r);
	recorder__account(r, true);
	anchor(r);
	more = writer__finish(r->w, &later);
	r->w = NULL;
	if (!ret && more) {
		ret = more;
		err = later;
	}
	return ret ? prof_error__set(perr, ret, &err) : 0;
}

void clika_recorder__free(struct clika_recorder *r,
			  void (*progress)(void *ctx, size_t done, size_t total), void *ctx)
{
	if (!r)
		return;
	command__abort(&r->command);
	decoder__free(r->decoder);
	people__free(r->people);
	names__free(r->names);
	files__free(r->files);
	ring__free(r->ring);
	mmaps__free(r->mmaps);
	writer__abort(r->w);
	attacher__free(r->attacher, progress, ctx);
	budget__free(r->budget);
	recipes__free(r->recipes);
	for (size_t i = 0; i < r->n_roots; i++)
		if (r->roots[i].pidfd >= 0)
			close(r->roots[i].pidfd);
	free(r->roots);
	if (r->epoll >= 0)
		close(r->epoll);
	if (r->recording_fd >= 0)
		close(r->recording_fd);
	strpool__free(r->pool);
	free(r->path);
	free(r->tag);
	free(r);
}

void clika_recorder__stats(const struct clika_recorder *r, struct clika_recorder_stats *st)
{
	struct clika_recorder_stats full = { .sz = sizeof(full) };
	uint64_t now = r->stop_ts ? r->stop_ts : clock__boottime_ns();
	struct count_info c;
	size_t sz = st->sz < sizeof(full) ? st->sz : sizeof(full);

	recorder__totals(r, &c, &full.unknown_at_most);
	full.elapsed_ns = r->start_ts ? now - r->start_ts : 0;
	full.records = c.recorded;
	full.spans = r->env.spans;
	full.lost = c.lost;
	full.filtered = c.filtered;
	full.file_bytes = r->w ? writer__bytes(r->w) : 0;
	full.processes = people__n_processes(r->people);
	full.threads = people__n_threads(r->people);
	full.files = files__count(r->files);
	full.sites = files__n_sites(r->files);
	full.links = attacher__n_links(r->attacher);
	full.capture_open = r->capture != 0;
	full.full = r->full;
	full.command_ended = r->command.ended;
	full.command_status = r->command.status;
	full.targets_alive = attacher__targets(r->attacher);
	full.functions = files__n_funcs(r->files);
	full.probe_share = -1;
	if (r->budget)
		budget__stats(r->budget, &full);
	memcpy(st, &full, sz);
	st->sz = sz;
}

const char *clika_recorder__path(const struct clika_recorder *r)
{
	return r->path;
}

int clika_recorder__recording_fd(const struct clika_recorder *r)
{
	return r->recording_fd;
}
