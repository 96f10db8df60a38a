/*
 * audit.h - who asked the broker to do something, and what came of it: one line per action, in the log and in the file
 * of --audit-log.
 *
 * The broker only appends to the file, each line in one write. In a flood the log may leave lines out; the file never
 * does. Denied actions are written down, too. Questions that change nothing are not.
 * Threads: owner.
 */
#ifndef AUDIT_H
#define AUDIT_H

#include "penstock/status.h"

struct audit;
enum pen_status audit_new(const char *path, struct audit **ret_audit,
                          struct pen_error *reterr); /* path "": the log alone */
void audit_free(struct audit *audit);                /* NULL is fine */

/* who: the identity's name. Without a list of keys: the client's own name in quotes. */
void audit_note(struct audit *audit, const char *who, unsigned long long client, const char *verb, const char *argument,
                enum pen_status status);

#endif
