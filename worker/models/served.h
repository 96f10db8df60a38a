/*
 * served.h - one loaded model as this worker serves it: its tensors on the wire, whether its jobs may share a batch,
 * its content digest.
 *
 * Ownership: owns the engine's model with its sessions, the config and all texts. Threads: one-at-a-time until it is
 * warm; then immutable except for the seats, which belong to the slots.
 */
#ifndef SERVED_H
#define SERVED_H

#include <stdatomic.h>

#include "answer.h"
#include "config.h"
#include "digest.h"
#include "penstock/engine.h"
#include "classes.h"
#include "preprocess.h"
#include "batch_pace.h"
#include "batch_shape.h"

#define SERVED_STATE_BYTES_MAX (256u * 1024u * 1024u) /* per state tensor */
#define SERVED_TENSORS_MAX     64u                    /* inputs, and outputs; the wire's own limit */

/* A slot's own part of the model. */
struct seat {
    struct pen_session *session;
    struct batch_shape batch_shape;
    uint64_t took_us; /* of its last run */
};

/* A model's time in memory (residence.h). The catalog's lock guards `cold`; the other fields belong to the watch
   once slots serve. */
struct residence {
    bool cold;          /* offered, but not in memory */
    bool leaving;       /* offered as cold already; freed when no job can be on its way any more */
    uint64_t load_us;   /* how long loading and warming took last time */
    uint64_t came_us;   /* when it was first loaded */
    uint64_t loaded_us; /* when it was loaded on demand; 0 = it was there from the start */
    uint64_t wanted_us; /* since when a broker asks for the cold model; 0 = none asks */
    uint32_t sequences; /* open sequences of a model with state, at the watch's last look */
};

/* What is known of the error of its answers (measure.h). */
enum served_measured { SERVED_NOT_MEASURED, SERVED_MEASURED, SERVED_UNMEASURABLE };

/* Of an ensemble, as a whole: measured with these models and links (ensemble_digest). measure_whole.c guards it. */
struct whole_measured {
    struct digest of;
    enum served_measured as;
    struct pen_measured measured; /* valid with SERVED_MEASURED */
};

/* An input that the worker keeps instead of receiving it, and the output that it is taken from. */
struct served_state {
    uint32_t input, output;
    struct pen_tensor tensor; /* concrete dims; data: what a sequence begins with, NULL = zeros; owned by the config */
};

struct served {
    char name[CONFIG_NAME_BYTES_MAX + 1];
    uint64_t version;
    struct config config;
    struct pen_model *model;                 /* NULL while it is cold: residence.h */
    const struct pen_tensor *network_inputs; /* the engine's inputs */
    struct pen_tensor *inputs; /* on the wire: [inputs_count], the same order; uint8 where pixels are preprocessed */
    size_t inputs_count;
    const struct pen_tensor *network_outputs; /* the engine's outputs: [network_outputs_count] */
    size_t network_outputs_count;
    const struct pen_tensor *outputs; /* on the wire: [outputs_count]; the engine's, or those of the answer */
    size_t outputs_count;
    struct answer *answer;       /* what comes after the model; NULL = nothing */
    uint32_t max_batch_size;     /* 0 = dims[0] is no batch dimension: jobs run one by one */
    bool strings;                /* an input is of type STRING: its size is known only when a job has come */
    struct served_state *states; /* [states_count]; none: its jobs are independent */
    size_t states_count, states_bytes;
    uint64_t hidden_inputs, hidden_outputs; /* bit i: tensor i belongs to a state, so it is not sent */
    int pixels_input;                       /* index of the input that is preprocessed, -1 = none */
    struct preprocess preprocess;
    int files_input; /* index of the input that takes the files of pictures, too (pictures.h); -1 = none */
    int labels_output; /* of the network: one with a number per label and row, else the first f32, other float, quantised one; -1 = none */
    struct classes_quant labels_quant;
    struct digest digest;
    bool cacheable;
    char *placement;    /* the engine's description, kept while the model is cold */
    const char *format; /* static */
    enum pen_precision
        precision; /* the engine's precision, or INT8 for a model of integers; ANY = an ensemble: its steps have their own */
    struct pen_measured measured; /* valid once measured_as says SERVED_MEASURED, then unchanged */
    atomic_int measured_as;       /* enum served_measured; an ensemble has `whole` instead */
    struct whole_measured whole;
    uint64_t memory_bytes; /* of the model; once it is warm, of its sessions, too */
    struct residence residence;
    bool warmed; /* each shape was executed, before it last slept or since */
    bool woken;  /* it was cold once: its sessions prepare a shape when the first job brings it */
    struct warm_time warm[BATCH_SHAPE_WARM_MAX];
    size_t warm_count;
    struct batch_pace pace; /* of its runs */
    bool
        resolved; /* for an ensemble (config.plan): the result of looking its steps up; belongs to the watch's thread */
    enum pen_status resolved_as;
    char *path;
    char *folder;                 /* of its version; NULL = not known */
    uint64_t files;               /* model_file_stamp of the folder when it was loaded */
    uint64_t stamp;               /* of the files it was loaded from; 0 = not known */
    atomic_bool withdrawn;        /* not offered any more; written by the watch alone */
    atomic_uint users;            /* tasks that hold it: served_release */
    atomic_uint_fast64_t used_us; /* when a job last took it */
    struct seat *seats;           /* [seats_count], by slot; once it serves, each slot uses only its own */
    uint32_t seats_count;
};

/* Loads `path`. Takes over what `config` holds, also on failure (the config is then empty). */
enum pen_status served_new(struct pen_engine *engine, const char *name, uint64_t version, const char *path,
                           struct config *config, struct served **ret_served, struct pen_error *reterr);
void served_free(struct served *served); /* NULL is fine */

/* Frees the model and its sessions, but keeps its description. Nobody may use the model. */
void served_cool(struct served *served);
/* Loads a cold model's file again, without sessions (warmup_again makes them). CORRUPT when the file is not the one
   that was loaded before: where the folder's stamp has changed, its content is compared. */
enum pen_status served_heat(struct served *served, struct pen_engine *engine, struct pen_error *reterr);

/* Ends what catalog_take began. Threads: any. */
void served_release(struct served *served);

/* Logs evt=model_ready with the time that loading and warming took. */
void served_log(const struct served *served, uint64_t took_us);

/* Index of the input or output of that name, -1 when there is none. */
int served_input(const struct served *served, const char *name);
int served_output(const struct served *served, const char *name);

/* The precision that its answers state (enum precision): the model's own; for an ensemble `otherwise`. */
uint32_t served_precision(const struct served *served, uint32_t otherwise);

#endif
