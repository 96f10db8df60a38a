/*
 * one_slot.h - a catalog, one slot and its boxes in the test itself: a job goes in, its answer comes out, without a thread, a socket or a program.
 *
 * Threads: owner. Failures end the test with a message.
 */
#ifndef ONE_SLOT_H
#define ONE_SLOT_H

#include "catalog.h"
#include "folder.h"
#include "onnx_writer.h"
#include "slot.h"

#define ONE_SLOT_VALUES  64
#define ONE_SLOT_OUTPUTS 4
#define ONE_SLOT_JOBS    32

extern char one_slot_root[FOLDER_PATH_BYTES]; /* the models folder; there from one_slot_setup on */
extern struct catalog one_slot_catalog;
extern struct stats one_slot_stats;
extern struct slot *one_slot;
extern struct pen_engine *one_slot_engine;
extern struct pen_error one_slot_error;

void one_slot_setup(void);
void one_slot_teardown(void);
/* NAME/1/model.onnx from the graph, which is taken over; NULL = none. config: config.json; NULL = none. */
void one_slot_put(const char *name, struct onnx_writer *graph, const char *config);
/* z = op(x, y), or op(x) where y is NULL, over float32 [N, 2]. */
struct onnx_writer *one_slot_graph(const char *op, const char *x, const char *y, const char *z);
/* Loads and warms what lies in the folder, and makes the slot. */
void one_slot_start(void);
extern struct debugger *one_slot_debugger; /* set before the start: jobs in debug mode are taken */

struct one_job {
    const char *model;
    const struct pen_tensor *inputs;
    size_t inputs_count;
    const char *outputs[ONE_SLOT_OUTPUTS]; /* NULL ends them; none = all */
    uint64_t version, deadline_us;
    uint64_t labels;
    uint32_t top_k, trace;
    uint16_t flags;
    bool debug;
    bool cancelled; /* before it begins */
};

struct one_output {
    char name[64];
    uint32_t rank;
    int64_t dims[4];
    size_t count;
    float values[ONE_SLOT_VALUES];
};

struct one_answer {
    size_t times; /* how often it was answered */
    enum pen_status status;
    char error[512];
    uint64_t batch_size, batch_rows, batch_place;
    uint64_t compute_us, worker_us, wait_us, decode_us, gather_us, split_us;
    uint64_t version;
    uint32_t precision;
    char made[256]; /* model, backend, device, library, isa, build and worker, with " | " between */
    uint16_t flags;
    struct digest digest, model_digest;
    struct one_output outputs[ONE_SLOT_OUTPUTS];
    size_t outputs_count;
    char labels[8][64];
    size_t labels_count;
    struct {
        char output[64];
        uint32_t row, classes, best;
    } annotations[8];
    size_t annotations_count, layers;
    bool measured, repeatable;
    double largest;
    char debug_log[4096]; /* its beginning */
};

/* float32 [rows, 2]. */
struct pen_tensor one_slot_rows(const char *name, int64_t rows, const float *values);
/* Runs them as one dispatch. Answer i is that of job i. */
void one_slot_run(const struct one_job *jobs, size_t count);
extern struct one_answer one_slot_answers[ONE_SLOT_JOBS];

/* The two halves of it. Job i has the number first + i + 1, and its answer that index. */
struct dispatch *one_slot_dispatch(const struct one_job *jobs, size_t count, size_t first);
size_t one_slot_collect(void); /* reads the answers that are there; returns how many dispatches are finished */
void one_slot_forget(void);    /* the answers so far */
extern struct handoff *one_slot_handoff;

void one_slot_refused(size_t job, enum pen_status status, const char *part);
/* Output `name` of the job is [rows, 2] with these values. */
void one_slot_gave(size_t job, const char *name, int64_t rows, const float *values);

#define ONE_SLOT_FLOATS(...) ((const float[]){__VA_ARGS__})

/* neg (Exp) and add as steps of the ensemble whole, y = x + exp(x), on an engine of xnnpack: what is measured beside the reference. Skips the test where there is none. */
void one_slot_ensemble_setup(void);

#endif
