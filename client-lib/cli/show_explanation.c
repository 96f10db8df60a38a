/* show_explanation.c - why a job ran where it did, for people and for programs. */
#include <inttypes.h>
#include <stdio.h>

#include "command.h"
#include "show.h"
#include "words.h"

static void sentence(const char *head, const char *text)
{
    if (*text) {
        printf("  %-7s %s\n", head, text);
    }
}

static void show_step(const struct pen_explained_step *s)
{
    char queue[AMOUNT_BYTES], compute[AMOUNT_BYTES], total[AMOUNT_BYTES];
    printf("    step %u (%s:%" PRIu64 ") %s", s->number, s->model, s->version, s->state);
    if (*s->worker) {
        printf(" on %s, %u %s in the batch (%s), attempt %u: queue %s, compute %s, total %s", s->worker, s->batch_jobs,
               words_plural(s->batch_jobs, "job", "jobs"), s->batch_reason, s->attempts, amount_us(s->queue_us, queue),
               amount_us(s->compute_us, compute), amount_us(s->total_us, total));
    }
    printf("\n");
}

void show_explanation(const struct pen_explanation *e)
{
    char queue[AMOUNT_BYTES], expect[AMOUNT_BYTES], compute[AMOUNT_BYTES], total[AMOUNT_BYTES];
    printf("  job %s: %s:%" PRIu64 ", tenant %s, priority %u, %s%s%s\n", e->job, e->model, e->version, e->tenant,
           e->priority, e->state, e->status == PEN_OK ? "" : " ",
           e->status == PEN_OK ? "" : pen_status_name(e->status));
    sentence("worker", e->why_worker);
    sentence("batch", e->why_batch);
    sentence("because", e->why_not);
    for (size_t i = 0; i < e->candidates_count; i++) {
        const struct pen_candidate *c = &e->candidates[i];
        printf("    %c %s %s: backlog %" PRIu64 " us, run %" PRIu64 " us, transfer %" PRIu64 " us%s\n",
               c->chosen ? '*' : ' ', c->worker, c->backend, c->backlog_us, c->expect_us, c->transfer_us,
               c->credit ? "" : ", no credit");
    }
    for (size_t i = 0; i < e->steps_count; i++) {
        show_step(&e->steps[i]);
    }
    if (e->batch_jobs) {
        printf("  %u %s, %u %s in the batch (%s); attempt %u; queue %s, expected %s, compute %s, total %s\n",
               e->batch_jobs, words_plural(e->batch_jobs, "job", "jobs"), e->batch_rows,
               words_plural(e->batch_rows, "row", "rows"), e->batch_reason, e->attempts, amount_us(e->queue_us, queue),
               amount_us(e->expect_us, expect), amount_us(e->compute_us, compute), amount_us(e->total_us, total));
    }
}

static void candidates_json(cJSON *array, const struct pen_explanation *e)
{
    for (size_t i = 0; i < e->candidates_count; i++) {
        const struct pen_candidate *c = &e->candidates[i];
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "worker", c->worker);
        cJSON_AddStringToObject(one, "backend", c->backend);
        cJSON_AddNumberToObject(one, "backlog_us", (double)c->backlog_us);
        cJSON_AddNumberToObject(one, "expect_us", (double)c->expect_us);
        cJSON_AddNumberToObject(one, "transfer_us", (double)c->transfer_us);
        cJSON_AddBoolToObject(one, "credit", c->credit);
        cJSON_AddBoolToObject(one, "chosen", c->chosen);
        cJSON_AddItemToArray(array, one);
    }
}

static void steps_json(cJSON *array, const struct pen_explanation *e)
{
    for (size_t i = 0; i < e->steps_count; i++) {
        const struct pen_explained_step *s = &e->steps[i];
        cJSON *one = cJSON_CreateObject();
        cJSON_AddNumberToObject(one, "number", s->number);
        cJSON_AddStringToObject(one, "model", s->model);
        cJSON_AddNumberToObject(one, "version", (double)s->version);
        cJSON_AddStringToObject(one, "state", s->state);
        cJSON_AddStringToObject(one, "worker", s->worker);
        cJSON_AddStringToObject(one, "backend", s->backend);
        cJSON_AddStringToObject(one, "batch_reason", s->batch_reason);
        cJSON_AddNumberToObject(one, "batch_jobs", s->batch_jobs);
        cJSON_AddNumberToObject(one, "attempts", s->attempts);
        cJSON_AddNumberToObject(one, "queue_us", (double)s->queue_us);
        cJSON_AddNumberToObject(one, "compute_us", (double)s->compute_us);
        cJSON_AddNumberToObject(one, "total_us", (double)s->total_us);
        cJSON_AddItemToArray(array, one);
    }
}

cJSON *show_explanation_json(const struct pen_explanation *e)
{
    const struct {
        const char *key, *text;
    } texts[] = {{"job", e->job},
                 {"model", e->model},
                 {"state", e->state},
                 {"tenant", e->tenant},
                 {"worker", e->worker},
                 {"backend", e->backend},
                 {"why_worker", e->why_worker},
                 {"why_batch", e->why_batch},
                 {"why_not", e->why_not},
                 {"batch_reason", e->batch_reason},
                 {"status", pen_status_name(e->status)}};
    const struct {
        const char *key;
        uint64_t number;
    } numbers[] = {{"version", e->version},       {"priority", e->priority},     {"capable", e->capable},
                   {"batch_jobs", e->batch_jobs}, {"batch_rows", e->batch_rows}, {"queue_us", e->queue_us},
                   {"expect_us", e->expect_us},   {"compute_us", e->compute_us}, {"total_us", e->total_us},
                   {"attempts", e->attempts}};
    cJSON *json = cJSON_CreateObject();
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        cJSON_AddStringToObject(json, texts[k].key, texts[k].text);
    }
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        cJSON_AddNumberToObject(json, numbers[k].key, (double)numbers[k].number);
    }
    candidates_json(cJSON_AddArrayToObject(json, "candidates"), e);
    steps_json(cJSON_AddArrayToObject(json, "steps"), e);
    return json;
}
