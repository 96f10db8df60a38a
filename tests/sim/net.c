#include <stdlib.h>
#include <string.h>

#include "worker_handler.h"
#include "client_handler.h"
#include "sim.h"
#include "meta_fields.h"
#include "wire_reader.h"

static struct virtual_port *port_of(struct port *port)
{
    return (struct virtual_port *)(void *)port;
}

static struct conn *conn_find(const struct virtual_port *port, uint32_t peer)
{
    struct conn *conn = port->conns;
    while (conn && conn->peer != peer)
        conn = conn->next;
    return conn;
}

static void channel_push(struct channel *channel, struct packet *packet)
{
    packet->next = NULL;
    if (channel->last)
        channel->last->next = packet;
    else
        channel->first = packet;
    channel->last = packet;
    channel->count++;
}

static struct packet *channel_pop(struct channel *channel)
{
    struct packet *packet = channel->first;
    if (!packet)
        return NULL;
    channel->first = packet->next;
    if (!channel->first)
        channel->last = NULL;
    channel->count--;
    return packet;
}

static void channel_clear(struct channel *channel)
{
    while (channel->first)
        free(channel_pop(channel));
}

static struct packet *packet_new(size_t bytes)
{
    struct packet *packet = malloc(sizeof *packet + bytes);
    if (!packet)
        abort();
    packet->next = NULL;
    packet->count = 0;
    packet->bytes = bytes;
    packet->raw_bytes = 0;
    packet->values[0] = 0;
    packet->head_bytes = 0;
    return packet;
}

/* ---- what the broker sends ---- */

static bool virtual_begin(struct port *port, uint32_t peer)
{
    struct virtual_port *own = port_of(port);
    own->to = conn_find(own, peer);
    if (own->building)
        sim_fail(own->sim, "a message began inside another");
    if (own->to)
        own->to->found |= own->to->state == CONN_GONE;
    if (!own->to || own->to->state == CONN_GONE)
        return false;
    own->building = packet_new(0);
    own->frames_left = 0;
    return true;
}

/* The data of the field with that number; empty = there is none. */
static struct wire_reader field_of(struct wire_reader reader, uint64_t number)
{
    struct wire_field field;
    while (meta_next(&reader, &field)) {
        if (field.number == number && field.data)
            return (struct wire_reader){field.data, field.data + field.bytes};
    }
    return (struct wire_reader){NULL, NULL};
}

/* Number of the field with the tensors: JobMeta.inputs, ResultMeta.outputs. */
static uint64_t tensors_field(const struct envelope *env)
{
    return env->type == FRAME_RESULT ? RESULT_META_OUTPUTS : JOB_META_INPUTS;
}

/* The first byte of the first tensor, where it is in the meta: what was asked, or whether a client got its own answer. */
static uint8_t read_value(const struct envelope *env, const uint8_t *meta)
{
    struct wire_reader tensor = field_of((struct wire_reader){meta, meta + env->meta_bytes}, tensors_field(env));
    struct wire_reader data = field_of(tensor, TENSOR_DESC_DATA);
    return data.at == data.end ? 0 : data.at[0];
}

/* Of the tensors that ride in raw frames. */
static uint32_t read_total(const struct envelope *env, const uint8_t *meta)
{
    struct wire_reader reader = {meta, meta + env->meta_bytes};
    struct wire_field field;
    uint64_t tensors = tensors_field(env), total = 0;
    while (meta_next(&reader, &field)) {
        struct wire_reader tensor = {field.data, field.data + field.bytes};
        uint64_t bytes = 0, frame = 0;
        if (field.number != tensors || !field.data)
            continue;
        while (meta_next(&tensor, &field)) {
            bytes = field.number == TENSOR_DESC_BYTES ? field.value : bytes;
            frame = field.number == TENSOR_DESC_FRAME ? field.value : frame;
        }
        total += frame ? bytes : 0;
    }
    return (uint32_t)total;
}

#define AFTER_KEY   (JOB_META_SEQUENCE_AFTER << 3 | WIRE_FIXED64)
#define VERSION_KEY (JOB_META_VERSION << 3 | WIRE_VARINT) /* what was patched in comes last, and counts */

static struct sim_said read_said(const struct envelope *env, const uint8_t *meta)
{
    struct wire_reader reader = {meta, meta + env->meta_bytes};
    struct wire_field field;
    struct sim_said said = {.after = 0};
    for (const uint8_t *key = reader.at; meta_next(&reader, &field); key = reader.at) {
        if (key[0] == AFTER_KEY && env->sequence_id)
            memcpy(&said.after, key + 1, sizeof said.after); /* both are little-endian, as on the wire */
        if (key[0] == VERSION_KEY)
            said.version = field.value;
    }
    return said;
}

/* Who is told to try again is told when. */
static void read_refusal(struct sim *sim, const struct envelope *env, const uint8_t *meta)
{
    struct wire_reader reader = {meta, meta + env->meta_bytes};
    struct wire_field field;
    const uint8_t *text = NULL;
    size_t bytes = 0;
    uint64_t hint_us = 0;
    if (env->status != PEN_ERR_BUSY && env->status != PEN_ERR_UNAVAILABLE)
        return;
    while (meta_next(&reader, &field)) {
        if (field.number == RESULT_META_ERROR && field.data) {
            text = field.data;
            bytes = field.bytes;
        }
        hint_us = field.number == RESULT_META_RETRY_AFTER_US ? field.value : hint_us;
    }
    if (!text)
        sim_fail(sim, "job %lu is answered %s without a sentence", (unsigned long)env->job.sequence,
                 pen_status_name((enum pen_status)env->status));
    else if (hint_us == 0)
        sim_fail(sim, "job %lu is answered %s without a hint when to try again: %.*s", (unsigned long)env->job.sequence,
                 pen_status_name((enum pen_status)env->status), (int)bytes, (const char *)text);
    if (!text || env->status != PEN_ERR_BUSY)
        return;
    quotas_refused(sim, (const char *)text, bytes, hint_us);
    scarce_refused(sim, (const char *)text, bytes);
}

static void keep_head(struct packet *packet, zmq_msg_t *frame)
{
    size_t bytes = zmq_msg_size(frame);
    packet->head_bytes = bytes <= sizeof packet->head ? bytes : 0;
    memcpy(packet->head, zmq_msg_data(frame), packet->head_bytes);
}

static void read_header(struct virtual_port *own, zmq_msg_t *frame)
{
    struct packet *packet = own->building;
    const uint8_t *meta;
    if (packet->count == SIM_GROUPS) {
        sim_fail(own->sim, "a message of more than %u groups", SIM_GROUPS);
        return;
    }
    struct envelope *env = &packet->envs[packet->count++];
    if (envelope_decode(zmq_msg_data(frame), zmq_msg_size(frame), env, &meta, NULL) != PEN_OK) {
        sim_fail(own->sim, "the broker sent what no peer would take");
        return;
    }
    if (env->type == FRAME_NEIGHBOUR || env->type == FRAME_HANDED || env->type == FRAME_RESUME ||
        env->type == FRAME_WELCOME)
        keep_head(packet, frame);
    own->frames_left = env->transfer && env->type != FRAME_CHUNK ? 0 : env->frames;
    packet->totals[packet->count - 1] = env->transfer ? read_total(env, meta) : 0;
    packet->raws[packet->count - 1] = 0;
    packet->said[packet->count - 1] = env->type == FRAME_SUBMIT ? read_said(env, meta) : (struct sim_said){.after = 0};
    if (env->type == FRAME_SUBMIT)
        contracts_given(own->sim, own->side, own->to->peer, env, packet->said[packet->count - 1].version);
    if (env->type == FRAME_RESULT) {
        read_refusal(own->sim, env, meta);
        contracts_refused(own->sim, own->side, env);
    }
    packet->values[packet->count - 1] =
        env->type == FRAME_SUBMIT || (env->type == FRAME_RESULT && env->status == PEN_OK) ? read_value(env, meta) : 0;
}

static void read_raw(struct virtual_port *own, zmq_msg_t *frame)
{
    struct packet *packet = own->building;
    if (packet->raws[packet->count - 1]++ == 0 && zmq_msg_size(frame) > 0)
        packet->values[packet->count - 1] = *(const uint8_t *)zmq_msg_data(frame);
    packet->raw_bytes += zmq_msg_size(frame);
    own->frames_left--;
}

static void virtual_part(struct port *port, zmq_msg_t *frame, enum frame_follows follows)
{
    bool more = follows == FRAME_MORE;
    struct virtual_port *own = port_of(port);
    if (!own->building)
        sim_fail(own->sim, "a frame outside a message");
    else if (own->frames_left > 0)
        read_raw(own, frame);
    else
        read_header(own, frame);
    zmq_msg_close(frame);
    if (more || !own->building)
        return;
    struct packet *packet = own->building;
    own->building = NULL;
    if (own->frames_left > 0)
        sim_fail(own->sim, "a message ends before its frames do");
    sim_note(own->sim, frame_type_name(packet->envs[0].type), own->to->peer, packet->envs[0].job.sequence);
    if (packet->envs[0].type == FRAME_SUBMIT)
        check_given(own->sim, own->side, own->to->peer);
    if (packet->raw_bytes)
        sim_note(own->sim, "payload, number", packet->raw_bytes, packet->envs[0].transfer);
    if (own->to->state == CONN_OPEN)
        channel_push(&own->to->down, packet);
    else
        free(packet);
}

static void port_init(struct sim *sim, struct sim_side *side, struct virtual_port *port)
{
    *port = (struct virtual_port){.sim = sim, .side = side};
    port->port.begin = virtual_begin;
    port->port.part = virtual_part;
    port->port.queues = true;
}

void net_init(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_SIDES; i++) {
        port_init(sim, &sim->sides[i], &sim->sides[i].clients_port);
        port_init(sim, &sim->sides[i], &sim->sides[i].workers_port);
    }
}

static void port_fini(struct virtual_port *port)
{
    while (port->conns) {
        struct conn *conn = port->conns;
        port->conns = conn->next;
        channel_clear(&conn->up);
        channel_clear(&conn->down);
        free(conn);
    }
    free(port->building);
    port->building = NULL;
}

void net_fini(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_SIDES; i++) {
        port_fini(&sim->sides[i].clients_port);
        port_fini(&sim->sides[i].workers_port);
    }
}

/* ---- connections ---- */

struct conn *net_connect(struct sim *sim, struct virtual_port *port)
{
    struct conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        abort();
    conn->peer = ++sim->next_peer;
    conn->trace = port->side->trace;
    conn->state = port->side->up ? CONN_OPEN : CONN_GONE;
    conn->next = port->conns;
    port->conns = conn;
    return conn;
}

void net_close(struct sim *sim, struct virtual_port *port, struct conn *conn)
{
    (void)port;
    if (!conn || conn->state == CONN_GONE)
        return;
    if (conn->state == CONN_CUT && !sim->has.gentle && sim_world(sim, 50))
        return; /* the broker never hears of its end, and what it sends comes to nobody */
    if (conn->state == CONN_CUT || (!sim->has.gentle && sim_chance(sim, 50)))
        channel_clear(&conn->up); /* in a gentle world a GOODBYE arrives */
    channel_clear(&conn->down);
    conn->state = CONN_GONE;
    conn->hint = true;
}

void net_cut(struct conn *conn)
{
    if (!conn || conn->state != CONN_OPEN)
        return;
    conn->state = CONN_CUT;
    channel_clear(&conn->up);
    channel_clear(&conn->down);
}

void net_broker_gone(struct sim_side *side)
{
    struct virtual_port *const ports[] = {&side->clients_port, &side->workers_port};
    for (size_t i = 0; i < 2; i++) {
        for (struct conn *conn = ports[i]->conns; conn; conn = conn->next) {
            conn->state = CONN_GONE;
            conn->hint = false;
            channel_clear(&conn->up); /* what the peers have read they have read */
        }
    }
}

size_t net_header(uint8_t *to, struct envelope env, const void *meta, size_t bytes)
{
    env.meta_bytes = (uint32_t)bytes;
    envelope_encode(&env, to);
    if (bytes)
        memcpy(to + FRAME_ENVELOPE_BYTES, meta, bytes);
    return FRAME_ENVELOPE_BYTES + bytes;
}

void net_say_raw(struct sim *sim, struct conn *conn, struct envelope env, const void *meta, size_t bytes,
                 size_t raw_bytes, uint8_t value)
{
    if (!conn || conn->state != CONN_OPEN)
        return;
    struct packet *packet = packet_new(FRAME_ENVELOPE_BYTES + bytes);
    net_header(packet->data, env, meta, bytes);
    packet->raw_bytes = raw_bytes;
    packet->values[0] = value;
    channel_push(&conn->up, packet);
    sim_note(sim, frame_type_name(env.type), conn->peer, env.job.sequence);
}

void net_say(struct sim *sim, struct conn *conn, struct envelope env, const void *meta, size_t bytes)
{
    net_say_raw(sim, conn, env, meta, bytes, 0, 0);
}

void net_say_frames(struct sim *sim, struct conn *conn, zmq_msg_t *frames, size_t count)
{
    struct packet *packet = packet_new(zmq_msg_size(&frames[0]));
    memcpy(packet->data, zmq_msg_data(&frames[0]), packet->bytes);
    for (size_t i = 1; i < count; i++) {
        packet->raw_bytes += zmq_msg_size(&frames[i]);
        packet->values[0] = zmq_msg_size(&frames[i]) ? *(const uint8_t *)zmq_msg_data(&frames[i]) : 0;
    }
    channel_push(&conn->up, packet);
    sim_note(sim, "to neighbour", conn->peer, packet->bytes);
}

void net_say_chunk(struct sim *sim, struct conn *conn, struct envelope env, size_t bytes, uint8_t value)
{
    net_say_raw(sim, conn, env, NULL, 0, bytes, value);
    sim_note(sim, "bytes, offset", bytes, env.offset);
}

void net_say_groups(struct sim *sim, struct conn *conn, const uint8_t *headers, size_t bytes)
{
    if (!conn || conn->state != CONN_OPEN || bytes == 0)
        return;
    struct packet *packet = packet_new(bytes);
    memcpy(packet->data, headers, bytes);
    channel_push(&conn->up, packet);
    sim_note(sim, "groups", conn->peer, bytes);
}

/* data NULL: each byte is `value`. */
static void add_frame(struct message *message, const void *data, size_t bytes, uint8_t value)
{
    zmq_msg_t frame;
    zmq_msg_init_size(&frame, bytes);
    if (data)
        memcpy(zmq_msg_data(&frame), data, bytes);
    else
        memset(zmq_msg_data(&frame), value, bytes);
    message_add(message, &frame);
}

#define META_BYTES_AT 72u /* proto/PROTOCOL.md */

/* The header frames lie one behind the other; each says how long its meta is. */
static void hand_over(struct sim *sim, struct virtual_port *port, const struct conn *conn, const struct packet *packet)
{
    struct message message = {.peer = conn->peer, .user = quotas_user(sim, conn)};
    for (size_t at = 0; at < packet->bytes;) {
        const uint8_t *header = packet->data + at;
        uint32_t meta_bytes = header[META_BYTES_AT] | (uint32_t)header[META_BYTES_AT + 1] << 8;
        add_frame(&message, header, FRAME_ENVELOPE_BYTES + meta_bytes, 0);
        at += FRAME_ENVELOPE_BYTES + meta_bytes;
    }
    if (packet->raw_bytes)
        add_frame(&message, NULL, packet->raw_bytes, packet->values[0]);
    sim->side = port->side;
    if (port == &port->side->clients_port)
        client_message(&port->side->broker, &message);
    else
        worker_message(&port->side->broker, &message);
    message_fini(&message);
}

static void deliver_first(struct sim *sim, struct virtual_port *port, struct conn *conn)
{
    struct packet *packet = channel_pop(&conn->up);
    hand_over(sim, port, conn, packet);
    free(packet);
}

void net_read_out(struct sim *sim, struct virtual_port *port)
{
    for (struct conn *conn = port->conns; conn; conn = conn->next) {
        while (conn->found && conn->up.count > 0)
            deliver_first(sim, port, conn);
    }
    port->port.emptied++;
}

bool net_deliver_up(struct sim *sim, struct virtual_port *port)
{
    uint32_t count = 0;
    for (struct conn *conn = port->conns; conn; conn = conn->next)
        count += conn->up.count > 0;
    uint32_t chosen = sim_draw(sim, count);
    for (struct conn *conn = port->conns; conn; conn = conn->next) {
        if (conn->up.count == 0 || chosen-- > 0)
            continue;
        deliver_first(sim, port, conn);
        return true;
    }
    return false;
}

struct packet *net_take_down(struct conn *conn)
{
    return conn ? channel_pop(&conn->down) : NULL;
}

bool net_tell_end(struct sim *sim, struct virtual_port *port)
{
    for (struct conn *conn = port->side->up ? port->conns : NULL; conn; conn = conn->next) {
        if (!conn->hint)
            continue;
        conn->hint = false;
        side_turn(sim, port->side);
        if (port == &port->side->clients_port)
            broker_hint_clients(&port->side->broker, -1);
        else
            broker_hint_workers(&port->side->broker, -1);
        return true;
    }
    return false;
}
