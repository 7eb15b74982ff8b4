// SPDX-License-Identifier: Apache-2.0
/* Whose a process is. */
#include "user/base/base.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/*
 * Files in /proc/PID belong to root when the process is not dumpable, as after a change of its
 * rights; the folder itself never does. And all its user ids must be the user's.
 */
bool owner__is(pid_t pid, uid_t uid)
{
	__cleanup_free char *text = NULL;
	unsigned ids[4] = { 0 };
	char path[64];
	struct stat st;
	const char *at;
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	if (stat(path, &st) || st.st_uid != uid)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (file__read_all(-1, path, 65536, &text, &len))
		return false;
	at = strstr(text, "\nUid:");
	if (!at || sscanf(at + 5, "%u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) != 4)
		return false;
	for (int i = 0; i < 4; i++)
		if (ids[i] != uid)
			return false;
	return true;
}
