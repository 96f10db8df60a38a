/*
 * redirect.h - goes where a broker sends this client: Welcome.redirect, Resume.redirect.
 *
 * At most REDIRECTS_MAX in a row; the hello says how many they were, and no broker sends a client away for its load that
 * was sent to it. Where the other broker does not answer, the client comes back to its own list, and is taken there.
 * Threads: owner; the client's lock is held, as in connection.h.
 */
#ifndef REDIRECT_H
#define REDIRECT_H

#include "core.h"
#include "worker.pb-c.h"

#define REDIRECTS_MAX 4u

/* True: the client goes elsewhere; it is not welcomed here. */
bool redirect_welcome(struct pen_client *client, const Penstock__Welcome *welcome, uint64_t now_us);
/* The same for a RESUME; false: it names no broker to go to. */
bool redirect_resume(struct pen_client *client, const struct incoming *in, uint64_t now_us);
/* This broker serves us: from now on another one may send us elsewhere again. */
void redirect_settle(struct pen_client *client);

#endif
