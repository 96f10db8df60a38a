/* quarantine.c - jobs that ended their workers: listed, shown, kicked. */
#include <stdlib.h>

#include "ask.h"

/* What backs a list: the public struct comes first; its texts point into the reply. */
struct quarantine {
    struct pen_quarantine list;
    struct meta_arena arena;
    struct pen_quarantined jobs[];
};

static void entry_fill(struct pen_quarantined *to, const Penstock__QuarantinedJob *from)
{
    *to = (struct pen_quarantined){
        .job = from->job,
        .model = from->model,
        .tenant = from->tenant,
        .workers = from->n_workers ? from->workers[0] : "",
        .inputs = from->inputs,
        .version = from->version,
        .bytes = from->bytes,
        .age_us = from->age_us,
        .refused = from->refused,
        .deaths = from->deaths,
        .known = from->digest.len > 0,
    };
}

enum pen_status pen_client_quarantine(pen_client *client, const char *job_id, int64_t timeout_us,
                                      struct pen_quarantine **ret_quarantine, struct pen_error *reterr)
{
    struct ask ask;
    enum pen_status status = ask_run(client, &ask, "quarantine", job_id, timeout_us, reterr);
    if (status == PEN_OK) {
        size_t count = ask.reply->n_quarantine;
        struct quarantine *whole = calloc(1, sizeof *whole + count * sizeof whole->jobs[0]);
        for (size_t i = 0; whole && i < count; i++) {
            entry_fill(&whole->jobs[i], ask.reply->quarantine[i]);
        }
        if (whole) {
            whole->list = (struct pen_quarantine){.count = count, .jobs = whole->jobs};
            ask_arena_take(&ask, &whole->arena);
            *ret_quarantine = &whole->list;
        } else {
            status = ask_no_memory(reterr);
        }
    }
    ask_fini(&ask);
    return status;
}

void pen_client_quarantine_free(struct pen_quarantine *quarantine)
{
    struct quarantine *whole = (struct quarantine *)quarantine;
    if (whole) {
        meta_arena_fini(&whole->arena);
        free(whole);
    }
}

enum pen_status pen_client_kick(pen_client *client, const char *job_id, int64_t timeout_us, struct pen_error *reterr)
{
    return ask_command(client, "kick", job_id, timeout_us, reterr);
}
