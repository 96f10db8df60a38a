/*
 * Every cap on what a peer may say in one message: at the cap it is taken, beyond it the peer gets a typed error and a sentence, and the broker keeps
 * nothing. Caps on sums (queues, bytes, connections) have tests of their own: test_flow, test_crowd, test_admit, test_hostile.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "worker_handler.h"
#include "desk.h"
#include "client_handler.h"

#define CLIENT 1u
#define MANY   (FRAME_MAX_TENSORS + 1u)

static const struct wire_model echo = {.name = "echo",
                                       .version = 1,
                                       .backend = "xnnpack",
                                       .precision = PRECISION_F32,
                                       .warm_us = 100,
                                       .digest = 9,
                                       .dim = 1};
static const struct wire_worker one = {.uuid = 5, .name = "one", .slots = 1, .models = &echo, .models_count = 1};

static struct desk *desk;
static uint64_t sequence;
static char long_text[70000];

static void begin(void)
{
    desk = desk_new();
    desk_open(desk);
    desk_worker(desk, 900, &one);
    desk_client(desk, CLIENT, 0xC);
    memset(long_text, 'n', sizeof long_text - 1);
}

static void end(void)
{
    desk_free(desk);
}

TestSuite(caps, .init = begin, .fini = end);

/* What a test changes about a job that is good. */
struct draft {
    size_t inputs, parameters, tags;
    const char *name, *model, *backend, *tag;
    size_t meta_bytes; /* filled up to that many with a field that is skipped; 0 = as it is */
    uint8_t frames;    /* announced */
};

static size_t meta_make(const struct draft *draft, uint8_t *bytes)
{
    static Penstock__TensorDesc inputs[MANY], *input_list[MANY];
    static Penstock__Parameter parameters[MANY], *parameter_list[MANY];
    static char names[MANY][16], *tags[64];
    static int64_t dims[] = {1, 1};
    static uint8_t byte = 1;
    Penstock__JobMeta meta = PENSTOCK__JOB_META__INIT;
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "p%zu", i);
        penstock__tensor_desc__init(&inputs[i]);
        inputs[i].name = i == 0 ? (char *)(uintptr_t)(draft->name ? draft->name : "x") : names[i];
        inputs[i].dtype = PEN_DTYPE_U8;
        inputs[i].dims = dims;
        inputs[i].n_dims = 2;
        inputs[i].bytes = 1;
        inputs[i].data = (ProtobufCBinaryData){.data = &byte, .len = 1};
        input_list[i] = &inputs[i];
        penstock__parameter__init(&parameters[i]);
        parameters[i].name = names[i];
        parameter_list[i] = &parameters[i];
    }
    for (size_t i = 0; i < draft->tags; i++)
        tags[i] = (char *)(uintptr_t)draft->tag;
    meta.model = (char *)(uintptr_t)(draft->model ? draft->model : "echo");
    meta.backend = (char *)(uintptr_t)(draft->backend ? draft->backend : "");
    meta.inputs = input_list;
    meta.n_inputs = draft->inputs ? draft->inputs : 1;
    meta.parameters = parameter_list;
    meta.n_parameters = draft->parameters;
    meta.tags = tags;
    meta.n_tags = draft->tags;
    return penstock__job_meta__pack(&meta, bytes);
}

/* The status of the job's answer; PEN_OK: it was given to the worker instead. */
static enum pen_status say(const struct draft *draft)
{
    static uint8_t bytes[FRAME_ENVELOPE_BYTES + 300000];
    struct message message = {.count = 0};
    struct envelope env = envelope_make(FRAME_SUBMIT);
    size_t used = meta_make(draft, bytes + FRAME_ENVELOPE_BYTES);
    if (draft->meta_bytes > used) { /* field 2000, bytes: the rest */
        size_t rest = draft->meta_bytes - used - 5;
        const uint8_t head[] = {0x82, 0x7D, (uint8_t)(rest | 0x80), (uint8_t)(rest >> 7 | 0x80), (uint8_t)(rest >> 14)};
        memcpy(bytes + FRAME_ENVELOPE_BYTES + used, head, sizeof head);
        memset(bytes + FRAME_ENVELOPE_BYTES + used + 5, 'f', rest);
        used = draft->meta_bytes;
    }
    env.job = (struct job_id){0xC, ++sequence};
    env.model_hash = frame_name_hash(draft->model ? draft->model : "echo");
    env.frames = draft->frames;
    env.meta_bytes = (uint32_t)used;
    envelope_encode(&env, bytes);
    size_t size = FRAME_ENVELOPE_BYTES + used;
    desk_frames(&message, CLIENT, bytes, &size, 1);
    client_message(&desk->broker, &message);
    message_fini(&message);
    desk_wait(desk, 1000);
    if (desk_next(&desk->workers, FRAME_SUBMIT)) {
        desk_result(desk, 900, env.job, 0, 1);
        desk_next(&desk->clients, FRAME_RESULT);
        return PEN_OK;
    }
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(sent);
    cr_assert_eq(sent->env.job.sequence, sequence);
    Penstock__ResultMeta *meta = sent_result(sent);
    cr_assert_gt(strlen(meta->error), 10, "a sentence");
    cr_assert_lt(strlen(meta->error), 1024, "which does not repeat what was too long");
    penstock__result_meta__free_unpacked(meta, NULL);
    return (enum pen_status)sent->env.status;
}

Test(caps, of_one_job_are_told_by_their_kind)
{
    const struct {
        const char *what;
        struct draft at, beyond;
        enum pen_status status;
    } rows[] = {
        {"parameters", {.parameters = 64}, {.parameters = 65}, PEN_ERR_TOO_LARGE},
        {"inputs", {.inputs = 1}, {.inputs = MANY}, PEN_ERR_TOO_LARGE},
        {"name of an input", {.name = "x"}, {.name = long_text + sizeof long_text - 257}, PEN_ERR_TOO_LARGE},
        {"name of a model", {.model = "echo"}, {.model = long_text + 30000}, PEN_ERR_NOT_FOUND},
        {"name of a backend", {.backend = "xnnpack"}, {.backend = long_text + 30000}, PEN_ERR_UNSUPPORTED},
        {"tags", {.tags = 0}, {.tags = 60, .tag = long_text + sizeof long_text - 200}, PEN_ERR_INVALID},
        {"raw frames", {.frames = 0}, {.frames = MANY}, PEN_ERR_TOO_LARGE},
        {"meta", {.meta_bytes = 60000}, {.meta_bytes = FRAME_META_BYTES_MAX + 1}, PEN_ERR_TOO_LARGE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum pen_status status = say(&rows[i].at);
        cr_expect_eq(status, PEN_OK, "%s at the cap: %s", rows[i].what, pen_status_name(status));
        status = say(&rows[i].beyond);
        cr_expect_eq(status, rows[i].status, "%s: %s", rows[i].what, pen_status_name(status));
    }
    cr_assert_eq(desk->broker.queued_bytes, 0);
}

/* 256 bytes of a name are one too many; 255 get as far as the model's signature. */
Test(caps, a_name_of_255_bytes_is_read)
{
    cr_assert_neq(say(&(struct draft){.name = long_text + sizeof long_text - 256}), PEN_ERR_TOO_LARGE);
    cr_assert_eq(say(&(struct draft){.name = long_text + sizeof long_text - 257}), PEN_ERR_TOO_LARGE);
}

static enum pen_status welcome_of(struct side *side)
{
    struct sent *sent = desk_next(side, FRAME_WELCOME);
    cr_assert_not_null(sent);
    return (enum pen_status)sent->env.status;
}

Test(caps, of_a_hello_are_told_in_the_welcome)
{
    uint8_t meta[WIRE_META_BYTES];
    struct wire_worker many = one;
    const char *tenant = long_text + sizeof long_text - 66; /* 65 bytes; 64 are allowed */
    while (desk_next(&desk->clients, FRAME_WELCOME) || desk_next(&desk->workers, FRAME_WELCOME))
        ;
    desk_say_client(desk, 2, envelope_make(FRAME_CLIENT_HELLO), meta, wire_client_hello(meta, 0xD, tenant, 0), 0);
    cr_expect_neq(welcome_of(&desk->clients), PEN_OK);
    desk_say_client(desk, 3, envelope_make(FRAME_CLIENT_HELLO), meta, wire_client_hello(meta, 0xE, tenant + 1, 0), 0);
    cr_expect_eq(welcome_of(&desk->clients), PEN_OK);
    many.uuid = 6;
    many.slots = 100000;
    desk_say_worker(desk, 901, envelope_make(FRAME_WORKER_HELLO), meta, wire_worker_hello(meta, &many));
    cr_expect_neq(welcome_of(&desk->workers), PEN_OK);
    cr_expect_eq(desk->broker.fleet.count, 1);
}

/* A SUBMIT that is cut short, from that peer, under that id. */
static bool cut_is_answered(uint32_t peer, struct job_id id, uint8_t type)
{
    uint8_t bytes[FRAME_ENVELOPE_BYTES];
    size_t size = sizeof bytes;
    struct message message = {.count = 0};
    struct envelope env = envelope_make(FRAME_SUBMIT);
    env.type = type;
    env.job = id;
    env.meta_bytes = 100;
    envelope_encode(&env, bytes);
    uint64_t bad = desk->broker.stats.messages_bad;
    desk_frames(&message, peer, bytes, &size, 1);
    client_message(&desk->broker, &message);
    message_fini(&message);
    cr_expect_eq(desk->broker.stats.messages_bad, bad + 1);
    const struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_expect(!sent || (job_id_equal(sent->env.job, id) && sent->env.status != PEN_OK));
    return sent != NULL;
}

Test(caps, a_job_that_cannot_be_read_is_answered_to_its_own_client)
{
    cr_expect(cut_is_answered(CLIENT, (struct job_id){0xC, 7}, FRAME_SUBMIT));
    cr_expect_not(cut_is_answered(CLIENT, (struct job_id){0xC, 0}, FRAME_SUBMIT), "no job has that number");
    cr_expect_not(cut_is_answered(CLIENT, (struct job_id){0xD, 7}, FRAME_SUBMIT), "another client's");
    cr_expect_not(cut_is_answered(CLIENT, (struct job_id){0xC, 7}, FRAME_CANCEL));
    cr_expect_not(cut_is_answered(77, (struct job_id){0xC, 7}, FRAME_SUBMIT), "nobody has said hello there");
}
