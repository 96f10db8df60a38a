/*
 * variant.h - a model with the values of its small inputs known: axes, sizes and lengths that decide shapes; or with the shapes that decide its branches.
 *
 * Where such inputs or branches exist (graph/specialise.h) each combination of their values gets a graph, placement and plans of its own, made when it is first seen:
 * there the shapes are static and backends take what they cannot take while shapes depend on data. The key is, for each such input in the order of the
 * model's inputs, its rank, its dims and its bytes; rank and dims of the others where shapes decide. Values beyond the caps run on the model's general program.
 * Threads: any; a variant is immutable once given.
 */
#ifndef VARIANT_H
#define VARIANT_H

#include "backend/reference/kernel.h"
#include "run/program.h"

#define VARIANTS_KEPT       8   /* of a model; the least recently used goes first */
#define VARIANTS_BUILT      256 /* combinations compiled in a model's life: what keeps changing is data after all */
#define VARIANT_MODEL_BYTES (UINT64_C(64) << 20) /* larger models would hold their packed weights too often */

struct pen_model;

struct variant;
struct variants;

/* *ret_variants stays NULL when nothing would be gained; `later` of the others is what program_new takes. */
enum pen_status variants_new(struct pen_model *model, struct variants **ret_variants, struct pen_error *reterr);
void variants_free(struct variants *v); /* NULL is fine; after the sessions */
const bool *variants_later(const struct variants *v);

/*
 * The variant for these inputs (one per graph input), retained for the caller; made when missing. PEN_OK with *ret_variant NULL: the general program is to run.
 * With strict placement there is no such way out: PEN_ERR_UNSUPPORTED.
 */
enum pen_status variant_take(struct variants *v, const struct rt_value *in, struct variant **ret_variant,
                             struct pen_error *reterr);
void variant_release(struct variant *variant); /* NULL is fine */
void variant_weigh(struct variant *variant);   /* books what its plans hold by now */

/* Borrowed while the variant is held. */
const struct graph *variant_graph(const struct variant *variant);
const struct program *variant_program(const struct variant *variant);

#endif
