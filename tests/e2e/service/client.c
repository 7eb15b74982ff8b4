// SPDX-License-Identifier: Apache-2.0
/*
 * A process that profiles itself (or another) through libclika-client, by lines on stdin:
 *
 *   new [pid N | system]     begin TAG     end ID      spans N NAME     flush
 *   export FORMAT PATH       stats         close       fork             quit
 *
 * Each is answered by one line: "ok ..." or "error CODE text".
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <clika/client.h>
#include <clika/markers.h>

static struct clika_client *client;
static struct clika_client_error err;

static void answer(int ret)
{
	if (ret < 0)
		printf("error %d %s\n", ret, err.msg);
	else
		printf("ok\n");
}

static void make(const char *socket_path, const char *what, long pid)
{
	struct clika_client_opts o;

	clika_client_opts__init(&o);
	if (strcmp(socket_path, "private") != 0) {
		o.socket_path = socket_path;
		o.via = CLIKA_VIA_SERVICE;
	} else {
		o.via = CLIKA_VIA_PRIVATE;
	}
	o.timeout_ms = 5000;
	if (!strcmp(what, "pid")) {
		o.target = CLIKA_CLIENT_PID;
		o.pid = (pid_t)pid;
	} else if (!strcmp(what, "system")) {
		o.target = CLIKA_CLIENT_SYSTEM;
	}
	answer(clika_client__new(&o, &client, &err));
}

static void spans(long n, const char *name)
{
	for (long i = 0; i < n; i++) {
		clika_token t = CLIKA_SPAN_BEGIN_DYN(name);

		CLIKA_SPAN_END(t);
	}
	printf("ok\n");
}

static void export_to(const char *format, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0) {
		printf("error %d open\n", -errno);
		return;
	}
	answer(clika_client__export_fd(client, format, fd, &err));
	close(fd);
}

static void stats(void)
{
	struct clika_client_stats st = { .sz = sizeof(st) };
	int ret = clika_client__stats(client, &st, &err);

	if (ret)
		answer(ret);
	else
		printf("ok records %" PRIu64 " lost %" PRIu64 " open %u private %d alive %d\n",
		       st.records, st.lost, st.captures_open, st.private_loader,
		       clika_client__alive(client));
}

static void in_child(void)
{
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int64_t id = clika_client__capture_begin(client, "child", &err);

		clika_client__after_fork(client);
		_exit(id == -EPERM ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	printf("ok child %d\n", WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
	char line[4096], a[1024], b[2048];
	long n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2)
		return 2;
	printf("ready %d\n", (int)getpid());
	while (fgets(line, sizeof(line), stdin)) {
		err.msg[0] = 0;
		a[0] = b[0] = 0;
		n = 0;
		if (sscanf(line, "new %1023s %ld", a, &n) >= 1 || !strcmp(line, "new\n"))
			make(argv[1], a, n);
		else if (sscanf(line, "spans %ld %1023s", &n, a) == 2)
			spans(n, a);
		else if (!strcmp(line, "quit\n"))
			break;
		else if (!client)
			printf("error 0 no session\n");
		else if (sscanf(line, "begin %1023s", a) == 1) {
			int64_t id = clika_client__capture_begin(client, a, &err);

			if (id > 0)
				printf("ok %" PRId64 "\n", id);
			else
				answer((int)id);
		} else if (sscanf(line, "end %ld", &n) == 1)
			answer(clika_client__capture_end(client, n, &err));
		else if (sscanf(line, "export %1023s %2047s", a, b) == 2)
			export_to(a, b);
		else if (!strcmp(line, "flush\n"))
			answer(clika_client__flush(client, &err));
		else if (!strcmp(line, "stats\n"))
			stats();
		else if (!strcmp(line, "fork\n"))
			in_child();
		else if (!strcmp(line, "close\n")) {
			clika_client__free(client);
			client = NULL;
			printf("ok\n");
		} else
			printf("error 0 what?\n");
	}
	clika_client__free(client);
	return 0;
}
