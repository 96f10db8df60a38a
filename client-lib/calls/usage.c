/* usage.c - what tenants have used, as one broker counts it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ask.h"

/* What backs a list: the public struct comes first; its texts point into the reply. */
struct usage {
    struct pen_usage list;
    struct meta_arena arena;
    struct pen_usage_row rows[];
};

static void row_fill(struct pen_usage_row *to, const Penstock__UsageRow *from)
{
    *to = (struct pen_usage_row){
        .hour_unix_s = from->hour_unix_s,
        .tenant = from->tenant,
        .model = from->model,
        .version = from->version,
        .jobs = from->jobs,
        .ok = from->ok,
        .failed = from->failed,
        .cancelled = from->cancelled,
        .computed = from->computed,
        .cached = from->cached,
        .coalesced = from->coalesced,
        .device_us = from->device_us,
        .bytes_in = from->bytes_in,
        .bytes_out = from->bytes_out,
    };
}

/* The reply moves into the list; NULL without memory. */
static struct usage *list_of(struct ask *ask)
{
    static const Penstock__Usage none = PENSTOCK__USAGE__INIT;
    const Penstock__Usage *from = ask->reply->usage ? ask->reply->usage : &none;
    struct usage *whole = calloc(1, sizeof *whole + from->n_rows * sizeof whole->rows[0]);
    if (!whole) {
        return NULL;
    }
    for (size_t i = 0; i < from->n_rows; i++) {
        row_fill(&whole->rows[i], from->rows[i]);
    }
    whole->list = (struct pen_usage){
        .broker = from->broker, .since_unix_s = from->since_unix_s, .count = from->n_rows, .rows = whole->rows};
    ask_arena_take(ask, &whole->arena);
    return whole;
}

enum pen_status pen_client_usage(pen_client *client, uint64_t since_unix_s, uint64_t until_unix_s, int64_t timeout_us,
                                 struct pen_usage **ret_usage, struct pen_error *reterr)
{
    struct ask ask;
    char argument[48];
    snprintf(argument, sizeof argument, "%" PRIu64 " %" PRIu64, since_unix_s, until_unix_s);
    enum pen_status status = ask_run(client, &ask, "usage", argument, timeout_us, reterr);
    if (status == PEN_OK) {
        struct usage *whole = list_of(&ask);
        *ret_usage = whole ? &whole->list : NULL;
        status = whole ? PEN_OK : ask_no_memory(reterr);
    }
    ask_fini(&ask);
    return status;
}

void pen_client_usage_free(struct pen_usage *usage)
{
    struct usage *whole = (struct usage *)usage;
    if (whole) {
        meta_arena_fini(&whole->arena);
        free(whole);
    }
}
