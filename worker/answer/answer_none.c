/* answer_none.c - instead of the room, in builds without it: "answer" in config.json is refused. */
#include "answer.h"

enum pen_status answer_new(const char *text, const struct answer_model *model, struct answer **ret_answer,
                           struct pen_error *reterr)
{
    (void)text;
    (void)model;
    *ret_answer = NULL;
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                         "this worker was built without what comes after a model (PENSTOCK_ANSWERS): take 'answer' out "
                         "of config.json, or another worker");
}

void answer_free(struct answer *answer)
{
    (void)answer;
}

const struct pen_tensor *answer_outputs(const struct answer *answer, size_t *ret_count)
{
    (void)answer;
    *ret_count = 0;
    return NULL;
}

struct answer_work *answer_work_new(void)
{
    return NULL;
}

void answer_work_free(struct answer_work *work)
{
    (void)work;
}

enum pen_status answer_run(const struct answer *answer, struct answer_work *work, const struct answer_job *job,
                           struct pen_tensor *ret_outputs, struct pen_error *reterr)
{
    (void)answer;
    (void)work;
    (void)job;
    (void)ret_outputs;
    return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "this worker has no steps after its models");
}
