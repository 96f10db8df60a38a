/* Why a job ran where it did, and why its batch closed: the sentence of each reason, from what was noted of the job's end. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "desk.h"
#include "explain.h"
#include "explain_internal.h"

static struct desk *desk;
static const struct tenant tenant = {.name = "team"};

static void begin(void)
{
    desk = desk_new();
    desk->options.explain_jobs = 4;
    desk_open(desk);
    desk_client(desk, 1, 0xABC);
}

static void end(void)
{
    desk_free(desk);
}

TestSuite(sentences, .init = begin, .fini = end);

/* A job that `quick` ran in a batch of two rows. */
static struct explained *note(void)
{
    struct explained *e = &desk->broker.explain.entries[0];
    *e = (struct explained){
        .id = {0xABC, 1}, .model = "net", .worker = "quick", .tenant = &tenant, .jobs = 2, .rows = 2, .attempts = 1};
    e->decision = (struct decision){.count = 1, .capable = 1, .rows_waiting = 2, .rows_max = 4, .delay_us = 700};
    e->decision.kept[0] =
        (struct weighed){.worker = 77, .backlog_us = 10, .expect_us = 20, .transfer_us = 5, .chosen = true};
    return e;
}

static Penstock__ControlReply *explained(void)
{
    Penstock__ControlReply *reply = desk_ask(desk, "explain", "0000000000000abc-1", NULL);
    cr_assert_not_null(reply->explanation);
    return reply;
}

static void expect_batch(const char *sentence)
{
    Penstock__ControlReply *reply = explained();
    cr_expect_str_eq(reply->explanation->why_batch, sentence);
    penstock__control_reply__free_unpacked(reply, NULL);
}

static void expect_worker(const char *sentence)
{
    Penstock__ControlReply *reply = explained();
    cr_expect_str_eq(reply->explanation->why_worker, sentence);
    penstock__control_reply__free_unpacked(reply, NULL);
}

Test(sentences, each_reason_of_a_batch_has_its_own)
{
    static const struct {
        enum close_reason reason;
        uint32_t rows, waiting;
        const char *sentence;
    } cases[] = {
        {CLOSE_NONE, 2, 2, ""},
        {CLOSE_SINGLE, 1, 2, "The model takes no batches there: jobs run one by one."},
        {CLOSE_FULL, 2, 1, "1 row was waiting: a full or preferred size was reached (at most 4)."},
        {CLOSE_FULL, 2, 2, "2 rows were waiting: a full or preferred size was reached (at most 4)."},
        {CLOSE_IDLE, 1, 1, "A slot was free and nothing was gained by waiting: the 1 row there was went."},
        {CLOSE_IDLE, 2, 2, "A slot was free and nothing was gained by waiting: all 2 rows there were went."},
        {CLOSE_BEST, 1, 2,
         "2 rows were waiting: by what was measured there, 1 at once gives the most rows per second."},
        {CLOSE_BEST, 2, 3, "3 rows were waiting: by what was measured there, 2 at once give the most rows per second."},
        {CLOSE_UNPAID, 1, 2,
         "Batches do not pay there: by what was measured, a row in company takes as long as one alone."},
        {CLOSE_EXPLORE, 2, 2,
         "2 rows were waiting, and how long 2 at once take there was not known or long ago: it was measured."},
        {CLOSE_EXPLORE, 1, 2,
         "2 rows were waiting, and how long 1 at once takes there was not known or long ago: it was measured."},
        {CLOSE_DELAY, 2, 2, "The oldest job had waited for company for 700 us, the model's limit."},
        {CLOSE_DEADLINE, 2, 2,
         "To wait for more company would have cost the most urgent job its deadline (20 us of execution)."},
        {CLOSE_HEDGE, 2, 2, "The batch closed: hedge."},
        {CLOSE_STEPS, 2, 2, "The batch closed: steps."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct explained *e = note();
        e->reason = cases[i].reason;
        e->rows = cases[i].rows;
        e->decision.rows_waiting = cases[i].waiting;
        expect_batch(cases[i].sentence);
    }
}

Test(sentences, a_job_that_shared_a_run_or_was_alone_says_so)
{
    struct explained *e = note();
    e->reason = CLOSE_DELAY;
    e->alone = true;
    expect_batch("A worker was lost with this job: it runs in a batch of its own.");
    e->followed = true;
    expect_batch("An identical job was under way: this one got its result.");
    e->jobs = 0;
    expect_batch("An identical job was under way: this one got its result.");
    e->followed = false;
    expect_batch("");
}

Test(sentences, each_choice_of_a_worker_has_its_own)
{
    struct explained *e = note();
    expect_worker("quick was the only worker that could run it: done in 35 us was expected (10 us of backlog, 20 us of "
                  "execution, 5 us of transfer).");
    e->decision.count = 0;
    expect_worker("quick came back while it was still running the job, which stayed there.");
    e->decision.count = 2;
    e->decision.capable = 3;
    e->decision.kept[1] = (struct weighed){.worker = 0x4e, .expect_us = 36};
    expect_worker("quick was expected to be done first of 3: in 35 us (10 us of backlog, 20 us of execution, 5 us of "
                  "transfer); next would have been "
                  "000000000000004e (gone) in 36 us.");
    e->decision.kept[1].expect_us = 35;
    e->decision.kept[1].load_us = 1;
    expect_worker("quick was expected to be done first of 3: in 35 us (10 us of backlog, 20 us of execution, 5 us of "
                  "transfer); next would have been "
                  "000000000000004e (gone) in 36 us, which has to load the model first.");
    e->decision.kept[1] = (struct weighed){.worker = 0x4e, .expect_us = 35};
    expect_worker("quick was expected to be done first of 3: in 35 us (10 us of backlog, 20 us of execution, 5 us of "
                  "transfer); next would have been "
                  "000000000000004e (gone) in 35 us.");
    e->decision.kept[1].expect_us = 34;
    expect_worker("quick could start at once and was expected to be done in 35 us; 000000000000004e (gone) is quicker "
                  "(34 us) but had its credit of work, and "
                  "more jobs were waiting for it.");
    e->worker[0] = '\0';
    expect_worker("");
    e->reason = CLOSE_STEPS;
    expect_worker("No worker had all of its models: its steps ran as jobs of their own.");
}

Test(sentences, the_end_of_a_job_has_a_name)
{
    static const struct {
        enum pen_status status;
        bool worker;
        uint8_t attempts;
        uint64_t total_us;
        const char *state;
    } cases[] = {{PEN_OK, true, 1, 9, "done"},           {PEN_ERR_CANCELLED, false, 0, 0, "cancelled"},
                 {PEN_ERR_BUSY, false, 0, 0, "refused"}, {PEN_ERR_BUSY, true, 0, 0, "failed"},
                 {PEN_ERR_BUSY, false, 1, 0, "failed"},  {PEN_ERR_BUSY, false, 0, 1, "failed"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct explained *e = note();
        e->status = (uint8_t)cases[i].status;
        e->attempts = cases[i].attempts;
        e->total_us = cases[i].total_us;
        if (!cases[i].worker)
            e->worker[0] = '\0';
        snprintf(e->error, sizeof e->error, "so it was");
        Penstock__ControlReply *reply = explained();
        cr_expect_str_eq(reply->explanation->state, cases[i].state, "%zu: %s", i, reply->explanation->state);
        cr_expect_str_eq(reply->explanation->why_not, "so it was");
        penstock__control_reply__free_unpacked(reply, NULL);
    }
    note()->cached = true;
    Penstock__ControlReply *reply = explained();
    cr_expect_str_eq(reply->explanation->state, "done");
    cr_expect_str_eq(reply->explanation->why_not, "It did not run: the result cache had the answer.");
    penstock__control_reply__free_unpacked(reply, NULL);
}

Test(sentences, each_number_of_the_note_is_told)
{
    struct explained *e = note();
    e->version = 31;
    e->priority = 32;
    e->queue_us = 33;
    e->expect_us = 34;
    e->compute_us = 35;
    e->total_us = 36;
    e->jobs = 37;
    e->rows = 38;
    e->attempts = 39;
    e->reason = CLOSE_FULL;
    e->status = PEN_ERR_INTERNAL;
    e->decision.kept[0].load_us = 41;
    e->decision.kept[0].credit = true;
    snprintf(e->backend, sizeof e->backend, "abacus");
    Penstock__ControlReply *reply = explained();
    const Penstock__Explanation *x = reply->explanation;
    cr_expect(strcmp(x->model, "net") == 0 && strcmp(x->tenant, "team") == 0 && strcmp(x->worker, "quick") == 0 &&
              strcmp(x->backend, "abacus") == 0);
    cr_expect(x->version == 31 && x->priority == 32 && x->queue_us == 33 && x->expect_us == 34 && x->compute_us == 35 &&
              x->total_us == 36);
    cr_expect(x->batch_jobs == 37 && x->batch_rows == 38 && x->attempts == 39 && strcmp(x->batch_reason, "full") == 0 &&
              x->status == PEN_ERR_INTERNAL);
    cr_assert(x->n_candidates == 1 && x->capable == 1);
    const Penstock__Candidate *c = x->candidates[0];
    cr_expect(c->backlog_us == 10 && c->expect_us == 20 && c->transfer_us == 5 && c->load_us == 41 && c->credit &&
              c->chosen);
    cr_expect(strcmp(c->worker, "000000000000004d (gone)") == 0 && *c->backend == '\0');
    penstock__control_reply__free_unpacked(reply, NULL);
}

Test(sentences, each_step_of_an_ensemble_has_its_state)
{
    static const char *const states[] = {"waits", "running", "done", "failed", "stopped", "queued"};
    struct explained *e = note();
    e->steps = calloc(6, sizeof *e->steps);
    e->steps_count = 6;
    for (uint32_t i = 0; i < 6; i++) {
        explain_step_init(&e->steps[i], i + 1, "part");
        e->steps[i].state = i < 5 ? (enum explained_state)i : EXPLAINED_RUNS;
        snprintf(e->steps[i].worker, sizeof e->steps[i].worker, "%s", i == 1 ? "one" : "");
        e->steps[i].version = 10 + i;
        e->steps[i].batch_jobs = 20 + i;
        e->steps[i].attempts = (uint8_t)(30 + i);
        e->steps[i].queue_us = 40 + i;
        e->steps[i].compute_us = 50 + i;
        e->steps[i].total_us = 60 + i;
    }
    Penstock__ControlReply *reply = explained();
    cr_assert_eq(reply->explanation->n_steps, 6u);
    for (uint32_t i = 0; i < 6; i++) {
        const Penstock__ExplainedStep *step = reply->explanation->steps[i];
        cr_expect_str_eq(step->state, states[i]);
        cr_expect(step->number == i + 1 && strcmp(step->model, "part") == 0 &&
                  strcmp(step->worker, i == 1 ? "one" : "") == 0);
        cr_expect(step->version == 10 + i && step->batch_jobs == 20 + i && step->attempts == 30 + i);
        cr_expect(step->queue_us == 40 + i && step->compute_us == 50 + i && step->total_us == 60 + i);
    }
    penstock__control_reply__free_unpacked(reply, NULL);
}

/* ---- who has it, where none fits ---- */

Test(sentences, a_list_of_many_backends_ends_where_its_room_does)
{
    static char names[60][32];
    struct wire_model model = {.name = "net", .version = 1, .precision = PRECISION_F32, .digest = 1};
    for (uint32_t i = 0; i < 60; i++) {
        snprintf(names[i], sizeof names[i], "backend-with-a-long-name-%02u", i);
        model.backend = names[i];
        desk_worker(
            desk, 900 + i,
            &(struct wire_worker){.uuid = 1 + i, .name = names[i], .slots = 1, .models = &model, .models_count = 1});
    }
    desk_submit(desk, 1, &(struct wire_job){.id = {0xABC, 7}, .model = "net", .backend = "abacus", .no_digest = true});
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(sent);
    Penstock__ResultMeta *result = sent_result(sent);
    cr_expect_neq(sent->env.status, PEN_OK);
    cr_expect(strstr(result->error, names[0]) && strstr(result->error, names[1]) && !strstr(result->error, names[59]),
              "%s", result->error);
    cr_expect_lt(strlen(result->error), 1000u);
    penstock__result_meta__free_unpacked(result, NULL);
}
