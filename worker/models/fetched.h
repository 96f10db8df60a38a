/*
 * fetched.h - --models registry:NAME[@VERSION|:LABEL],...: the models come from a registry, and the worker reads them
 * in a folder of links into its store.
 *
 * A label that points to another version later, or a NAME alone when a higher version comes, is followed at the looks of
 * --watch: what serves goes on until the new version is warm. Without the registry the worker serves what it said last,
 * as far as the store has it.
 * Threads: one-at-a-time; fetched_stop any.
 */
#ifndef FETCHED_H
#define FETCHED_H

#include "catalog.h"
#include "options.h"

struct fetched;

bool fetched_wanted(const struct options *options);
/* Pulls all models. Those that failed are told by fetched_failures; the call itself fails when there is no store, or a
   setting is wrong (INVALID). */
enum pen_status fetched_open(const struct options *options, struct fetched **ret_fetched, struct pen_error *reterr);
/* Ends a transfer that is under way; to be called before whoever calls fetched_look is waited for. */
void fetched_stop(struct fetched *fetched);  /* NULL is fine */
void fetched_close(struct fetched *fetched); /* NULL is fine */
const char *fetched_folder(const struct fetched *fetched);
/* Counts those that could not be pulled among the models that cannot be served. */
void fetched_failures(const struct fetched *fetched, struct catalog *catalog);
/* Asks the registry again, and pulls what has changed. catalog: of what is served now. */
void fetched_look(struct fetched *fetched, const struct catalog *catalog);

#endif
