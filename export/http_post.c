// SPDX-License-Identifier: Apache-2.0
#include "export/http_post.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<curl/curl.h>)
/* Its checking macros call the function by name, and here it is a pointer. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#define HAVE_CURL 1
#endif

#ifdef HAVE_CURL

struct curl_functions {
	typeof(curl_global_init) *global_init;
	typeof(curl_easy_init) *init;
	typeof(curl_easy_setopt) *set;
	typeof(curl_easy_perform) *perform;
	typeof(curl_easy_getinfo) *get;
	typeof(curl_easy_cleanup) *cleanup;
	typeof(curl_easy_strerror) *strerror;
	typeof(curl_slist_append) *list_append;
	typeof(curl_slist_free_all) *list_free;
	bool ready;
};

static struct curl_functions curl;
static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static bool find(void *lib, const char *name, void *to)
{
	void *at = dlsym(lib, name);

	memcpy(to, &at, sizeof(at));
	return at;
}

static void load_curl(void)
{
	static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4" };
	void *lib = NULL;
	size_t i;

	for (i = 0; !lib && i < ARRAY_SIZE(names); i++)
		lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	curl.ready = lib && find(lib, "curl_global_init", &curl.global_init) &&
		     find(lib, "curl_easy_init", &curl.init) &&
		     find(lib, "curl_easy_setopt", &curl.set) &&
		     find(lib, "curl_easy_perform", &curl.perform) &&
		     find(lib, "curl_easy_getinfo", &curl.get) &&
		     find(lib, "curl_easy_cleanup", &curl.cleanup) &&
		     find(lib, "curl_easy_strerror", &curl.strerror) &&
		     find(lib, "curl_slist_append", &curl.list_append) &&
		     find(lib, "curl_slist_free_all", &curl.list_free) &&
		     curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

struct http_client {
	CURL *easy;
	struct curl_slist *headers;
	char why[CURL_ERROR_SIZE];
	struct buf *body; /* of the answer that is coming */
	size_t max_answer;
};

/* What is beyond the limit is read and thrown away: the connection stays usable. */
static size_t take_body(char *data, size_t one, size_t n, void *ctx)
{
	struct http_client *c = ctx;
	size_t room = c->max_answer - c->body->len, take = one * n < room ? one * n : room;

	buf__append(c->body, data, take);
	return buf__error(c->body) ? 0 : one * n;
}

static char *full_url(const char *url, const char *path)
{
	const char *host = strstr(url, "://"), *rest;
	size_t n = strlen(url);
	char *full;

	rest = host ? strpbrk(host + 3, "/?#") : NULL;
	if (rest && strcmp(rest, "/"))
		return strdup(url);
	if (rest)
		n--;
	return asprintf(&full, "%.*s%s", (int)n, url, path) < 0 ? NULL : full;
}

static int add_header(struct http_client *c, const char *line)
{
	struct curl_slist *longer = curl.list_append(c->headers, line);

	if (!longer)
		return -ENOMEM;
	c->headers = longer;
	return 0;
}

static int set_headers(struct http_client *c, const char *const *headers, size_t n,
		       struct clika_error *err)
{
	size_t i;

	/* "Expect:" off: no pause before each body. */
	if (add_header(c, "Content-Type: application/json") ||
	    add_header(c, "Content-Encoding: gzip") || add_header(c, "Expect:"))
		return error__set(err, -ENOMEM, "out of memory");
	for (i = 0; i < n; i++) {
		if (!strchr(headers[i], ':') || strpbrk(headers[i], "\r\n"))
			return error__set(err, -EINVAL,
					  "a header is given as \"Name: value\", in one line");
		if (add_header(c, headers[i]))
			return error__set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

static int set_up(struct http_client *c, const char *url, unsigned int timeout_ms)
{
	unsigned long connect_ms = timeout_ms < 5000 ? timeout_ms : 5000;

	if (curl.set(c->easy, CURLOPT_URL, url) || curl.set(c->easy, CURLOPT_NOSIGNAL, 1L) ||
	    curl.set(c->easy, CURLOPT_POST, 1L) ||
	    curl.set(c->easy, CURLOPT_HTTPHEADER, c->headers) ||
	    curl.set(c->easy, CURLOPT_USERAGENT, "clika-bpf-prof") ||
	    curl.set(c->easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms) ||
	    curl.set(c->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms) ||
	    curl.set(c->easy, CURLOPT_ERRORBUFFER, c->why) ||
	    curl.set(c->easy, CURLOPT_WRITEFUNCTION, take_body) ||
	    curl.set(c->easy, CURLOPT_WRITEDATA, c))
		return -EINVAL;
	return 0;
}

int http_client__new(const char *url, const char *path, const char *const *headers,
		     size_t n_headers, unsigned int timeout_ms, struct http_client **out,
		     struct clika_error *err)
{
	struct http_client *c;
	char *full;
	int code;

	*out = NULL;
	/* Nothing else that libcurl speaks, files above all. */
	if (!url || (strncmp(url, "http://", 7) && strncmp(url, "https://", 8)))
		return error__set(err, -EINVAL, "the address must begin with http:// or https://");
	pthread_once(&curl_once, load_curl);
	if (!curl.ready)
		return error__set(err, -ENOTSUP,
				  "pushing needs libcurl, which is not there: install libcurl4");
	c = calloc(1, sizeof(*c));
	if (!c)
		return error__set(err, -ENOMEM, "out of memory");
	full = full_url(url, path);
	c->easy = curl.init();
	code = full && c->easy ? set_headers(c, headers, n_headers, err)
			       : error__set(err, -ENOMEM, "out of memory");
	if (!code && set_up(c, full, timeout_ms))
		code = error__set(err, -EINVAL, "libcurl does not take the address %s", url);
	free(full);
	if (code) {
		http_client__free(c);
		return code;
	}
	*out = c;
	return 0;
}

void http_client__free(struct http_client *c)
{
	if (!c)
		return;
	if (c->easy)
		curl.cleanup(c->easy);
	if (c->headers)
		curl.list_free(c->headers);
	free(c);
}

int http_client__post(struct http_client *c, const void *body, size_t len, size_t max_answer,
		      struct http_answer *a)
{
	curl_off_t wait = 0;
	CURLcode rc;

	buf__reset(&a->body);
	a->status = 0;
	a->retry_after_s = 0;
	c->body = &a->body;
	c->max_answer = max_answer;
	c->why[0] = '\0';
	if (curl.set(c->easy, CURLOPT_POSTFIELDS, body) ||
	    curl.set(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len))
		return -EINVAL;
	rc = curl.perform(c->easy);
	if (buf__error(&a->body))
		return -ENOMEM;
	if (rc == CURLE_OUT_OF_MEMORY)
		return -ENOMEM;
	if (rc) {
		snprintf(a->why, sizeof(a->why), "%s", c->why[0] ? c->why : curl.strerror(rc));
		return 0;
	}
	if (curl.get(c->easy, CURLINFO_RESPONSE_CODE, &a->status))
		return -EINVAL;
	/* Seconds or a date, as seconds. */
	if (!curl.get(c->easy, CURLINFO_RETRY_AFTER, &wait) && wait > 0)
		a->retry_after_s = (uint64_t)wait;
	return 0;
}

#else

int http_client__new(const char *url, const char *path, const char *const *headers,
		     size_t n_headers, unsigned int timeout_ms, struct http_client **out,
		     struct clika_error *err)
{
	(void)url;
	(void)path;
	(void)headers;
	(void)n_headers;
	(void)timeout_ms;
	*out = NULL;
	return error__set(err, -ENOTSUP, "built without libcurl's headers: cannot push");
}

void http_client__free(struct http_client *c)
{
	(void)c;
}

int http_client__post(struct http_client *c, const void *body, size_t len, size_t max_answer,
		      struct http_answer *a)
{
	(void)c;
	(void)body;
	(void)len;
	(void)max_answer;
	(void)a;
	return -ENOTSUP;
}

#endif
