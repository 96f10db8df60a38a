/* Workers that offer one version of a model in different forms, on the desk: a job goes to those that take it, and to nobody else. */
#include <criterion/criterion.h>
#include <string.h>

#include "desk.h"

static const struct wire_model old = {
    .name = "m", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 5000, .digest = 1};
static const struct wire_model new = {.name = "m",
                                      .version = 1,
                                      .backend = "xnnpack",
                                      .precision = PRECISION_F32,
                                      .warm_us = 5000,
                                      .digest = 2,
                                      .takes_name = "pixels"};
/* As `old`, but its output has another element type, and batches. */
static const struct wire_model wide = {.name = "m",
                                       .version = 1,
                                       .backend = "xnnpack",
                                       .precision = PRECISION_F32,
                                       .warm_us = 5000,
                                       .digest = 3,
                                       .max_batch = 8,
                                       .gives_dtype = 1};

static struct desk *desk;
static uint64_t sequence;

static void begin(void)
{
    desk = desk_new();
    sequence = 0;
    desk_open(desk);
    desk_client(desk, 1, 0xC);
}

static void end(void)
{
    desk_free(desk);
}

static void worker(uint32_t peer, const struct wire_model *model)
{
    desk_worker(desk, peer,
                &(struct wire_worker){.uuid = peer, .name = "w", .slots = 1, .models = model, .models_count = 1});
}

static void replace(uint32_t peer, const struct wire_model *model)
{
    uint8_t meta[WIRE_META_BYTES];
    desk_say_worker(desk, peer, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, model, 1));
}

static struct job_id submit(const char *input)
{
    sequence++;
    struct wire_job job = {.id = {0xC, sequence}, .model = "m", .input = input, .fill = (uint8_t)sequence};
    desk_submit(desk, 1, &job);
    return job.id;
}

/* Who was given the next job; 0 = nobody. */
static uint32_t given_to(void)
{
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    return sent ? sent->peer : 0;
}

static enum pen_status told(void)
{
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    return reply ? (enum pen_status)reply->env.status : PEN_STATUS_COUNT;
}

/* Client and worker are heard meanwhile. */
static void wait_beside(uint32_t peer, uint64_t us)
{
    for (uint64_t past = 0; past < us; past += 100000) {
        desk_say_worker(desk, peer, envelope_make(FRAME_HEARTBEAT), NULL, 0);
        desk_say_client(desk, 1, envelope_make(FRAME_PING), NULL, 0, 0);
        desk_wait(desk, 100000);
    }
}

Test(forms, each_job_goes_to_the_worker_that_takes_it, .init = begin, .fini = end)
{
    worker(901, &old);
    worker(902, &new);
    for (int i = 0; i < 10; i++) {
        struct job_id id = submit("x");
        cr_assert_eq(given_to(), 901, "the newest hello does not decide for all");
        desk_result(desk, 901, id, 0, 1);
        cr_assert_eq(told(), PEN_OK);
        id = submit("pixels");
        cr_assert_eq(given_to(), 902);
        desk_result(desk, 902, id, 0, 1);
        cr_assert_eq(told(), PEN_OK);
    }
    submit("nothing");
    cr_assert_eq(told(), PEN_ERR_NOT_FOUND, "what nobody takes is refused at once");
    Penstock__ControlReply *answer = desk_ask(desk, "models", "", NULL);
    cr_assert_eq(answer->models[0]->forms, 2);
    penstock__control_reply__free_unpacked(answer, NULL);
}

Test(forms, a_busy_worker_of_its_form_is_waited_for, .init = begin, .fini = end)
{
    worker(901, &old);
    worker(902, &new);
    for (int i = 0; i < 4; i++)
        submit("x");
    cr_assert_eq(given_to(), 901);
    desk_wait(desk, 1000);
    for (uint32_t peer; (peer = given_to()) != 0;)
        cr_assert_eq(peer, 901, "an idle worker of another form gets none of them");
    for (uint64_t i = 1; i <= 4; i++) {
        desk_result(desk, 901, (struct job_id){0xC, i}, 0, 1);
        cr_assert_eq(told(), PEN_OK);
    }
}

Test(forms, a_form_that_both_take_is_served_by_both_and_held_to_its_own_outputs, .init = begin, .fini = end)
{
    worker(901, &old);
    worker(902, &wide);
    uint32_t seen[2];
    for (int i = 0; i < 2; i++) {
        submit("x");
        seen[i] = given_to();
    }
    cr_assert_neq(seen[0], seen[1]);
    cr_assert(seen[0] && seen[1]);
    for (uint64_t i = 1; i <= 2; i++) /* y as u8 */
        desk_result(desk, seen[i - 1], (struct job_id){0xC, i}, 0, 1);
    enum pen_status first = told(), second = told();
    cr_assert_eq(first, seen[0] == 901 ? PEN_OK : PEN_ERR_CORRUPT);
    cr_assert_eq(second, seen[1] == 901 ? PEN_OK : PEN_ERR_CORRUPT);
}

Test(forms, more_rows_than_a_worker_takes_go_to_one_that_takes_them, .init = begin, .fini = end)
{
    static const struct wire_model narrow = {.name = "m",
                                             .version = 1,
                                             .backend = "xnnpack",
                                             .precision = PRECISION_F32,
                                             .warm_us = 5000,
                                             .digest = 3,
                                             .max_batch = 2,
                                             .gives_dtype = 1};
    worker(901, &wide);
    worker(902, &narrow);
    for (uint64_t i = 1; i <= 2; i++) {
        desk_submit(desk, 1, &(struct wire_job){.id = {0xC, i}, .model = "m", .dims = {6, 4}});
        desk_wait(desk, 20000);
    }
    for (uint32_t peer; (peer = given_to()) != 0;)
        cr_assert_eq(peer, 901);
    cr_assert_eq(desk_pending(&desk->clients, FRAME_RESULT), 0);
}

Test(forms, a_rolling_update_answers_jobs_of_both_forms, .init = begin, .fini = end)
{
    worker(901, &old);
    worker(902, &old);
    struct job_id a = submit("x"), b = submit("x");
    uint32_t first = given_to(), second = given_to();
    cr_assert(first && second);
    submit("x"); /* waits for whoever is free first */
    replace(901, &new);
    desk_result(desk, first, a, 0, 1); /* begun in the old form, and judged by it */
    desk_result(desk, second, b, 0, 1);
    cr_assert_eq(told(), PEN_OK);
    cr_assert_eq(told(), PEN_OK);
    desk_wait(desk, 1000);
    for (uint32_t peer; (peer = given_to()) != 0;)
        cr_assert_eq(peer, 902, "a worker of the new form gets no job of the old one");
    desk_result(desk, 902, (struct job_id){0xC, 3}, 0, 1);
    cr_assert_eq(told(), PEN_OK);
    submit("x");
    cr_assert_eq(given_to(), 902);
    desk_result(desk, 902, (struct job_id){0xC, 4}, 0, 1);
    cr_assert_eq(told(), PEN_OK);
    replace(902, &new);
    submit("x");
    cr_assert_eq(told(), PEN_ERR_NOT_FOUND, "now nobody takes it");
}

Test(forms, who_waits_for_a_form_that_goes_gets_another_one_that_takes_it_or_a_sentence, .init = begin, .fini = end)
{
    static const struct wire_model named = {.name = "m",
                                            .version = 1,
                                            .backend = "xnnpack",
                                            .precision = PRECISION_F32,
                                            .warm_us = 5000,
                                            .digest = 4,
                                            .gives_dtype = 1};
    worker(901, &old);
    struct job_id running = submit("x");
    cr_assert_eq(given_to(), 901);
    submit("x"), submit("x"), submit("x");
    desk_wait(desk, 1000);
    while (given_to() != 0)
        ; /* what was prefetched */
    uint32_t waiting = (uint32_t)(desk->broker.live - desk->broker.fleet.all.tqh_first->jobs);
    cr_assert_gt(waiting, 0);
    replace(901, &named); /* takes the same, gives something else */
    desk_result(desk, 901, running, 0, 1);
    cr_assert_eq(told(), PEN_OK);
    desk_wait(desk, 300000);
    cr_assert_eq(given_to(), 901, "the new form takes them");
    replace(901, &new); /* and this one does not */
    for (uint64_t i = 2; i <= 4; i++) {
        uint8_t meta[WIRE_META_BYTES];
        struct envelope env = envelope_make(FRAME_RESULT);
        env.job = (struct job_id){0xC, i};
        env.status = PEN_ERR_UNAVAILABLE;
        desk_say_worker(desk, 901, env, meta, wire_result(meta, 1, "xnnpack", PRECISION_F32, 1, "unloaded"));
    }
    desk_wait(desk, 600000);
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(reply, "nobody will come back with the old form");
    cr_assert_eq(reply->env.status, PEN_ERR_UNAVAILABLE);
    Penstock__ResultMeta *result = sent_result(reply);
    cr_assert(strstr(result->error, "was replaced while the job waited"), "%s", result->error);
    penstock__result_meta__free_unpacked(result, NULL);
}

Test(forms, one_that_was_lost_may_come_back, .init = begin, .fini = end)
{
    worker(901, &old);
    worker(902, &new);
    side_lose(&desk->workers, 901);
    broker_hint_workers(&desk->broker, -1);
    desk_run(desk);
    cr_assert_eq(desk->broker.fleet.count, 1);
    submit("x");
    cr_assert_eq(told(), PEN_STATUS_COUNT, "no wrong NOT_FOUND: it waits");
    worker(903, &old);
    desk_wait(desk, 1000);
    cr_assert_eq(given_to(), 903);
}

Test(forms, one_that_does_not_come_back_is_given_up, .init = begin, .fini = end)
{
    worker(901, &old);
    worker(902, &new);
    side_lose(&desk->workers, 901);
    broker_hint_workers(&desk->broker, -1);
    desk_run(desk);
    submit("x");
    wait_beside(902, (uint64_t)desk->options.worker_wait_us + 2000000);
    cr_assert_eq(told(), PEN_ERR_UNAVAILABLE);
    submit("x");
    cr_assert_eq(told(), PEN_ERR_NOT_FOUND);
}

Test(forms, as_many_as_there_is_room_for, .init = begin, .fini = end)
{
    struct wire_model model = old;
    for (uint32_t i = 0; i < 200; i++) { /* one after the other: places are used again */
        model.dim = 10 + i;
        if (i == 0)
            worker(901, &model);
        else
            replace(901, &model);
    }
    desk_submit(desk, 1, &(struct wire_job){.id = {0xC, 1}, .model = "m", .dims = {1, 209}});
    cr_assert_eq(given_to(), 901);
    for (uint32_t i = 1; i < FORMS_MAX; i++) {
        model.dim = 1000 + i;
        worker(901 + i, &model);
    }
    uint8_t meta[WIRE_META_BYTES];
    model.dim = 5000;
    struct wire_worker more = {.uuid = 77, .name = "more", .slots = 1, .models = &model, .models_count = 1};
    desk_say_worker(desk, 990, envelope_make(FRAME_WORKER_HELLO), meta, wire_worker_hello(meta, &more));
    struct sent *welcome = desk_next(&desk->workers, FRAME_WELCOME);
    while (welcome && welcome->peer != 990)
        welcome = desk_next(&desk->workers, FRAME_WELCOME);
    cr_assert_not_null(welcome);
    cr_assert_eq(welcome->env.status, PEN_ERR_TOO_LARGE, "%s, %u forms",
                 pen_status_name((enum pen_status)welcome->env.status),
                 forms_offered(&desk->broker.models.all.tqh_first->forms));
    Penstock__Welcome *said = penstock__welcome__unpack(NULL, welcome->env.meta_bytes, welcome->meta);
    cr_assert(strstr(said->error, "more than 16 forms"), "%s", said->error);
    penstock__welcome__free_unpacked(said, NULL);
}

Test(forms, a_restarted_broker_waits_for_the_form_of_what_is_sent_again, .init = begin, .fini = end)
{
    struct wire_job job = {.id = {0xC, 1}, .model = "m", .flags = FRAME_FLAG_RESENT};
    worker(902, &new); /* the first one that is back */
    desk_submit(desk, 1, &job);
    cr_assert_eq(told(), PEN_STATUS_COUNT, "no wrong NOT_FOUND");
    worker(901, &old);
    cr_assert_eq(given_to(), 901);
    desk_result(desk, 901, job.id, 0, 1);
    cr_assert_eq(told(), PEN_OK);
    job.id.sequence = 2;
    job.input = "nothing";
    desk_submit(desk, 1, &job);
    cr_assert_eq(told(), PEN_STATUS_COUNT);
    wait_beside(902, (uint64_t)desk->options.restart_wait_us + 500000);
    cr_assert_eq(told(), PEN_ERR_NOT_FOUND, "in the end it is told");
}
