#include "job_make.h"

#include <stddef.h>
#include <string.h>

#include "contract.h"
#include "core.h"
#include "parcels.h"

void pen_job_options_init(struct pen_job_options *options, size_t struct_bytes)
{
    memset(options, 0, struct_bytes);
    options->struct_bytes = struct_bytes;
}

enum pen_status pen_job_options_precision(struct pen_job_options *options, const char *text, struct pen_error *reterr)
{
    struct contract contract;
    if (options->struct_bytes < offsetof(struct pen_job_options, f32_exact) + sizeof options->f32_exact) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "this program was built for an older library.");
    }
    enum pen_status status = contract_parse(text, &contract, reterr);
    if (status == PEN_OK) {
        options->precision = contract.precision;
        options->max_relative_error = contract.error_max;
        options->f32_exact = contract.exact;
    }
    return status;
}

/* Fields that a caller built against an older header does not have are zero. */
static struct pen_job_options options_known(const struct pen_job_options *options)
{
    struct pen_job_options known;
    size_t bytes = options->struct_bytes < sizeof known ? options->struct_bytes : sizeof known;
    memset(&known, 0, sizeof known);
    memcpy(&known, options, bytes);
    return known;
}

/* What the broker wants, as far as it is known now. */
static void broker_wishes(struct pen_client *c, struct job_order *order)
{
    pthread_mutex_lock(&c->lock);
    order->digest_kind = c->session.digest_kind;
    order->sealed_from = parcels_from(c);
    pthread_mutex_unlock(&c->lock);
}

static enum pen_status job_from(struct pen_client *c, const struct pen_job_options *options, enum job_inputs inputs,
                                struct pen_job **ret_job, struct pen_error *reterr)
{
    struct job_order order = {
        .options = options,
        .tenant = c->tenant,
        .inputs = inputs,
        .release = inputs == JOB_INPUTS_BORROWED ? options->release : NULL,
        .release_arg = options->release_arg,
    };
    broker_wishes(c, &order);
    return job_new(c, &order, ret_job, reterr);
}

enum pen_status job_make_to_run(struct pen_client *c, const struct pen_job_options *options, struct pen_job **ret_job,
                                struct pen_error *reterr)
{
    struct pen_job_options known = options_known(options);
    known.callback = NULL;
    known.release = NULL;
    return job_from(c, &known, JOB_INPUTS_BORROWED, ret_job, reterr);
}

enum pen_status job_make(struct pen_client *c, const struct pen_job_options *options, enum job_reader reader,
                         struct pen_job **ret_job, struct pen_error *reterr)
{
    struct pen_job_options known = options_known(options);
    if (reader == JOB_READ_BY_CALLBACK && !known.callback) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "a job without a callback needs a handle to wait for.");
    }
    bool borrow = known.flags & PEN_JOB_BORROW;
    if (borrow && !known.release) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "PEN_JOB_BORROW needs a release function.");
    }
    return job_from(c, &known, borrow ? JOB_INPUTS_BORROWED : JOB_INPUTS_COPIED, ret_job, reterr);
}

void job_unmake(struct pen_job *job)
{
    payload_forget_release(job->payload);
    job_release(job);
}
