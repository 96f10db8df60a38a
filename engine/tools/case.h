/*
 * case.h - a verification case: a model, inputs and expected outputs, in any of the three layouts (ONNX test folder, golden JSON, light model).
 *
 * Threads: one-at-a-time. A case owns everything it points to, in one arena.
 */
#ifndef CASE_H
#define CASE_H

#include "backend/tolerance.h"
#include "run/rt_arena.h"
#include "run/session_values.h"

enum case_kind { CASE_ONNX_FOLDER, CASE_GOLDEN, CASE_LIGHT };

#define CASE_VALUES_MAX 64

struct case_set {
    struct rt_value inputs[CASE_VALUES_MAX];
    uint32_t input_count;
    struct rt_value expected[CASE_VALUES_MAX];
    double noise[CASE_VALUES_MAX];     /* golden: relative difference of two runtimes */
    double step[CASE_VALUES_MAX];      /* golden: scale of the DequantizeLinear that gives a float output; 0 = none */
    double own_noise[CASE_VALUES_MAX]; /* found by trial (case_noise), where noise_known */
    bool noise_known;
    uint32_t expected_count;
    const char *input_names[CASE_VALUES_MAX]; /* golden: NULL = by position */
};

struct case_ref {
    enum case_kind kind;
    char *path; /* the folder, the golden JSON, or the light model */
    char *name; /* relative to the PATH given */
};

/* Distinct operators of a model: "Conv", "com.microsoft::Gelu". */
#define CASE_OPS_MAX 48
struct case_ops {
    char names[CASE_OPS_MAX][40];
    uint32_t count;
};

struct case_list {
    struct case_ref *items;
    size_t count, room;
};

/* Adds every case at or below `path`, sorted by name. */
enum pen_status case_find(const char *path, struct case_list *list, struct pen_error *reterr);
void case_list_fini(struct case_list *list);

/* The model file of a case; in arena memory. */
const char *case_model_path(const struct case_ref *ref, struct rt_arena *arena, struct pen_error *reterr);
/* Number of data sets; set `index` read into *set with memory from the arena. `model` tells the declared kinds. */
uint32_t case_sets(const struct case_ref *ref);
enum pen_status case_read(const struct case_ref *ref, uint32_t index, const struct pen_model *model,
                          enum pen_precision precision, struct rt_arena *arena, struct case_set *set,
                          struct tolerance *ret_tolerance, struct pen_error *reterr);

/* By layout. */
uint32_t onnx_folder_sets(const char *folder);
enum pen_status onnx_folder_read(const char *folder, uint32_t index, const struct pen_model *model,
                                 struct rt_arena *arena, struct case_set *set, struct pen_error *reterr);
enum pen_status light_read(const char *path, const struct pen_model *model, struct rt_arena *arena,
                           struct case_set *set, struct pen_error *reterr);
const char *golden_model_path(const char *json_path, struct rt_arena *arena, struct pen_error *reterr);
enum pen_status golden_read(const char *json_path, const struct pen_model *model, enum pen_precision precision,
                            struct rt_arena *arena, struct case_set *set, struct tolerance *tolerance,
                            struct pen_error *reterr);

/* case_ops.c: the distinct operators of an ONNX file (subgraphs included) as the file names them, or else of the loaded model's graph (may be NULL). */
void case_ops_read(const char *model_path, const struct pen_model *model, struct rt_arena *arena,
                   struct case_ops *ret_ops);

/* A whole file with LIFETIME_PAD zero bytes behind it. */
enum pen_status case_file(struct rt_arena *arena, const char *path, void **ret_bytes, size_t *ret_size,
                          struct pen_error *reterr);
char *case_join(struct rt_arena *arena, const char *folder, const char *name); /* NULL without memory */

/* A copy whose memory is all in the arena. */
enum pen_status case_value_copy(struct rt_arena *arena, const struct rt_value *from, struct rt_value *ret);

/*
 * case_noise.c: how exact a golden of single precision can be at all: the share of its range by which each float output moves on the reference when every number
 * on the way is moved by what f32 rounds (backend/reference/noise.h). [CASE_VALUES_MAX]; zeros and false where it cannot be told.
 */
bool case_noise(const char *model_path, const struct case_set *set, double *ret_noise);
#define CASE_NOISE_MAX                                                                                                 \
    0.01 /* a model that amplifies rounding further than this has no right answer to be told from a wrong one */

/* compare.c: steps of 16-bit integers rather than of bytes, by the range of what is expected. */
bool compare_fine(const struct rt_value *expected, double step);
/* compare.c: what was found; max_abs and max_rel over all elements. False with a reason. noise, step: those of the case_set. */
struct comparison {
    double max_abs, max_rel;
    bool numeric; /* floats are beyond their bound: more noise might explain it */
    char reason[256];
};
bool compare_value(const struct rt_value *got, const struct rt_value *expected, const struct tolerance *tolerance,
                   double noise, double step, const char *name, struct comparison *c);

#endif
