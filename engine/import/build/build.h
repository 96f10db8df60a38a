/*
 * build.h - how the TensorFlow importers write a graph: operators as expressions that give a value, the first failure latched.
 *
 * A function returns the value it made, so that a lowering reads like a formula. After a failure everything is a no-op that gives VALUE_NONE.
 * Threads: one-at-a-time.
 */
#ifndef BUILD_H
#define BUILD_H

#include "graph/graph.h"
#include "import/onnx/names.h"

#define BUILD_MISSING_MAX 50 /* listed by name */

/* Operators without a meaning here, listed at once: shared by a model's graphs. */
struct build_missing {
    char text[768];
    size_t bytes;
    uint32_t count;
};

struct build {
    struct graph *g;
    struct build_missing *missing;
    struct pen_error *reterr;
    struct names names; /* of values, kept unique */
    enum pen_status status;
    const char *name;      /* of the node being read; borrowed */
    const char *origin;    /* its operator as the file calls it; borrowed, outlives the graph or lives in its arena */
    uint32_t node;         /* emitted last */
    struct shape_env *env; /* facts.c: what is known of the values so far */
    bool blind;            /* nothing more can be known */
};

void build_fini(struct build *b); /* the graph stays */
void build_stop(struct build *b, enum pen_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* "<what> (node <name>)" joins the list of what this build cannot do. */
void build_miss(struct build *b, const char *what);
/* whole: the importer of this format is in the build with all its parts. */
enum pen_status build_missing_error(const struct build_missing *m, const char *format, bool whole,
                                    struct pen_error *reterr);

/* ---- nodes ----------------------------------------------------------------------------------------------------------------------- */

/* Trailing VALUE_NONE inputs are cut. */
uint32_t build_op(struct build *b, enum op op, const uint32_t *in, uint32_t count);
uint32_t build_1(struct build *b, enum op op, uint32_t x);
uint32_t build_2(struct build *b, enum op op, uint32_t x, uint32_t y);
uint32_t build_3(struct build *b, enum op op, uint32_t x, uint32_t y, uint32_t z);
/* Several outputs, all fresh: *out receives `outs` ids. */
void build_many(struct build *b, enum op op, const uint32_t *in, uint32_t count, uint32_t *out, uint32_t outs);
/* Attributes of the node emitted last. */
void build_int(struct build *b, enum attr_key key, int64_t value);
void build_float(struct build *b, enum attr_key key, float value);
void build_ints(struct build *b, enum attr_key key, const int64_t *items, uint32_t count);
void build_text(struct build *b, enum attr_key key, const char *text);
void build_graph(struct build *b, enum attr_key key, struct graph *body);

/* Gives the value this name: one that has a name already (or is a constant or an input) goes through an Identity. A name that is taken gets a suffix. */
uint32_t build_bind(struct build *b, uint32_t value, const char *name, size_t bytes);
uint32_t build_input(struct build *b, const char *name, size_t bytes, enum pen_dtype dtype, const struct shape *shape);

/* ---- constants --------------------------------------------------------------------------------------------------------------------- */

uint32_t build_const(struct build *b, enum pen_dtype dtype, const struct shape *shape, const void *data, size_t bytes,
                     bool copy);
uint32_t build_i64(struct build *b, const int64_t *items, uint32_t count);
uint32_t build_i64_scalar(struct build *b, int64_t item);
uint32_t build_f32(struct build *b, const float *items, uint32_t count);
uint32_t build_f32_scalar(struct build *b, float item);
/* A scalar of any arithmetic dtype. */
uint32_t build_scalar(struct build *b, enum pen_dtype dtype, double item);
const struct value *build_value(const struct build *b, uint32_t value); /* NULL for VALUE_NONE */

/* ---- facts.c: what is known of a value, be it constant, an input or computed from such --------------------------------------------------- */

/* Integers of a value (any integer dtype); false when they are not known or more than room. */
bool build_ints_of(struct build *b, uint32_t value, int64_t *items, uint32_t room, uint32_t *ret_count);
bool build_f32_of(struct build *b, uint32_t value, float *ret_first);
enum pen_dtype build_dtype(struct build *b, uint32_t value); /* NONE when not known */
int32_t build_rank(struct build *b, uint32_t value);         /* SHAPE_RANK_UNKNOWN when not known */
int64_t build_dim(struct build *b, uint32_t value,
                  int64_t axis); /* SHAPE_DIM_UNKNOWN when not known; axis may count from the end */

/* ---- short forms ------------------------------------------------------------------------------------------------------------------ */

uint32_t build_reshape(struct build *b, uint32_t x, const int64_t *dims, uint32_t rank); /* 0 stands for 0 elements */
uint32_t build_transpose(struct build *b, uint32_t x, const int64_t *perm, uint32_t rank);
uint32_t build_cast(struct build *b, uint32_t x, enum pen_dtype to);
uint32_t build_axis_op(struct build *b, enum op op, const uint32_t *in, uint32_t count, int64_t axis);
uint32_t build_unsqueeze(struct build *b, uint32_t x, int64_t axis);
uint32_t build_squeeze(struct build *b, uint32_t x, int64_t axis);
/* x[begin:end:step] along one axis. */
uint32_t build_slice(struct build *b, uint32_t x, int64_t axis, int64_t begin, int64_t end, int64_t step);
uint32_t build_reduce(struct build *b, enum op op, uint32_t x, uint32_t axes, bool keep);

#endif
