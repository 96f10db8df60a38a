#include "trace_spans.h"

#include <string.h>

const char *span_side_name(enum span_side side)
{
    static const char *const names[] = {"client", "broker", "worker"};
    return names[side];
}

struct list {
    struct span *spans;
    uint32_t count;
};

static uint32_t add(struct list *list, uint32_t parent, enum span_side side, const char *name, const char *detail,
                    int64_t start_us, uint64_t us)
{
    list->spans[list->count] =
        (struct span){.name = name, .detail = detail, .side = side, .parent = parent, .start_us = start_us, .us = us};
    return list->count++;
}

static void add_layers(struct list *list, uint32_t parent, const struct job_trace *trace, int64_t at_us)
{
    for (uint32_t i = 0; trace->layers && i < trace->layers->count; i++) {
        const struct trace_layer *layer = &trace->layers->rows[i];
        add(list, parent, SPAN_WORKER, layer->name, layer->op, at_us, layer->us);
        at_us += layer->us;
    }
}

/* The worker's parts, one after the other; time that they do not cover is its own bookkeeping, at the end. */
static void add_worker(struct list *list, uint32_t parent, const struct job_trace *trace, int64_t at_us)
{
    const struct {
        const char *name;
        uint64_t us;
    } steps[] = {
        {"wait for a slot", trace->wait_us},
        {"decode", trace->decode_us},
        {"gather", trace->gather_us},
        {"compute", trace->compute_us > trace->gather_us ? trace->compute_us - trace->gather_us : trace->compute_us},
        {"split", trace->split_us}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        if (steps[i].us == 0 && i != 3)
            continue;
        uint32_t index = add(list, parent, SPAN_WORKER, steps[i].name, "", at_us, steps[i].us);
        if (i == 3)
            add_layers(list, index, trace, at_us);
        at_us += (int64_t)steps[i].us;
    }
}

/* The attempts that failed, the waits before them, and the run that answered. */
static void add_runs(struct list *list, const struct job_trace *trace)
{
    uint64_t at_us = trace->lookup_us;
    for (uint32_t i = 0; i < trace->note.attempts_count; i++) {
        const struct trace_attempt *attempt = &trace->note.attempts[i];
        if (attempt->sent_us > at_us)
            add(list, 0, SPAN_BROKER, "queue", "", (int64_t)at_us, attempt->sent_us - at_us);
        add(list, 0, SPAN_WORKER, "lost attempt", attempt->worker, (int64_t)attempt->sent_us,
            attempt->lost_us - attempt->sent_us);
        at_us = attempt->lost_us;
    }
    if (trace->queue_us > at_us)
        add(list, 0, SPAN_BROKER, "queue", close_reason_name(trace->reason), (int64_t)at_us, trace->queue_us - at_us);
    if (!trace->worker[0] || trace->total_us < trace->queue_us)
        return;
    uint64_t away_us = trace->total_us - trace->queue_us, half_us = trace->transfer_us / 2;
    uint32_t run = add(list, 0, SPAN_BROKER, "dispatch", trace->worker, (int64_t)trace->queue_us, away_us);
    if (trace->worker_us == 0 || trace->worker_us > away_us)
        return;
    add(list, run, SPAN_BROKER, "way to the worker", "", (int64_t)trace->queue_us, half_us);
    int64_t begin_us = (int64_t)(trace->queue_us + half_us);
    uint32_t worker = add(list, run, SPAN_WORKER, "worker", trace->worker, begin_us, trace->worker_us);
    add_worker(list, worker, trace, begin_us);
    add(list, run, SPAN_BROKER, "way back", "", begin_us + (int64_t)trace->worker_us, trace->transfer_us - half_us);
}

size_t trace_spans(const struct job_trace *trace, struct span spans[SPANS_MAX])
{
    struct list list = {.spans = spans};
    add(&list, SPAN_NONE, trace->client_us ? SPAN_CLIENT : SPAN_BROKER, "job", finish_name(trace->how),
        -(int64_t)trace->client_us, trace->client_us + trace->total_us);
    if (trace->client_us)
        add(&list, 0, SPAN_CLIENT, "submit and way to the broker", "", -(int64_t)trace->client_us, trace->client_us);
    if (trace->lookup_us)
        add(&list, 0, SPAN_BROKER, "ask the cache", "", 0, trace->lookup_us);
    if (trace->how == FINISH_COALESCED)
        add(&list, 0, SPAN_BROKER, "follow an equal job", trace->worker, 0, trace->total_us);
    else
        add_runs(&list, trace);
    return list.count;
}

int64_t trace_admitted_unix_us(const struct trace_view *view)
{
    return (int64_t)(view->trace->ended_us - view->trace->total_us) + view->unix_offset_us;
}

static void put_u64(uint8_t *to, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        to[i] = (uint8_t)(value >> (56 - 8 * i));
}

void trace_id(const struct job_trace *trace, uint8_t id[16])
{
    if (trace->note.context.valid) {
        memcpy(id, trace->note.context.trace_id, 16);
        return;
    }
    put_u64(id, trace->id.client);
    put_u64(id + 8, trace->id.sequence);
}

/* splitmix64 over the id and the index. */
void span_id(struct job_id job, uint32_t index, uint8_t id[8])
{
    uint64_t x = job.client ^ (job.sequence * UINT64_C(0x9E3779B97F4A7C15));
    x += (index == SPAN_WORKER_PARENT ? 1 : index + UINT64_C(1)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    x ^= x >> 31;
    put_u64(id, x ? x : 1);
}
