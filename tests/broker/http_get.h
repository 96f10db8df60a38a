/*
 * http_get.h - one HTTP request as a test makes it: over a plain socket, answered within a time. Threads: owner.
 */
#ifndef TEST_HTTP_GET_H
#define TEST_HTTP_GET_H

#include <stddef.h>

/* A connection to "127.0.0.1:8002"; ends the test when there is none. */
int http_connect(const char *address);
void http_say(int fd, const char *text);
/* Reads until the other side closes, `enough` has been seen (NULL = never) or the time is up. The text is malloc'ed. */
char *http_hear(int fd, const char *enough, int timeout_ms);

/* GET path: the status, 0 when none came in time; *ret_body (may be NULL) is malloc'ed. */
int http_get(const char *address, const char *path, char **ret_body);
/* Asks until the status is that one: the microseconds it took; ends the test after timeout_ms. */
unsigned long long http_await(const char *address, const char *path, int status, int timeout_ms);

#endif
