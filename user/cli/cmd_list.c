// SPDX-License-Identifier: Apache-2.0
/* list: processes that carry markers, and which. */
#include "user/cli/cli.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_opt options[] = {
	{ 1, NULL, NULL, "Options:" },
	{ 'p', "pid", "PID", "only this process" },
	{ 'a', "all-providers", NULL, "USDT markers of every provider, not only clika's" },
	{ 'm', "markers", NULL, "name every marker of every object" },
	{ 'j', "json", NULL, "as JSON" },
	CLI_OPT_HELP,
	CLI_OPT_END,
};

static const struct cli_help help = {
	.usage = "[-p PID] [--all-providers] [--json]",
	.about = "Lists processes that map a program or library with markers. A user sees his own\n"
		 "processes, root all of them.",
	.examples = "  " CLI_NAME " list\n"
		    "  sudo " CLI_NAME " list --all-providers --markers\n"
		    "  " CLI_NAME " list -p 4711 --json\n",
	.after = "Exit status: 0 done (also when there are none), 4 the process does not exist.",
};

struct list {
	struct table *table; /* or: */
	cJSON *json;
	bool markers;
	size_t processes;
};

#define COLUMNS 7
/* More names than this do not help anybody to find a process. */
#define NAMES_IN_TABLE 3

static void user_name(uid_t uid, char *to, size_t n)
{
	const struct passwd *pw = getpwuid(uid);

	if (pw)
		snprintf(to, n, "%s", pw->pw_name);
	else
		snprintf(to, n, "%u", uid);
}

static void marker_names(const struct list *l, const struct clika_marked_object *o, char *to,
			 size_t n)
{
	size_t i, used = 0, max = l->markers ? o->n_marker_names : NAMES_IN_TABLE;

	to[0] = 0;
	if (o->batched)
		used = (size_t)snprintf(to, n, "clika");
	for (i = 0; i < o->n_marker_names && i < max && used < n; i++)
		used += (size_t)snprintf(to + used, n - used, "%s%s", used ? "," : "",
					 o->markers[i]);
	if (i < o->n_marker_names && used < n)
		snprintf(to + used, n - used, ",+%zu", o->n_marker_names - i);
}

static void add_rows(struct list *l, const struct clika_marked_process *p)
{
	char text[32], *names = malloc(16384);
	size_t i;

	for (i = 0; names && i < p->n_objects; i++) {
		const struct clika_marked_object *o = &p->objects[i];

		snprintf(text, sizeof(text), "%d", p->pid);
		table__cell(l->table, text);
		user_name(p->uid, text, sizeof(text));
		table__cell(l->table, text);
		table__cell(l->table, p->comm);
		table__cell(l->table, p->container);
		table__cell(l->table,
			    o->batched ? (o->n_markers ? "batched+usdt" : "batched") : "usdt");
		marker_names(l, o, names, 16384);
		table__cell(l->table, names);
		snprintf(names, 16384, "%s%s", o->path ? o->path : "",
			 o->deleted ? " (deleted)" : "");
		table__cell(l->table, names);
	}
	free(names);
}

static void add_string(cJSON *to, const char *key, const char *s)
{
	char *valid = s ? text__utf8(s) : NULL;

	if (valid)
		cJSON_AddStringToObject(to, key, valid);
	else
		cJSON_AddNullToObject(to, key);
	free(valid);
}

static void add_json(struct list *l, const struct clika_marked_process *p)
{
	cJSON *jp = cJSON_CreateObject(), *jo, *objects, *markers;
	char user[32];
	size_t i, k;

	cJSON_AddNumberToObject(jp, "pid", p->pid);
	cJSON_AddNumberToObject(jp, "uid", p->uid);
	user_name(p->uid, user, sizeof(user));
	add_string(jp, "user", user);
	add_string(jp, "comm", p->comm);
	add_string(jp, "exe", p->exe);
	add_string(jp, "cgroup", p->cgroup);
	add_string(jp, "container", p->container);
	objects = cJSON_AddArrayToObject(jp, "objects");
	for (i = 0; i < p->n_objects; i++) {
		const struct clika_marked_object *o = &p->objects[i];

		jo = cJSON_CreateObject();
		add_string(jo, "path", o->path);
		cJSON_AddBoolToObject(jo, "deleted", o->deleted);
		add_string(jo, "build_id", o->build_id && *o->build_id ? o->build_id : NULL);
		cJSON_AddBoolToObject(jo, "batched", o->batched);
		cJSON_AddNumberToObject(jo, "usdt_notes", o->n_markers);
		markers = cJSON_AddArrayToObject(jo, "markers");
		for (k = 0; k < o->n_marker_names; k++) {
			char *valid = text__utf8(o->markers[k]);

			cJSON_AddItemToArray(markers, cJSON_CreateString(valid ? valid : ""));
			free(valid);
		}
		cJSON_AddItemToArray(objects, jo);
	}
	cJSON_AddItemToArray(l->json, jp);
}

static int on_process(void *ctx, const struct clika_marked_process *p)
{
	struct list *l = ctx;

	l->processes++;
	if (l->json)
		add_json(l, p);
	else
		add_rows(l, p);
	return 0;
}

static int print_json(const struct list *l)
{
	char *text = cJSON_Print(l->json);

	if (!text)
		return -ENOMEM;
	puts(text);
	cJSON_free(text);
	return 0;
}

static int collect(struct list *l, pid_t pid, bool all)
{
	static const char *const heads[COLUMNS] = { "PID",       "USER",    "COMMAND", "CONTAINER",
						    "TRANSPORT", "MARKERS", "OBJECT" };
	struct clika_prof_error err = { 0 };
	size_t i;
	int rc;

	for (i = 0; l->table && i < COLUMNS; i++)
		table__cell(l->table, heads[i]);
	rc = clika_list(pid, all, on_process, l, &err);
	if (rc < 0) {
		err.code = err.code ? err.code : rc;
		return say_failure(&err);
	}
	if (l->json)
		rc = print_json(l);
	else if (l->processes)
		rc = table__print(l->table, stdout);
	else
		say("No process%s with %smarkers%s.", pid ? " of that number" : "",
		    all ? "" : "clika ",
		    pid ? "" : " is running, or none that this user may look into (try sudo)");
	if (rc < 0) {
		say_error("out of memory");
		return EXIT_FAILED;
	}
	return EXIT_OK;
}

static int run(int argc, char **argv)
{
	bool all = false, json = false;
	struct cli_getopt g;
	struct list l = { 0 };
	uint32_t pid = 0;
	int key, rc;

	cli_getopt__init(&g, options);
	while ((key = cli_getopt__next(&g, argc, argv)) != -1) {
		switch (key) {
		case 'p':
			if (parse__u32(optarg, &pid) || !pid || pid > INT32_MAX)
				return say_usage("list", "'%s' is no process number", optarg);
			break;
		case 'a':
			all = true;
			break;
		case 'm':
			l.markers = true;
			break;
		case 'j':
			json = true;
			break;
		case 'h':
			cli_help__print("list", &help, options);
			return EXIT_OK;
		default:
			return EXIT_USAGE;
		}
	}
	if (optind < argc)
		return say_usage("list", "'%s' is one argument too many", argv[optind]);

	if (json)
		l.json = cJSON_CreateArray();
	else
		l.table = table__new(COLUMNS);
	rc = l.json || l.table ? collect(&l, (pid_t)pid, all) : EXIT_FAILED;
	cJSON_Delete(l.json);
	table__free(l.table);
	return rc;
}

const struct cli_verb verb_list = {
	.name = "list",
	.summary = "processes that carry markers, and which",
	.run = run,
};
