/* explain.c - why a job ran where it did, asked for by its id. */
#include <stdlib.h>

#include "ask.h"
#include "explanation.h"

/* What backs an explanation that was asked for: the public struct comes first. */
struct asked {
    struct pen_explanation explanation;
    struct meta_arena arena;
    struct pen_explanation *block;
};

enum pen_status pen_client_explain(pen_client *client, const char *job_id, int64_t timeout_us,
                                   struct pen_explanation **ret_explanation, struct pen_error *reterr)
{
    struct ask ask;
    struct job_id id;
    if (!job_id || job_id_parse(job_id, &id) != 0) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "\"%s\" " JOB_ID_REFUSED ".", job_id ? job_id : "");
    }
    enum pen_status status = ask_run(client, &ask, "explain", job_id, timeout_us, reterr);
    if (status == PEN_OK && !ask.reply->explanation) {
        status = pen_error_set(reterr, PEN_ERR_CORRUPT, "the broker's answer to \"explain\" holds none.");
    }
    if (status == PEN_OK) {
        struct asked *asked = calloc(1, sizeof *asked);
        struct pen_explanation *block = asked ? explanation_new(ask.reply->explanation) : NULL;
        if (block) {
            asked->explanation = *block;
            asked->block = block;
            ask_arena_take(&ask, &asked->arena);
            *ret_explanation = &asked->explanation;
        } else {
            free(asked);
            status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the explanation of a job.");
        }
    }
    ask_fini(&ask);
    return status;
}

void pen_explanation_free(struct pen_explanation *explanation)
{
    struct asked *whole = (struct asked *)explanation;
    if (whole) {
        meta_arena_fini(&whole->arena);
        free(whole->block);
        free(whole);
    }
}
