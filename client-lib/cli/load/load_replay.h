/*
 * load_replay.h - a recording of arrivals as the schedule of a load: the same models, sizes and gaps, with payloads that are made up.
 *
 * Threads: owner.
 */
#ifndef LOAD_REPLAY_H
#define LOAD_REPLAY_H

#include "arrivals.h"
#include "inputs.h"
#include "load_run.h"
#include "settings.h"

#define REPLAY_SIZES_MAX 64u

/* The inputs for jobs of one model and size. */
struct replay_size {
    const struct pen_model *model;
    struct inputs_size size;
    struct inputs inputs;
    uint64_t used; /* number of the arrival that used it last; 0 = free */
};

struct replay {
    const struct pen_model_list *models;
    const char *model; /* only its arrivals; NULL = all */
    const char *image; /* for models that take pictures; "" = none */
    double speed;
    struct pen_job_options job; /* of every job, but for what the recording says */
    struct arrivals_reader reader;
    struct pen_job_options now; /* of the arrival at hand */
    struct replay_size sizes[REPLAY_SIZES_MAX];
    uint64_t first_us; /* of the first arrival: it is due at once */
    uint64_t taken,
        skipped; /* arrivals that became jobs; of models that the pool does not have, or that were not asked for */
    char missing[ARRIVALS_NAME_BYTES]; /* one of those models; "" = none */
    enum pen_status status;
    struct pen_error error; /* why the recording ended early */
};

/* Opens the recording for load_plan.next with this struct as its context. The struct is large: not for a stack. */
enum pen_status replay_open(struct replay *replay, const char *file, struct pen_error *reterr);
bool replay_next(void *replay, struct load_due *ret_due);
void replay_close(struct replay *replay);

#endif
