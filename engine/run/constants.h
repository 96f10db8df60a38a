/*
 * constants.h - what becomes of a model's constants once its plans are made.
 *
 * Contents that every plan has copied (packed weights) lose their memory. In the rare bucket whose nodes run one by one on reference kernels after all they are
 * made again from the model's file, and stay from then on.
 * Threads: constants_need any; the rest one-at-a-time.
 */
#ifndef CONSTANTS_H
#define CONSTANTS_H

#include "run/program.h"
#include "run/source.h"

struct constants;

/* Releases what it can. Borrows source, g and program until constants_free. */
enum pen_status constants_new(const struct source *source, const struct source_options *options, struct graph *g,
                              struct program *program, struct constants **ret_constants, struct pen_error *reterr);
void constants_free(struct constants *c); /* NULL is fine */

/* Every constant input of the nodes can be read when it returns PEN_OK. c may be NULL. */
enum pen_status constants_need(struct constants *c, const struct graph *g, const uint32_t *nodes, uint32_t count,
                               struct pen_error *reterr);

uint64_t constants_bytes(const struct constants *c);   /* of those that are still read */
uint64_t constants_weights(const struct constants *c); /* of all */

#endif
