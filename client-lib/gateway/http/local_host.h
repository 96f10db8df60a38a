/*
 * local_host.h - addresses that settings and requests name.
 * Threads: any.
 */
#ifndef LOCAL_HOST_H
#define LOCAL_HOST_H

#include <stdbool.h>

#include "penstock/status.h"

/* "localhost", "127.0.0.1", "[::1]", with or without a port. */
bool host_is_local(const char *host);
/* INVALID with a sentence: what listen_at cannot understand. */
enum pen_status listen_check(const char *address, struct pen_error *reterr);
/* Opens a listening socket at "127.0.0.1:8000" or "[::1]:8000"; port * lets the system choose. IO or INVALID with a sentence. */
enum pen_status listen_at(const char *address, int *ret_fd, struct pen_error *reterr);
/* Where it listens, as listen_at takes it. */
#define LISTEN_TEXT_BYTES 80
const char *listen_text(int fd, char text[LISTEN_TEXT_BYTES]);

#endif
