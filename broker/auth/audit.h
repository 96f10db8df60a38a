/*
 * audit.h - who asked the broker to do something, and what came of it: one line per action, in the log and in the file of --audit-log.
 *
 * The file is only appended to, each line in one write; the log may leave out lines of a flood, the file does not. An action that was denied is
 * written down as well. Questions that change nothing are not.
 * Threads: owner.
 */
#ifndef AUDIT_H
#define AUDIT_H

#include "penstock/status.h"

struct audit;
enum pen_status audit_new(const char *path, struct audit **ret_audit,
                          struct pen_error *reterr); /* path "": the log alone */
void audit_free(struct audit *audit);                /* NULL is fine */

/* who: the identity's name, or the client's own name in quotes where nobody is asked for a key. */
void audit_note(struct audit *audit, const char *who, unsigned long long client, const char *verb, const char *argument,
                enum pen_status status);

#endif
