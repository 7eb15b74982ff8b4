// SPDX-License-Identifier: Apache-2.0
/*
 * usage: peak REPORT COMMAND [ARGUMENT ...]
 *
 * Runs a command and writes its processor seconds and its peak resident KiB to REPORT. A small
 * program does that because the kernel counts for a child what was resident when it was forked: a
 * child of an interpreter seems to need what the interpreter has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	struct rusage use;
	int status;
	FILE *report;
	pid_t pid;

	if (argc < 3)
		return 127;
	pid = fork();
	if (!pid) {
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &use) != pid)
		return 127;
	report = fopen(argv[1], "w");
	if (!report)
		return 127;
	fprintf(report, "%.6f %ld\n", seconds(use.ru_utime) + seconds(use.ru_stime), use.ru_maxrss);
	fclose(report);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
