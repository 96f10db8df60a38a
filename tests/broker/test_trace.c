/* Lives of jobs: what is kept, what it tells, and the forms it leaves in. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "control_watch.h"
#include "desk.h"
#include "meta_fields.h"
#include "patch.h"
#include "trace_write.h"

#define PARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static const struct wire_model echo = {.name = "echo",
                                       .version = 3,
                                       .backend = "xnnpack",
                                       .precision = PRECISION_F32,
                                       .max_batch = 8,
                                       .warm_us = 100,
                                       .digest = 9,
                                       .cacheable = true};

static struct desk *desk_ready(void)
{
    struct desk *desk = desk_new();
    desk->options.trace_keep = 8;
    desk->options.trace_sample = 0;
    return desk;
}

static void open_with_worker(struct desk *desk)
{
    desk_open(desk);
    desk_worker(desk, 1,
                &(struct wire_worker){.uuid = 5, .name = "one", .slots = 1, .models = &echo, .models_count = 1});
    desk_client(desk, 2, 0xC);
}

/* A job with trace fields behind its meta: the last occurrence of a field counts. */
static void submit_traced(struct desk *desk, uint64_t sequence, const char *parent, uint32_t wish, uint64_t unix_us)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t raw_bytes;
    struct patch patch = {.used = 0};
    struct wire_job job = {.id = {0xC, sequence}, .model = "echo", .fill = (uint8_t)sequence, .no_cache = true};
    size_t bytes = wire_job(meta, &job, &raw_bytes);
    if (parent)
        patch_text(&patch, 8, parent);
    patch_number(&patch, 31, wish);
    patch_number(&patch, 30, unix_us);
    memcpy(meta + bytes, patch.bytes, patch.used);
    desk_say_client(desk, 2, wire_job_envelope(&job), meta, bytes + patch.used, raw_bytes);
    desk_run(desk);
}

static cJSON *ask(struct desk *desk, const char *question)
{
    char *text = NULL;
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(control_trace(&desk->broker, question, &text, &error), PEN_OK, "%s: %s", question, error.text);
    cJSON *json = cJSON_Parse(text);
    cr_assert_not_null(json, "no JSON: %s", text);
    free(text);
    return json;
}

static const cJSON *span_named(const cJSON *trace, const char *name)
{
    const cJSON *span;
    cJSON_ArrayForEach(span, cJSON_GetObjectItem(trace, "spans"))
    {
        if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(span, "name")), name) == 0)
            return span;
    }
    return NULL;
}

static double number(const cJSON *object, const char *key)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItem(object, key));
}

/* ---- context ---- */

Test(context, a_traceparent_is_read_and_written)
{
    struct trace_context context;
    char text[TRACE_PARENT_BYTES + 1];
    const uint8_t span[8] = {1, 2, 3, 4, 5, 6, 7, 0xFF};
    cr_assert(trace_context_parse(PARENT, &context));
    cr_expect_eq(context.flags, 1);
    trace_context_write(&context, span, text);
    cr_expect_str_eq(text, "00-4bf92f3577b34da6a3ce929d0e0e4736-01020304050607ff-01");
}

Test(context, what_is_no_traceparent_is_none)
{
    static const char *const bad[] = {"",
                                      "00",
                                      "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                      "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                                      "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                                      "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                                      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
                                      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-011",
                                      "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct trace_context context = {.valid = true};
        cr_expect_not(trace_context_parse(bad[i], &context), "%s", bad[i]);
        cr_expect_not(context.valid);
    }
}

Test(context, the_worker_gets_the_same_trace_with_our_span)
{
    struct desk *desk = desk_ready();
    struct trace_context context;
    uint8_t span[8];
    open_with_worker(desk);
    submit_traced(desk, 1, PARENT, 0, 0);
    const struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(sent);
    Penstock__JobMeta *meta = penstock__job_meta__unpack(NULL, sent->env.meta_bytes, sent->meta);
    cr_assert(trace_context_parse(meta->traceparent, &context), "%s", meta->traceparent);
    cr_expect_eq(memcmp(meta->traceparent + 3, &PARENT[3], 32), 0, "the trace stays");
    span_id((struct job_id){0xC, 1}, SPAN_WORKER_PARENT, span);
    cr_expect_arr_eq(context.parent_id, span, 8, "the parent is the broker's span of the job");
    cr_expect_eq(context.flags, 1);
    penstock__job_meta__free_unpacked(meta, NULL);
    desk_free(desk);
}

/* ---- layers ---- */

Test(layers, are_read_capped_and_cut)
{
    static uint8_t meta[WIRE_META_BYTES];
    static Penstock__LayerTime rows[TRACE_LAYERS_MAX + 20], *pointers[TRACE_LAYERS_MAX + 20];
    char long_name[200];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    for (size_t i = 0; i < TRACE_LAYERS_MAX + 20; i++) {
        penstock__layer_time__init(&rows[i]);
        rows[i].name = i ? (char *)"conv" : long_name;
        rows[i].us = (uint32_t)i;
        pointers[i] = &rows[i];
    }
    result.layers = pointers;
    result.n_layers = TRACE_LAYERS_MAX + 20;
    size_t bytes = penstock__result_meta__pack(&result, meta);
    struct trace_layers *layers = trace_layers_read(meta, bytes);
    cr_assert_not_null(layers);
    cr_expect_eq(layers->count, TRACE_LAYERS_MAX);
    cr_expect_eq(strlen(layers->rows[0].name), TRACE_NAME_BYTES - 1);
    cr_expect_eq(layers->rows[7].us, 7);
    cr_expect_eq(trace_layers_keep(layers), layers);
    trace_layers_release(layers);
    trace_layers_release(layers);
    for (size_t cut = 0; cut < bytes; cut += 7) /* whatever is cut off, nothing breaks */
        trace_layers_release(trace_layers_read(meta, cut));
    cr_expect_null(trace_layers_read(meta, 0));
}

/* The first of two has half a number. */
Test(layers, a_broken_one_is_left_out)
{
    enum { KEY = RESULT_META_LAYERS << 3 | 2, LOW = (KEY & 127) | 128, HIGH = KEY >> 7, TIME = LAYER_TIME_US << 3 };
    const uint8_t meta[] = {LOW, HIGH, 2, TIME, 0x80, LOW, HIGH, 2, TIME, 9};
    cr_assert(HIGH > 0 && HIGH < 128 && TIME < 128, "keys of two bytes and of one");
    struct trace_layers *layers = trace_layers_read(meta, sizeof meta);
    cr_assert_not_null(layers);
    cr_expect_eq(layers->count, 1u);
    cr_expect_eq(layers->rows[0].us, 9u);
    trace_layers_release(layers);
}

/* ---- lives ---- */

Test(trace, a_job_tells_who_had_it_from_when_to_when)
{
    struct desk *desk = desk_ready();
    uint8_t meta[WIRE_META_BYTES];
    open_with_worker(desk);
    uint64_t unix_us = (uint64_t)((int64_t)desk->broker.clock() + desk->broker.metrics->unix_offset_us);
    submit_traced(desk, 1, NULL, 1, unix_us - 700);
    desk_wait(desk, 4000);
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = (struct job_id){0xC, 1};
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    wire_give(&result);
    result.compute_us = 2000;
    result.worker_us = 3000;
    result.worker_wait_us = 600;
    result.gather_us = 300;
    result.split_us = 100;
    desk_say_worker(desk, 1, env, meta, penstock__result_meta__pack(&result, meta));
    cJSON *json = ask(desk, "000000000000000c-1");
    const cJSON *trace = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "traces"), 0);
    const struct {
        const char *name;
        double start, us;
    } spans[] = {{"job", -700, 4700},   {"submit and way to the broker", -700, 700},
                 {"dispatch", 0, 4000}, {"way to the worker", 0, 500},
                 {"worker", 500, 3000}, {"wait for a slot", 500, 600},
                 {"gather", 1100, 300}, {"compute", 1400, 1700},
                 {"split", 3100, 100},  {"way back", 3500, 500}};
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        const cJSON *span = span_named(trace, spans[i].name);
        cr_assert_not_null(span, "%s", spans[i].name);
        cr_expect_float_eq(number(span, "start_us"), spans[i].start, 1, "%s starts %f", spans[i].name,
                           number(span, "start_us"));
        cr_expect_float_eq(number(span, "us"), spans[i].us, 1, "%s takes %f", spans[i].name, number(span, "us"));
    }
    cJSON_Delete(json);
    desk_free(desk);
}

Test(trace, a_clock_that_is_ahead_or_far_off_is_left_out)
{
    struct desk *desk = desk_ready();
    open_with_worker(desk);
    uint64_t unix_us = (uint64_t)((int64_t)desk->broker.clock() + desk->broker.metrics->unix_offset_us);
    const uint64_t clocks[] = {unix_us + 5000000, unix_us - 3600000000u, 1, 0};
    for (uint64_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++) {
        submit_traced(desk, i + 1, NULL, 1, clocks[i]);
        desk_result_status(desk, 1, (struct job_id){0xC, i + 1}, PEN_OK, 10);
    }
    cJSON *json = ask(desk, "kept");
    const cJSON *trace;
    cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(json, "traces")), 4);
    cJSON_ArrayForEach(trace, cJSON_GetObjectItem(json, "traces"))
        cr_expect_null(span_named(trace, "submit and way to the broker"));
    cJSON_Delete(json);
    desk_free(desk);
}

Test(trace, lost_workers_are_told_of)
{
    struct desk *desk = desk_ready();
    open_with_worker(desk);
    desk_worker(desk, 3,
                &(struct wire_worker){.uuid = 6, .name = "two", .slots = 1, .models = &echo, .models_count = 1});
    desk_submit(desk, 2, &(struct wire_job){.id = {0xC, 1}, .model = "echo", .no_cache = true});
    desk_run(desk);
    const struct sent *first = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(first);
    desk_wait(desk, 1500);
    desk_say_worker(desk, first->peer, envelope_make(FRAME_GOODBYE), NULL, 0);
    desk_run(desk);
    desk_result_status(desk, first->peer == 1 ? 3 : 1, (struct job_id){0xC, 1}, PEN_OK, 10);
    cJSON *json = ask(desk, "000000000000000c-1");
    const cJSON *trace = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "traces"), 0);
    const cJSON *lost = span_named(trace, "lost attempt");
    cr_assert_not_null(lost);
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(lost, "detail")), first->peer == 1 ? "one" : "two");
    cr_expect_eq(number(lost, "us"), 1500);
    cr_expect_eq(number(trace, "attempts"), 2);
    cJSON_Delete(json);
    desk_free(desk);
}

Test(trace, of_many_lost_workers_the_first_ones_and_the_last_are_told)
{
    struct trace_note note = {.attempts_count = 0};
    const char *const workers[] = {"first", "second", "third", "fourth", "last"};
    for (uint64_t i = 0; i < sizeof workers / sizeof workers[0]; i++)
        trace_note_attempt(&note, workers[i], 10 * i, 10 * i + 5);
    cr_expect_eq(note.attempts_count, TRACE_ATTEMPTS);
    cr_expect_str_eq(note.attempts[0].worker, "first");
    cr_expect_str_eq(note.attempts[1].worker, "second");
    cr_expect_str_eq(note.attempts[TRACE_ATTEMPTS - 1].worker, "last");
    cr_expect(note.attempts[TRACE_ATTEMPTS - 1].sent_us == 40 && note.attempts[TRACE_ATTEMPTS - 1].lost_us == 45);
}

/* ---- what is kept ---- */

static size_t kept_of(struct desk *desk, uint64_t jobs, uint64_t us)
{
    open_with_worker(desk);
    for (uint64_t i = 1; i <= jobs; i++) {
        desk_submit(desk, 2, &(struct wire_job){.id = {0xC, i}, .model = "echo", .no_cache = true});
        desk_run(desk);
        desk_wait(desk, us);
        desk_result_status(desk, 1, (struct job_id){0xC, i}, PEN_OK, 10);
    }
    return (size_t)desk->broker.metrics->kept.count;
}

Test(kept, one_of_so_many_is_sampled)
{
    struct desk *desk = desk_ready();
    desk->options.trace_sample = 5;
    cr_expect_eq(kept_of(desk, 20, 0), 4);
    desk_free(desk);
}

Test(kept, slow_ones_are_kept)
{
    struct desk *desk = desk_ready();
    desk->options.trace_slow_us = 3000;
    cr_expect_eq(kept_of(desk, 3, 2000), 0);
    desk_free(desk);
    desk = desk_ready();
    desk->options.trace_slow_us = 3000;
    cr_expect_eq(kept_of(desk, 3, 3000), 3);
    desk_free(desk);
}

Test(kept, the_ring_has_the_size_that_was_asked_for)
{
    struct desk *desk = desk_ready();
    desk->options.trace_sample = 1;
    cr_expect_eq(kept_of(desk, 50, 0), 50);
    cJSON *json = ask(desk, "kept");
    cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(json, "traces")), 8);
    cJSON_Delete(json);
    desk_free(desk);
    desk = desk_ready();
    desk->options.trace_sample = 1;
    desk->options.trace_keep = 0;
    cr_expect_eq(kept_of(desk, 5, 0), 0, "nothing is kept");
    desk_free(desk);
}

Test(kept, a_sampled_context_is_a_wish)
{
    struct desk *desk = desk_ready();
    char parent[] = PARENT;
    open_with_worker(desk);
    submit_traced(desk, 1, parent, 0, 0);
    desk_result_status(desk, 1, (struct job_id){0xC, 1}, PEN_OK, 10);
    parent[54] = '0';
    submit_traced(desk, 2, parent, 0, 0);
    desk_result_status(desk, 1, (struct job_id){0xC, 2}, PEN_OK, 10);
    cr_expect_eq(desk->broker.metrics->kept.count, 1);
    desk_free(desk);
}

/* ---- forms ---- */

Test(forms, chrome_and_otlp_are_json_with_what_readers_need)
{
    struct desk *desk = desk_ready();
    open_with_worker(desk);
    submit_traced(desk, 1, PARENT, 0, 0);
    desk_wait(desk, 1000);
    desk_result_status(desk, 1, (struct job_id){0xC, 1}, PEN_ERR_INTERNAL, 10);
    cJSON *chrome = ask(desk, "000000000000000c-1 chrome"), *event;
    int complete = 0;
    cJSON_ArrayForEach(event, cJSON_GetObjectItem(chrome, "traceEvents"))
    {
        if (*cJSON_GetStringValue(cJSON_GetObjectItem(event, "ph")) != 'X')
            continue;
        complete++;
        cr_expect_gt(number(event, "ts"), 1e15, "microseconds since 1970");
        cr_expect_geq(number(event, "dur"), 0);
    }
    cr_expect_geq(complete, 2);
    cJSON_Delete(chrome);
    cJSON *otlp = ask(desk, "000000000000000c-1 otlp");
    const cJSON *resource = cJSON_GetArrayItem(cJSON_GetObjectItem(otlp, "resourceSpans"), 0);
    const cJSON *scope = cJSON_GetArrayItem(cJSON_GetObjectItem(resource, "scopeSpans"), 0);
    const cJSON *root = cJSON_GetArrayItem(cJSON_GetObjectItem(scope, "spans"), 0);
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(root, "traceId")), "4bf92f3577b34da6a3ce929d0e0e4736");
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(root, "parentSpanId")), "00f067aa0ba902b7");
    cr_expect_eq(strlen(cJSON_GetStringValue(cJSON_GetObjectItem(root, "spanId"))), 16);
    cr_expect_eq(number(cJSON_GetObjectItem(root, "status"), "code"), 2, "the job failed");
    cJSON_Delete(otlp);
    desk_free(desk);
}

Test(forms, questions_that_make_no_sense_get_a_sentence)
{
    struct desk *desk = desk_ready();
    open_with_worker(desk);
    const struct {
        const char *question;
        enum pen_status status;
    } cases[] = {{"", PEN_ERR_INVALID},
                 {"nonsense", PEN_ERR_INVALID},
                 {"kept xml", PEN_ERR_INVALID},
                 {"000000000000000c-9", PEN_ERR_NOT_FOUND},
                 {"000000000000000c-", PEN_ERR_INVALID}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = NULL;
        struct pen_error error = {.status = PEN_OK};
        cr_expect_eq(control_trace(&desk->broker, cases[i].question, &text, &error), cases[i].status, "'%s'",
                     cases[i].question);
        cr_expect_gt(strlen(error.text), 20, "'%s'", cases[i].question);
        free(text);
    }
    desk_free(desk);
}

/* ---- the log's level ---- */

Test(level, reaches_the_workers_it_names)
{
    struct desk *desk = desk_ready();
    char *text = NULL;
    struct pen_error error = {.status = PEN_OK};
    open_with_worker(desk);
    cr_assert_eq(control_log_level(&desk->broker, "debug one", &text, &error), PEN_OK);
    const struct sent *sent = desk_next(&desk->workers, FRAME_HEARTBEAT);
    cr_assert_not_null(sent);
    Penstock__Heartbeat *beat = penstock__heartbeat__unpack(NULL, sent->env.meta_bytes, sent->meta);
    cr_expect_str_eq(beat->log_level, "debug");
    penstock__heartbeat__free_unpacked(beat, NULL);
    free(text);
    cr_expect_eq(control_log_level(&desk->broker, "loud", &text, &error), PEN_ERR_INVALID);
    cr_expect_eq(control_log_level(&desk->broker, "debug nobody", &text, &error), PEN_ERR_NOT_FOUND);
    desk_free(desk);
}
