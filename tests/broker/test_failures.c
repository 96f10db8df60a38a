/* Models that workers have and cannot serve: who is told what, and how long. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "desk.h"
#include "failure.h"
#include "metrics_json.h"
#include "metrics_text.h"

#define SENTENCE "config.json: unknown key \"max_bach_size\"; did you mean 'max_batch_size'?"

#define HELLO_BYTES (256u * 1024u)

static const struct wire_model served = {
    .name = "good", .version = 1, .backend = "reference", .warm_us = 100, .digest = 1, .dim = 4};

/* Of a worker that offers `good` (when `offers`), and has these failures. */
static size_t pack_hello(uint8_t *meta, bool offers, Penstock__ModelFailure **failures, size_t count)
{
    struct wire_worker worker = {.uuid = 9, .name = "w9", .slots = 1, .models = &served, .models_count = offers};
    size_t bytes = wire_worker_hello(meta, &worker);
    Penstock__WorkerHello *hello = penstock__worker_hello__unpack(NULL, bytes, meta);
    cr_assert_not_null(hello);
    hello->failures = failures;
    hello->n_failures = count;
    hello->failures_count = (uint32_t)count;
    bytes = penstock__worker_hello__get_packed_size(hello);
    cr_assert(bytes <= HELLO_BYTES);
    penstock__worker_hello__pack(hello, meta);
    hello->failures = NULL;
    hello->n_failures = 0;
    penstock__worker_hello__free_unpacked(hello, NULL);
    return bytes;
}

static Penstock__ModelFailure failure(const char *name, uint64_t version, const char *text, bool serving)
{
    Penstock__ModelFailure one = PENSTOCK__MODEL_FAILURE__INIT;
    one.name = (char *)(uintptr_t)name;
    one.version = version;
    one.status = PEN_ERR_INVALID;
    one.error = (char *)(uintptr_t)text;
    one.serving = serving;
    return one;
}

static struct desk *open_with(bool offers, Penstock__ModelFailure **failures, size_t count)
{
    static uint8_t meta[HELLO_BYTES];
    struct desk *desk = desk_new();
    desk->options.restart_wait_us = 0;
    desk_open(desk);
    desk_client(desk, 1, 77);
    desk_say_worker(desk, 900, envelope_make(FRAME_WORKER_HELLO), meta, pack_hello(meta, offers, failures, count));
    return desk;
}

static void refused(struct desk *desk, uint64_t sequence, const char *model, uint64_t version, enum pen_status status,
                    const char *part)
{
    desk_submit(
        desk, 1,
        &(struct wire_job){.id = {77, sequence}, .model = model, .version = version, .dims = {1, 4}, .fill = 1});
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(sent);
    Penstock__ResultMeta *result = sent_result(sent);
    cr_expect(sent->env.status == status, "%s: %s", pen_status_name(sent->env.status), result->error);
    cr_expect(strstr(result->error, part), "'%s' does not say '%s'", result->error, part);
    penstock__result_meta__free_unpacked(result, NULL);
}

Test(failures, a_job_for_a_model_that_failed_is_told_the_workers_sentence)
{
    Penstock__ModelFailure bad = failure("bad", 1, SENTENCE, false), newer = failure("good", 2, "truncated", false);
    Penstock__ModelFailure *list[] = {&bad, &newer};
    struct desk *desk = open_with(true, list, 2);
    refused(desk, 1, "bad", 0, PEN_ERR_NOT_FOUND, "worker w9 could not load it: " SENTENCE);
    refused(desk, 2, "bad", 1, PEN_ERR_NOT_FOUND, SENTENCE);
    refused(desk, 3, "good", 2, PEN_ERR_NOT_FOUND, "worker w9 could not load it: truncated; served: good:1");
    refused(desk, 4, "other", 0, PEN_ERR_NOT_FOUND, "unknown model 'other'; served: good:1");
    desk_free(desk);
}

Test(failures, so_is_one_for_a_worker_with_nothing_else)
{
    Penstock__ModelFailure bad = failure("bad", 0, SENTENCE, false), *list[] = {&bad};
    struct desk *desk = open_with(false, list, 1);
    refused(desk, 1, "bad", 0, PEN_ERR_NOT_FOUND, SENTENCE);
    desk_free(desk);
}

Test(failures, models_and_workers_list_them)
{
    Penstock__ModelFailure bad = failure("bad", 1, SENTENCE, false), edit = failure("good", 0, SENTENCE, true);
    Penstock__ModelFailure *list[] = {&bad, &edit};
    struct desk *desk = open_with(true, list, 2);
    Penstock__ControlReply *reply = desk_ask(desk, "models", "", NULL);
    cr_assert(reply->n_models == 1 && reply->n_failures == 2);
    cr_expect_str_eq(reply->failures[0]->worker, "w9");
    cr_expect_str_eq(reply->failures[0]->failure->name, "bad");
    cr_expect_str_eq(reply->failures[0]->failure->error, SENTENCE);
    cr_expect(!reply->failures[0]->failure->serving && reply->failures[1]->failure->serving);
    penstock__control_reply__free_unpacked(reply, NULL);
    enum pen_status status;
    reply = desk_ask(desk, "models", "bad", &status);
    cr_expect(status == PEN_OK && reply->n_models == 0 && reply->n_failures == 1);
    penstock__control_reply__free_unpacked(reply, NULL);
    reply = desk_ask(desk, "workers", "", NULL);
    cr_expect(reply->workers[0]->n_failures == 2 && reply->workers[0]->failures_count == 2);
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

Test(failures, an_update_says_it_all_anew)
{
    uint8_t meta[WIRE_META_BYTES];
    Penstock__ModelFailure bad = failure("bad", 1, SENTENCE, false), *list[] = {&bad};
    struct desk *desk = open_with(true, list, 1);
    for (int i = 0; i < 3; i++) { /* each arena is used again */
        Penstock__WorkerUpdate update = PENSTOCK__WORKER_UPDATE__INIT;
        Penstock__ModelFailure other = failure(i == 1 ? "worse" : "bad", 2, "another sentence", false);
        Penstock__ModelFailure *others[] = {&other};
        update.failures = others;
        update.n_failures = update.failures_count = 1;
        desk_say_worker(desk, 900, envelope_make(FRAME_WORKER_UPDATE), meta,
                        penstock__worker_update__pack(&update, meta));
        Penstock__ControlReply *reply = desk_ask(desk, "models", "", NULL);
        cr_assert(reply->n_failures == 1 && reply->failures[0]->failure->version == 2);
        cr_expect_str_eq(reply->failures[0]->failure->name, i == 1 ? "worse" : "bad");
        penstock__control_reply__free_unpacked(reply, NULL);
    }
    desk_say_worker(desk, 900, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, &served, 1));
    Penstock__ControlReply *reply = desk_ask(desk, "models", "", NULL);
    cr_expect(reply->n_failures == 0, "it is well");
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

Test(failures, they_go_with_their_worker)
{
    Penstock__ModelFailure bad = failure("bad", 1, SENTENCE, false), *list[] = {&bad};
    struct desk *desk = open_with(true, list, 1);
    desk_say_worker(desk, 900, envelope_make(FRAME_GOODBYE), NULL, 0);
    desk_run(desk);
    Penstock__ControlReply *reply = desk_ask(desk, "models", "", NULL);
    cr_expect(reply->n_failures == 0);
    penstock__control_reply__free_unpacked(reply, NULL);
    desk_free(desk);
}

static size_t times(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        count++;
    return count;
}

/* The same name twice would be one series twice, and Prometheus would take nothing of the page. */
Test(failures, what_a_hostile_worker_says_of_them_is_bounded_and_cleaned)
{
    enum { MANY = FAILURES_MAX + 9 };
    static char names[MANY][16], text[900];
    Penstock__ModelFailure rows[MANY], *list[MANY];
    memset(text, 'x', sizeof text - 1);
    text[3] = '\x1b';
    text[4] = '\xFF';
    memcpy(text + FAILURE_TEXT_BYTES - 1, "\xC3\xA4", 2);
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], i < 2 ? "m\\xFF" : "m%zu", i);
        if (i < 2) {
            names[i][1] = (char)(0xFE + i);
            names[i][2] = '\0';
        }
        rows[i] = failure(names[i], 1, text, false);
        rows[i].status = 4000;
        list[i] = &rows[i];
    }
    struct desk *desk = open_with(true, list, MANY);
    struct snapshot *snapshot = snapshot_take(&desk->broker);
    struct writer metrics = {.text = NULL}, json = {.text = NULL};
    metrics_text(snapshot, &metrics);
    metrics_json(snapshot, &json);
    cr_expect(snapshot->failures_count == FAILURES_MAX - 1, "%u", snapshot->failures_count);
    cr_expect(times(metrics.text, "penstock_worker_model_failed{") == FAILURES_MAX - 1);
    cr_expect(times(metrics.text, "model=\"m?\"") == 1);
    cr_expect(times(metrics.text, "penstock_worker_models_failed{") == 1);
    cr_expect(!strstr(metrics.text, "xxxx"), "no sentence in a label");
    cr_expect(times(json.text, "\"status\":\"INTERNAL\"") == FAILURES_MAX - 1);
    cr_expect(strlen(snapshot->failures[5].text) == FAILURE_TEXT_BYTES - 1, "cut between characters: %zu",
              strlen(snapshot->failures[5].text));
    cr_expect(snapshot->failures[5].text[3] == '?' && snapshot->failures[5].text[4] == '?');
    writer_fini(&metrics);
    writer_fini(&json);
    snapshot_free(snapshot);
    desk_free(desk);
}

/* A text that a message does not have is one of protobuf-c's constants, which nobody may write to. */
Test(failures, one_that_says_nothing_gets_a_status_and_a_sentence)
{
    Penstock__ModelFailure bare = PENSTOCK__MODEL_FAILURE__INIT, mute = failure("bad", 1, "", false);
    Penstock__ModelFailure *list[] = {&bare, &mute};
    mute.status = PEN_OK;
    struct desk *desk = open_with(true, list, 2);
    Penstock__ControlReply *reply = desk_ask(desk, "models", "", NULL);
    cr_assert(reply->n_failures == 2);
    for (size_t i = 0; i < 2; i++) {
        cr_expect(reply->failures[i]->failure->status == PEN_ERR_INTERNAL);
        cr_expect_str_eq(reply->failures[i]->failure->error, "the worker gives no reason");
    }
    penstock__control_reply__free_unpacked(reply, NULL);
    refused(desk, 1, "bad", 0, PEN_ERR_NOT_FOUND, "worker w9 could not load it: the worker gives no reason");
    desk_free(desk);
}
