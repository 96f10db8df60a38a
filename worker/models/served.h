/*
 * served.h - one loaded model as this worker serves it: what travels on the wire, whether jobs may share a batch, its content digest.
 *
 * Ownership: owns the engine's model with its sessions, the config and all texts. Threads: one-at-a-time until it is warm, immutable afterwards but for
 * the seats, which belong to the slots.
 */
#ifndef SERVED_H
#define SERVED_H

#include <stdatomic.h>

#include "config.h"
#include "digest.h"
#include "penstock/engine.h"
#include "classes.h"
#include "preprocess.h"
#include "batch_shape.h"

#define SERVED_STATE_BYTES_MAX (256u * 1024u * 1024u) /* of one state tensor */
#define SERVED_TENSORS_MAX     64u                    /* inputs, and outputs; the wire's own limit */

/* What one slot runs the model with. */
struct seat {
    struct pen_session *session;
    struct batch_shape batch_shape;
    uint64_t took_us; /* of its last run */
};

/* What is known of a model's stay in memory (residence.h). Guarded by the catalog's lock: cold; the rest is the watch's alone once slots serve. */
struct residence {
    bool cold;          /* advertised, not in memory */
    bool leaving;       /* offered as cold already; freed when no job can be on its way */
    uint64_t load_us;   /* what loading and warming took the last time */
    uint64_t loaded_us; /* when it came in on demand; 0 = it was there from the first */
    uint64_t wanted_us; /* since when somebody asks for a cold one; 0 = nobody */
    uint32_t sequences; /* open ones of a model that keeps state, when the watch last looked */
};

/* An input that is not sent but kept, and the output that it is taken from. */
struct served_state {
    uint32_t input, output;
    struct pen_tensor tensor; /* concrete dims; data: what a sequence begins with, NULL = zeros; owned by the config */
};

struct served {
    char name[CONFIG_NAME_BYTES_MAX + 1];
    uint64_t version;
    struct config config;
    struct pen_model *model;                 /* NULL while it is cold: residence.h */
    const struct pen_tensor *network_inputs; /* what the engine takes */
    struct pen_tensor *inputs; /* what travels: [inputs_count], the same order; uint8 where pixels are preprocessed */
    size_t inputs_count;
    const struct pen_tensor *outputs; /* [outputs_count] */
    size_t outputs_count;
    uint32_t max_batch_size;     /* 0 = dims[0] is no batch: jobs run one by one */
    bool strings;                /* an input is of STRING: its size is known only when it is there */
    struct served_state *states; /* [states_count]; none: its jobs stand alone */
    size_t states_count, states_bytes;
    uint64_t hidden_inputs, hidden_outputs; /* bit i: of a state, so it does not travel */
    int pixels_input;                       /* index of the input that is preprocessed, -1 = none */
    struct preprocess preprocess;
    int labels_output; /* with as many numbers a row as there are labels, else first f32, other float, quantised one; -1 = none */
    struct classes_quant labels_quant;
    struct digest digest;
    bool cacheable;
    char *placement;    /* as the engine says it, kept while the model is cold */
    const char *format; /* static */
    enum pen_precision
        precision; /* the engine's, or INT8 of a model of integers; ANY = of an ensemble: its steps have their own */
    uint64_t memory_bytes; /* of the model; of its sessions, too, once it is warm */
    struct residence residence;
    bool warmed;
    struct warm_time warm[BATCH_SHAPE_WARM_MAX];
    size_t warm_count;
    bool
        resolved; /* an ensemble (config.plan): its steps were looked up, with this result; of the thread that watches */
    enum pen_status resolved_as;
    char *path;
    uint64_t stamp;               /* of the files it was loaded from; 0 = not known */
    atomic_bool withdrawn;        /* not offered any more; only the watch writes it */
    atomic_uint users;            /* tasks that hold it: served_release */
    atomic_uint_fast64_t used_us; /* when the last one took it */
    struct seat *seats;           /* [seats_count], by slot; each is only that slot's once it serves */
    uint32_t seats_count;
};

/* Loads `path`. Takes over what `config` holds, also on failure (the config is then empty). */
enum pen_status served_new(struct pen_engine *engine, const char *name, uint64_t version, const char *path,
                           struct config *config, struct served **ret_served, struct pen_error *reterr);
void served_free(struct served *served); /* NULL is fine */

/* Lets go of the model and its sessions; all that is said about it stays. Nobody uses it. */
void served_cool(struct served *served);
/* Loads a cold model's file again, without sessions (warmup_run makes them). CORRUPT when the file is no longer the one that was cooled. */
enum pen_status served_heat(struct served *served, struct pen_engine *engine, struct pen_error *reterr);

/* Ends what catalog_take began. Threads: any. */
void served_release(struct served *served);

/* evt=model_ready, with the time that loading and warming took . */
void served_log(const struct served *served, uint64_t took_us);

/* Index of the input or output of that name, -1 when there is none. */
int served_input(const struct served *served, const char *name);
int served_output(const struct served *served, const char *name);

/* The class its answers are told to have (enum precision); otherwise: that of the engine, for an ensemble. */
uint32_t served_precision(const struct served *served, uint32_t otherwise);

#endif
