/* Messages whose parts are there and say nothing: every part of every meta in its turn, bare and with bare parts of its own. A text that a message does not have
   is a constant of protobuf-c, and a list may hold parts without a name, a number or a sentence. The broker goes on, and can tell of what it took. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "control.pb-c.h"
#include "desk.h"
#include "job.pb-c.h"
#include "metrics_json.h"
#include "metrics_text.h"
#include "worker.pb-c.h"

enum { PEER_CLIENT = 1, PEER_WORKER = 900, DEPTH_MAX = 4, LENGTH_DELIMITED = 2 };

static const struct wire_model echo = {
    .name = "echo", .version = 1, .backend = "reference", .warm_us = 100, .digest = 1, .dim = 4};
static const struct wire_worker honest = {.uuid = 9, .name = "w9", .slots = 1, .models = &echo, .models_count = 1};
static struct desk *desk;

static void setup(void)
{
    desk = desk_new();
    desk->options.restart_wait_us = 0;
    desk_open(desk);
    desk_client(desk, PEER_CLIENT, 77);
    desk->clients.forget = desk->workers.forget = true;
}

static void teardown(void)
{
    desk_free(desk);
}

TestSuite(bare, .init = setup, .fini = teardown);

/* ---- bare messages ---------------------------------------------------------------------------------------------------------------- */

static size_t varint(uint8_t *to, size_t number)
{
    size_t used = 0;
    for (; number >= 0x80; number >>= 7)
        to[used++] = (uint8_t)(number | 0x80);
    to[used++] = (uint8_t)number;
    return used;
}

static size_t parts(uint8_t *to, const ProtobufCMessageDescriptor *descriptor, unsigned depth);

/* The field once, with `depth` levels of bare parts in it. Nothing for a field that is no message. */
static size_t part(uint8_t *to, const ProtobufCFieldDescriptor *field, unsigned depth)
{
    uint8_t inner[WIRE_META_BYTES];
    if (field->type != PROTOBUF_C_TYPE_MESSAGE)
        return 0;
    size_t bytes = depth ? parts(inner, field->descriptor, depth - 1) : 0;
    size_t used = varint(to, (size_t)field->id << 3 | LENGTH_DELIMITED);
    used += varint(to + used, bytes);
    cr_assert(used + bytes < sizeof inner);
    memcpy(to + used, inner, bytes);
    return used + bytes;
}

static size_t parts(uint8_t *to, const ProtobufCMessageDescriptor *descriptor, unsigned depth)
{
    size_t used = 0;
    for (unsigned i = 0; i < descriptor->n_fields; i++)
        used += part(to + used, &descriptor->fields[i], depth);
    return used;
}

typedef void (*speaker)(const uint8_t *meta, size_t bytes);

/* Says `base` with each field that is a message in its turn, and with all of them. */
static unsigned each_part(const ProtobufCMessageDescriptor *descriptor, const uint8_t *base, size_t base_bytes,
                          speaker say)
{
    static uint8_t meta[2 * WIRE_META_BYTES];
    unsigned said = 0;
    if (base)
        memcpy(meta, base, base_bytes);
    for (unsigned depth = 0; depth < DEPTH_MAX; depth++) {
        for (unsigned i = 0; i < descriptor->n_fields; i++) {
            size_t bytes = part(meta + base_bytes, &descriptor->fields[i], depth);
            if (bytes > 0) {
                say(meta, base_bytes + bytes);
                said++;
            }
        }
        say(meta, base_bytes + parts(meta + base_bytes, descriptor, depth));
    }
    return said;
}

/* ---- who says them ---------------------------------------------------------------------------------------------------------------- */

/* All that the broker tells of its workers, models and jobs. */
static void tell_all(void)
{
    static const char *const verbs[] = {"workers", "models", "stats"};
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        desk_question(desk, PEER_CLIENT, verbs[i], "");
    struct snapshot *snapshot = snapshot_take(&desk->broker);
    struct writer metrics = {.text = NULL}, json = {.text = NULL};
    metrics_text(snapshot, &metrics);
    metrics_json(snapshot, &json);
    writer_fini(&metrics);
    writer_fini(&json);
    snapshot_free(snapshot);
}

static void hello_honest(void)
{
    uint8_t meta[WIRE_META_BYTES];
    desk_say_worker(desk, PEER_WORKER, envelope_make(FRAME_WORKER_HELLO), meta, wire_worker_hello(meta, &honest));
}

static void say_hello(const uint8_t *meta, size_t bytes)
{
    desk_say_worker(desk, PEER_WORKER, envelope_make(FRAME_WORKER_HELLO), meta, bytes);
    tell_all();
}

static void say_update(const uint8_t *meta, size_t bytes)
{
    hello_honest();
    desk_say_worker(desk, PEER_WORKER, envelope_make(FRAME_WORKER_UPDATE), meta, bytes);
    tell_all();
}

static void say_heartbeat(const uint8_t *meta, size_t bytes)
{
    desk_say_worker(desk, PEER_WORKER, envelope_make(FRAME_HEARTBEAT), meta, bytes);
    tell_all();
}

static void say_outcome(const uint8_t *meta, size_t bytes)
{
    desk_say_worker(desk, PEER_WORKER, envelope_make(FRAME_CONTROL_REPLY), meta, bytes);
}

static struct job_id next_job(void)
{
    static uint64_t sequence;
    return (struct job_id){77, ++sequence};
}

/* Also what the client asks to be told about the run. */
static void say_job(const uint8_t *meta, size_t bytes)
{
    struct envelope env = envelope_make(FRAME_SUBMIT);
    env.job = next_job();
    desk_say_client(desk, PEER_CLIENT, env, meta, bytes, 0);
    desk_run(desk);
}

static void say_result(const uint8_t *meta, size_t bytes)
{
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = next_job();
    desk_submit(desk, PEER_CLIENT,
                &(struct wire_job){.id = env.job, .model = "echo", .dims = {1, 4}, .fill = 1, .no_cache = true});
    desk_run(desk);
    desk_say_worker(desk, PEER_WORKER, env, meta, bytes);
    desk_run(desk);
}

static void say_control(const uint8_t *meta, size_t bytes)
{
    desk_say_client(desk, PEER_CLIENT, envelope_make(FRAME_CONTROL), meta, bytes, 0);
}

static void still_well(void)
{
    enum pen_status status = PEN_ERR_INTERNAL;
    hello_honest();
    desk->clients.forget = desk->workers.forget = false;
    while (desk_next(&desk->clients, FRAME_CONTROL_REPLY))
        ;
    Penstock__ControlReply *reply = desk_ask(desk, "models", "", &status);
    cr_assert(status == PEN_OK && reply->n_models == 1);
    cr_assert_str_eq(reply->models[0]->name, "echo");
    penstock__control_reply__free_unpacked(reply, NULL);
}

Test(bare, parts_of_what_a_worker_says)
{
    uint8_t meta[WIRE_META_BYTES];
    cr_assert(each_part(&penstock__worker_hello__descriptor, meta, wire_worker_hello(meta, &honest), say_hello) > 0);
    cr_assert(each_part(&penstock__worker_update__descriptor, meta, wire_worker_update(meta, &echo, 1), say_update) >
              0);
    hello_honest();
    each_part(&penstock__heartbeat__descriptor, NULL, 0, say_heartbeat);
    each_part(&penstock__control_reply__descriptor, NULL, 0, say_outcome);
    cr_assert(each_part(&penstock__result_meta__descriptor, NULL, 0, say_result) > 0);
    still_well();
}

Test(bare, parts_of_what_a_client_says)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t raw;
    const struct wire_job job = {.id = {77, 1}, .model = "echo", .dims = {1, 4}, .fill = 1, .no_cache = true};
    hello_honest();
    cr_assert(each_part(&penstock__job_meta__descriptor, meta, wire_job(meta, &job, &raw), say_job) > 0);
    each_part(&penstock__job_meta__descriptor, NULL, 0, say_job);
    each_part(&penstock__control_request__descriptor, meta, wire_control(meta, "models", "", 1), say_control);
    still_well();
}
