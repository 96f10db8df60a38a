#include "net_side.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <string.h>

struct serve net_serve;
struct brokers net_brokers;
struct options net_options;
struct net_message net_got;
struct stats net_stats;
uint64_t net_now_us = NET_START_US;

static void *zmq;
static void *routers[NET_BROKERS];
static zmq_msg_t peers[NET_BROKERS], bulk_peers[NET_BROKERS]; /* identity of the connection that spoke last */
static const char *const endpoints[NET_BROKERS] = {"inproc://first", "inproc://second"};
static const struct identity identity = {
    .worker = "w", .backend = "reference", .device = "", .library = "", .precision = PRECISION_F32};
static struct hello_facts facts;
static struct vitals vitals;

static struct hello *hello_make(void)
{
    struct hello *hello = NULL;
    facts = (struct hello_facts){.catalog = &one_slot_catalog,
                                 .engine = one_slot_engine,
                                 .options = &net_options,
                                 .identity = &identity,
                                 .host = "host",
                                 .uuid = 77,
                                 .slots = 1,
                                 .threads = 1};
    cr_assert(hello_new(&facts, &hello, &one_slot_error) == PEN_OK, "%s", one_slot_error.text);
    return hello;
}

static void router_open(size_t i)
{
    int wait_ms = 2000;
    routers[i] = zmq_socket(zmq, ZMQ_ROUTER);
    cr_assert(routers[i] && zmq_bind(routers[i], endpoints[i]) == 0);
    zmq_setsockopt(routers[i], ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    zmq_msg_init(&peers[i]);
    zmq_msg_init(&bulk_peers[i]);
}

static void serve_init(void)
{
    static struct slot *no_slots[1];
    net_serve = (struct serve){.brokers = &net_brokers,
                               .inbox = inbox_new(),
                               .outbox = outbox_new(),
                               .handoff = handoff_new(0),
                               .stats = &net_stats,
                               .slots = no_slots,
                               .options = &net_options,
                               .identity = &identity,
                               .vitals = &vitals,
                               .orders = orders_new(),
                               .states = states_new(1u << 20)};
    vitals = (struct vitals){.stats = &net_stats,
                             .catalog = &one_slot_catalog,
                             .handoff = net_serve.handoff,
                             .slots = no_slots,
                             .identity = &identity,
                             .engine = one_slot_engine};
}

void net_open(size_t count)
{
    one_slot_setup();
    one_slot_start();
    net_options = (struct options){.key = "", .broker_key = "", .frame_limit = -1, .models = one_slot_root};
    zmq = zmq_ctx_new();
    net_brokers = (struct brokers){.count = count, .slots = 1};
    net_brokers.context = (struct link_context){
        .zmq = zmq, .options = &net_options, .identity = &identity, .hello = hello_make(), .stats = &net_stats};
    for (size_t i = 0; i < count; i++) {
        router_open(i);
        link_init(&net_brokers.links[i], &net_brokers.context, endpoints[i], 100, 1u << 20);
    }
    meta_arena_init(&net_got.arena, 1u << 22);
    serve_init();
}

static void got_clear(void)
{
    while (net_got.count > 0)
        zmq_msg_close(&net_got.frames[--net_got.count]);
    meta_arena_reset(&net_got.arena);
}

void net_log_clean(void)
{
    static char text[1u << 17];
    static const char *const none[] = {"evt=send_failed", "evt=hello_failed", "evt=update_failed", "evt=out_of_memory"};
    fflush(stderr);
    text[fread(text, 1, sizeof text - 1, cr_get_redirected_stderr())] = '\0';
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        cr_assert(!strstr(text, none[i]), "%s in\n%s", none[i], text);
}

void net_close(void)
{
    struct dispatch *dispatch;
    while ((dispatch = handoff_poll(net_serve.handoff)))
        (void)dispatch; /* its link frees it */
    brokers_close(&net_brokers, 0);
    for (size_t i = 0; i < net_brokers.count; i++) {
        zmq_msg_close(&peers[i]);
        zmq_msg_close(&bulk_peers[i]);
        zmq_close(routers[i]);
    }
    brokers_fini(&net_brokers);
    got_clear();
    meta_arena_fini(&net_got.arena);
    inbox_free(net_serve.inbox);
    outbox_free(net_serve.outbox);
    handoff_free(net_serve.handoff);
    orders_free(net_serve.orders);
    states_free(net_serve.states);
    zmq_ctx_term(zmq);
    one_slot_teardown();
}

/* ---- what comes to a broker ---------------------------------------------------------------------------------------------------- */

void net_expect(size_t i, enum frame_type type)
{
    zmq_msg_t peer;
    got_clear();
    zmq_msg_init(&peer);
    cr_assert(zmq_msg_recv(&peer, routers[i], 0) >= 0, "no %s came to broker %zu", frame_type_name((uint8_t)type), i);
    for (bool more = true; more; net_got.count++) {
        cr_assert(net_got.count < NET_FRAMES_MAX);
        zmq_msg_t *frame = &net_got.frames[net_got.count];
        zmq_msg_init(frame);
        cr_assert(zmq_msg_recv(frame, routers[i], 0) >= 0);
        more = zmq_msg_more(frame);
    }
    cr_assert(envelope_decode(zmq_msg_data(net_got.frames), zmq_msg_size(net_got.frames), &net_got.env, &net_got.meta,
                              NULL) == PEN_OK);
    cr_assert(net_got.env.type == type, "%s came instead of %s", frame_type_name(net_got.env.type),
              frame_type_name((uint8_t)type));
    zmq_msg_move(type == FRAME_ATTACH || type == FRAME_CHUNK ? &bulk_peers[i] : &peers[i], &peer);
    zmq_msg_close(&peer);
}

void net_silent(size_t i)
{
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    cr_assert(zmq_msg_recv(&frame, routers[i], ZMQ_DONTWAIT) < 0, "something has come to broker %zu", i);
    zmq_msg_close(&frame);
}

void *net_meta(const ProtobufCMessageDescriptor *descriptor)
{
    void *meta = meta_unpack(&net_got.arena, descriptor, net_got.meta, net_got.env.meta_bytes);
    cr_assert_not_null(meta);
    return meta;
}

void net_answered(size_t i, uint64_t sequence, enum pen_status status, const char *part)
{
    net_expect(i, FRAME_RESULT);
    const Penstock__ResultMeta *meta = net_meta(&penstock__result_meta__descriptor);
    cr_assert(net_got.env.job.client == 1 && net_got.env.job.sequence == sequence, "job %u instead of %u",
              (unsigned)net_got.env.job.sequence, (unsigned)sequence);
    cr_assert(net_got.env.status == status, "%s: %s", pen_status_name((enum pen_status)net_got.env.status),
              meta->error);
    cr_assert(strstr(meta->error, part), "'%s' is not in '%s'", part, meta->error);
}

/* ---- what a broker sends -------------------------------------------------------------------------------------------------------- */

static void identity_send(size_t i)
{
    cr_assert(zmq_send(routers[i], zmq_msg_data(&peers[i]), zmq_msg_size(&peers[i]), ZMQ_SNDMORE) >= 0);
}

void net_send_bytes(size_t i, const void *bytes, size_t size)
{
    identity_send(i);
    cr_assert(zmq_send(routers[i], bytes, size, 0) >= 0);
}

static void group_send(size_t i, const struct envelope *env, const ProtobufCMessage *meta, bool more)
{
    uint8_t bytes[4096];
    struct envelope whole = *env;
    whole.meta_bytes = meta ? (uint32_t)protobuf_c_message_get_packed_size(meta) : 0;
    cr_assert(FRAME_ENVELOPE_BYTES + whole.meta_bytes <= sizeof bytes);
    uint8_t *to = envelope_encode(&whole, bytes);
    if (meta)
        protobuf_c_message_pack(meta, to);
    cr_assert(zmq_send(routers[i], bytes, FRAME_ENVELOPE_BYTES + whole.meta_bytes, more ? ZMQ_SNDMORE : 0) >= 0);
}

void net_send(size_t i, const struct envelope *env, const ProtobufCMessage *meta)
{
    identity_send(i);
    group_send(i, env, meta, false);
}

void net_send_groups(size_t i, const struct envelope *envs, const ProtobufCMessage *const *metas, size_t count)
{
    identity_send(i);
    for (size_t k = 0; k < count; k++)
        group_send(i, &envs[k], metas[k], k + 1 < count);
}

void net_send_bulk(size_t i, const struct envelope *env, const void *bytes, size_t size)
{
    uint8_t header[FRAME_ENVELOPE_BYTES];
    envelope_encode(env, header);
    cr_assert(zmq_send(routers[i], zmq_msg_data(&bulk_peers[i]), zmq_msg_size(&bulk_peers[i]), ZMQ_SNDMORE) >= 0);
    cr_assert(zmq_send(routers[i], header, sizeof header, ZMQ_SNDMORE) >= 0);
    cr_assert(zmq_send(routers[i], bytes, size, 0) >= 0);
}

void net_send_type(size_t i, enum frame_type type)
{
    const struct envelope env = envelope_make(type);
    net_send(i, &env, NULL);
}

void net_welcome(size_t i, uint64_t uuid, enum pen_status status, const char *error)
{
    Penstock__Welcome welcome = PENSTOCK__WELCOME__INIT;
    struct envelope env = envelope_make(FRAME_WELCOME);
    welcome.broker_uuid = uuid;
    welcome.error = meta_text(error);
    welcome.heartbeat_us = 400000;
    welcome.liveness_us = 2000000;
    env.status = (uint8_t)status;
    net_send(i, &env, &welcome.base);
}

void net_serve_link(size_t i, uint64_t uuid)
{
    cr_assert(link_connect(&net_brokers.links[i], net_now_us, &one_slot_error) == PEN_OK, "%s", one_slot_error.text);
    net_expect(i, FRAME_WORKER_HELLO);
    net_welcome(i, uuid, PEN_OK, "");
    messages_receive(&net_serve, net_now_us);
    cr_assert(net_brokers.links[i].state == LINK_SERVING);
}

void net_submit(size_t i, uint64_t first, size_t jobs, uint16_t flags)
{
    Penstock__JobMeta meta = PENSTOCK__JOB_META__INIT;
    meta.model = meta_text("model");
    identity_send(i);
    for (size_t k = 0; k < jobs; k++) {
        struct envelope env = envelope_make(FRAME_SUBMIT);
        env.job = (struct job_id){.client = 1, .sequence = first + k};
        env.flags = flags;
        group_send(i, &env, &meta.base, k + 1 < jobs);
    }
}

struct reply *net_reply(uint64_t sequence, size_t bytes)
{
    static const uint8_t zeros[4096];
    struct reply *reply = reply_new(1, 2);
    Penstock__ResultMeta meta = PENSTOCK__RESULT_META__INIT;
    struct envelope env = envelope_make(FRAME_SUBMIT);
    env.job = (struct job_id){.client = 1, .sequence = sequence};
    const struct pen_tensor output = {
        .name = "y", .dtype = PEN_DTYPE_U8, .rank = 1, .dims = {(int64_t)bytes}, .data = zeros, .bytes = bytes};
    cr_assert(reply && bytes <= sizeof zeros);
    cr_assert(reply_add(reply, &env, &(struct reply_group){.outputs = &output, .outputs_count = 1}, &meta, NULL) ==
              PEN_OK);
    reply->bytes = bytes;
    return reply;
}
