/*
 * internal.h - the structs behind the public handles, shared by engine.c, model.c and session.c only.
 */
#ifndef RUN_INTERNAL_H
#define RUN_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/backend.h"
#include "backend/pace.h"
#include "graph/memo.h"
#include "env/env.h"
#include "run/constants.h"
#include "run/debug_log.h"
#include "run/program.h"
#include "run/runner.h"
#include "run/source.h"
#include "run/variant.h"

struct pen_engine {
    struct pen_env *env;
    struct pen_engine_options options; /* what env says, its texts are there */
    struct graph_limits limits;
    uint32_t passes_off; /* bit 1u << enum pass_id */
    struct open_backend backends[BACKENDS_MAX];
    uint32_t backend_count;
    struct paces paces;       /* of the backends, as far as a placement has asked; under load_lock */
    struct backend_caps caps; /* of the chosen one */
    pthread_mutex_t
        load_lock; /* backends plan one model at a time: a session may compile a variant while another model loads */
};

struct pen_model {
    struct pen_engine *engine;
    struct source source;
    struct graph *graph;
    struct import_extra extra;
    struct program *program;
    struct constants *constants;
    struct model_ledger ledger;
    atomic_uint_least64_t bytes; /* booked there: constants that are read, and plans */
    struct variants *variants;   /* NULL = no input decides shapes by its contents */
    struct pen_tensor *inputs, *outputs;
    size_t input_count, output_count;
    char placement[1024];
    char unfolded[192];           /* why nodes with known inputs were not folded; empty = all were */
    enum pen_precision precision; /* what it computes in */
    char *path, *beneath;         /* as it was loaded */
    struct memo *memo;            /* NULL: nothing is kept */
    _Atomic bool digest_known;
    uint8_t digest[16];
    /* What a room above keeps for the model, and how it is given back: before the model itself goes. NULL = nothing. */
    void *attached;
    void (*attached_free)(void *attached);
    bool opened; /* by pen_model_open: its backend counts it */
};

#define SESSION_VARIANTS 4 /* that a session keeps ready */

struct session_variant {
    struct variant *variant;
    struct runner *runner;
    uint64_t used;
};

/* What runs some inputs: a graph with its runner and the bucket of their shapes. */
struct chosen {
    const struct graph *g;
    struct runner *runner;
    struct bucket *bucket;
};

#define SESSION_FLIGHTS                                                                                                \
    4 /* runs of a session on their way: any backend's window. A bucket or variant in use is never the oldest of so few. */
_Static_assert(SESSION_FLIGHTS <= SESSION_VARIANTS && SESSION_FLIGHTS < RUNNER_BUCKETS,
               "what runs is not dropped for what begins");

/* A run between submit and await. */
struct flight {
    struct chosen ran;
    const struct pen_stop *stop;
    bool begun; /* the device has it; else await runs it */
};

struct pen_session {
    struct pen_model *model;
    struct run_context context;
    struct runner *runner;
    struct bucket *bound;
    struct session_variant variants[SESSION_VARIANTS];
    uint64_t variant_tick;
    struct pen_tensor *outputs; /* [output_count] of the last run */
    struct shape *shapes;       /* [input_count] scratch of bind */
    uint32_t *order;            /* [input_count] graph input -> caller's tensor */
    struct rt_value *values;    /* [input_count] scratch of run_bound */
    struct profile *profile;
    struct flight flights[SESSION_FLIGHTS]; /* a ring */
    uint32_t flight_first, flight_count;
    struct chosen last; /* what ran last */
};

struct pen_stop {
    struct cancel cancel;
};

/* engine.c: how its options place nodes. */
struct placement_choice engine_placement_choice(struct pen_engine *engine);
/* engine.c: what its options ask of the passes, for models and their variants. */
struct source_options engine_source_options(const struct pen_engine *engine);
/* model.c */
void model_weigh(struct pen_model *m); /* books what constants and plans hold by now. Threads: any */

/*
 * session_variants.c: what runs these inputs (one value per graph input; session->shapes holds their shapes): the general program's bucket, or that of the
 * variant their values ask for. Inputs are copied in.
 */
enum pen_status session_choose(struct pen_session *s, const struct rt_value *in, struct chosen *ret_chosen,
                               struct pen_error *reterr);
void session_variants_fini(struct pen_session *s);

/* session.c: what runs the inputs in the bound buffers; a run's context; the sentences and outputs of one that ended so. */
enum pen_status session_bound_choose(struct pen_session *s, struct chosen *ret_chosen, struct pen_error *reterr);
void session_context_set(struct pen_session *s, const struct pen_stop *stop, struct pen_error *reterr);
enum pen_status session_conclude(struct pen_session *s, const struct chosen *ran, const struct pen_stop *stop,
                                 enum pen_status status, const struct pen_tensor **ret_outputs, size_t *ret_count,
                                 struct pen_error *reterr);
/* session_idle.c: PEN_ERR_BUSY while runs are on their way, for calls that would come between them. */
enum pen_status session_idle(const struct pen_session *s, struct pen_error *reterr);
/* May the bound buffers be written? Not before a run that has not read its inputs. */
enum pen_status session_free_inputs(const struct pen_session *s, struct pen_error *reterr);

struct device_value;
/* session_flights.c: binds, copies the inputs and submits. on_device: NULL, or for each input its value where it is a device's (session_device.h), NULL where not. */
enum pen_status session_start(struct pen_session *s, const struct pen_tensor *inputs,
                              struct device_value *const *on_device, size_t count, const struct pen_stop *stop,
                              struct pen_error *reterr);
/* session.c: the inputs into the bound buffers, but those of a device. */
enum pen_status session_inputs_copy(struct pen_session *s, const struct pen_tensor *inputs,
                                    struct device_value *const *on_device, struct pen_error *reterr);

struct engine_counters {
    atomic_uint_least64_t models, sessions, weights_bytes, arena_bytes, buckets, tensors, tensor_bytes, peak_bytes;
};
extern struct engine_counters engine_counters; /* memory.c: pen_memory() */

#endif
