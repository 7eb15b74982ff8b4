// SPDX-License-Identifier: Apache-2.0
/* Values of options. Strict: the whole text must be understood, nothing overflows silently. */
#include "user/cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

struct unit {
	const char *name;
	uint64_t factor;
};

/* A decimal with an optional fraction times a unit, in integers: 0.1s is 100,000,000 ns exactly. */
static int parse_scaled(const char *s, const struct unit *units, uint64_t *out)
{
	uint64_t whole = 0, frac = 0, frac_scale = 1, value, part;
	const char *p = s;

	if (!isdigit((unsigned char)*p))
		return -EINVAL;
	for (; isdigit((unsigned char)*p); p++) {
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
			return -ERANGE;
	}
	if (*p == '.') {
		if (!isdigit((unsigned char)p[1]))
			return -EINVAL;
		for (p++; isdigit((unsigned char)*p); p++) {
			if (frac_scale < 1000000000) {
				frac = frac * 10 + (uint64_t)(*p - '0');
				frac_scale *= 10;
			}
		}
	}
	for (; units->name; units++) {
		if (strcasecmp(p, units->name) != 0)
			continue;
		if (__builtin_mul_overflow(whole, units->factor, &value))
			return -ERANGE;
		part = (uint64_t)((unsigned __int128)frac * units->factor / frac_scale);
		if (__builtin_add_overflow(value, part, &value))
			return -ERANGE;
		*out = value;
		return 0;
	}
	return -EINVAL;
}

int parse__duration(const char *s, uint64_t *ns)
{
	static const struct unit units[] = {
		{ "", 1000000000 },   { "s", 1000000000 },    { "sec", 1000000000 },
		{ "ms", 1000000 },    { "us", 1000 },         { "ns", 1 },
		{ "m", 60000000000 }, { "min", 60000000000 }, { "h", 3600000000000 },
		{ NULL, 0 },
	};
	return parse_scaled(s, units, ns);
}

int parse__size(const char *s, uint64_t *bytes)
{
	static const struct unit units[] = {
		{ "", 1 },
		{ "B", 1 },
		{ "K", 1ull << 10 },
		{ "KB", 1ull << 10 },
		{ "KiB", 1ull << 10 },
		{ "M", 1ull << 20 },
		{ "MB", 1ull << 20 },
		{ "MiB", 1ull << 20 },
		{ "G", 1ull << 30 },
		{ "GB", 1ull << 30 },
		{ "GiB", 1ull << 30 },
		{ "T", 1ull << 40 },
		{ "TB", 1ull << 40 },
		{ "TiB", 1ull << 40 },
		{ NULL, 0 },
	};
	return parse_scaled(s, units, bytes);
}

int parse__u32(const char *s, uint32_t *v)
{
	unsigned long long x;
	char *end;

	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	errno = 0;
	x = strtoull(s, &end, 10);
	if (*end)
		return -EINVAL;
	if (errno || x > UINT32_MAX)
		return -ERANGE;
	*v = (uint32_t)x;
	return 0;
}

int parse__uid(const char *s, uid_t *uid)
{
	const struct passwd *pw;
	uint32_t v;
	int err = parse__u32(s, &v);

	if (!err && v == UINT32_MAX)
		return -ERANGE; /* (uid_t)-1 means "none" everywhere */
	if (!err) {
		*uid = v;
		return 0;
	}
	if (err == -ERANGE)
		return err;
	pw = getpwnam(s);
	if (!pw)
		return -EINVAL;
	*uid = pw->pw_uid;
	return 0;
}

static int pid_list__add(struct pid_list *l, pid_t pid)
{
	pid_t *pids;
	size_t i;

	for (i = 0; i < l->n; i++) {
		if (l->pids[i] == pid)
			return 0;
	}
	pids = realloc(l->pids, (l->n + 1) * sizeof(*pids));
	if (!pids)
		return -ENOMEM;
	l->pids = pids;
	l->pids[l->n++] = pid;
	return 0;
}

int parse__pids(const char *s, struct pid_list *l)
{
	char num[16];
	uint32_t v;
	int err;

	for (;;) {
		size_t len = strcspn(s, ",");

		if (!len || len >= sizeof(num))
			return len ? -ERANGE : -EINVAL;
		memcpy(num, s, len);
		num[len] = 0;
		err = parse__u32(num, &v);
		if (err)
			return err;
		if (!v || v > INT32_MAX)
			return -ERANGE;
		err = pid_list__add(l, (pid_t)v);
		if (err)
			return err;
		if (!s[len])
			return 0;
		s += len + 1;
	}
}

int str_list__add(struct str_list *l, const char *s)
{
	const char **grown = realloc(l->s, (l->n + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	l->s = grown;
	l->s[l->n++] = s;
	return 0;
}
