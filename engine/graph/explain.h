/*
 * explain.h - the writing side of penstock/explain.h: choices are told to a log that may be NULL.
 *
 * A graph has the log of its root (graph.h), so that whoever decides about a node needs no other way to it. Where the log is NULL nothing is done; callers that
 * would have to find out a reason look first.
 * Threads: one-at-a-time.
 */
#ifndef GRAPH_EXPLAIN_H
#define GRAPH_EXPLAIN_H

#include "penstock/explain.h"

struct graph;

/* The log that a graph's choices go to; NULL = nobody asked. */
struct pen_explain *explain_of(const struct graph *g);
/* Adds a row. The text is copied; the format makes the reason. */
void explain_say(struct pen_explain *log, enum pen_choice about, const char *subject, const char *choice,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));
/* What rows from now on are about: a subgraph, a variant; "" = the model. At most 200 bytes of it are kept. */
void explain_scope(struct pen_explain *log, const char *scope);
/* The scope that is set, for whoever comes back to it. "" for NULL. Borrowed until it is set anew. */
const char *explain_scope_now(const struct pen_explain *log);

#endif
