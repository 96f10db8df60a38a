#include "port_pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "pack.h"
#include "shared_message.h"
#include "table.h"

#define PACKERS 16u /* packs that are written at a time: at most 4 MiB of memory */

/* A peer that takes packs. */
struct taker {
    struct table_node by_peer;
    uint32_t peer;
    uint32_t limit;        /* bytes of a PACK */
    struct packer *packer; /* NULL: nothing waits for it */
};

/* A message of one frame that may stay alone is kept as it is, so that nobody copies it; the next one copies it into
   the pack. */
struct packer {
    struct pack_writer writer;
    struct taker *taker; /* NULL: free */
    zmq_msg_t first;     /* that message; nothing is in the writer then */
    bool has_first;
};

struct port_packs {
    struct table takers;
    struct packer packers[PACKERS];
    uint32_t used, oldest; /* how many have a taker; where the search for the next to send begins */
    struct packer *at;     /* of the message that is being sent; NULL: it goes direct */
    bool drops;            /* the rest of that message is dropped */
    bool reads;            /* a PACK is being read */
    struct pack_reader reader;
    zmq_msg_t in; /* that PACK */
    uint32_t in_peer;
    int in_fd;
};

static struct taker *find(const struct port *port, uint32_t peer)
{
    const struct table *table = &port->packs->takers;
    for (struct table_node *node = table_first(table, table_hash(table, peer, 0)); node;
         node = table_next(table, node)) {
        struct taker *taker = table_entry(node, struct taker, by_peer);
        if (taker->peer == peer)
            return taker;
    }
    return NULL;
}

/* ---- who takes packs ---- */

static bool packs_make(struct port *port)
{
    if (port->packs)
        return true;
    struct port_packs *packs = calloc(1, sizeof *packs);
    if (!packs || table_init(&packs->takers) != PEN_OK) {
        free(packs);
        return false;
    }
    port->packs = packs;
    return true;
}

static void taker_free(struct port *port, struct taker *taker)
{
    PEN_ASSERT(!taker->packer, "who goes has nothing waiting");
    table_remove(&port->packs->takers, &taker->by_peer);
    free(taker);
}

static void let_go(struct port_packs *packs, struct packer *packer)
{
    PEN_ASSERT(packs->used > 0 && packer->taker && packer->taker->packer == packer, "a pack has one reader");
    if (packer->has_first)
        zmq_msg_close(&packer->first);
    packer->has_first = false;
    pack_clear(&packer->writer);
    packer->taker->packer = NULL;
    packer->taker = NULL;
    packs->used--;
}

/* ---- sending ---- */

bool port_begin_direct(struct port *port, uint32_t peer)
{
    uint8_t id[PEER_ID_BYTES] = {0};
    memcpy(id + 1, &peer, sizeof peer);
    port->dry = false; /* to send, libzmq may take in what the descriptor would have told */
    while (zmq_send(port->socket, id, sizeof id, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0) {
        if (errno != EINTR)
            return false; /* EHOSTUNREACH; EAGAIN cannot be, the pipes are unlimited and we count ourselves */
    }
    return true;
}

/* A message of one frame, which is closed. */
static bool send_frame(struct port *port, uint32_t peer, zmq_msg_t *frame)
{
    size_t size = zmq_msg_size(frame);
    if (port_begin_direct(port, peer) && zmq_msg_send(frame, port->socket, ZMQ_DONTWAIT) >= 0) {
        port->bytes_out += size;
        return true;
    }
    zmq_msg_close(frame);
    return false;
}

/* Everything that can fail for lack of memory comes before the routing id: a half-sent message cannot be taken back. */
static bool send_bytes(struct port *port, uint32_t peer, const uint8_t *bytes, size_t size)
{
    zmq_msg_t frame;
    if (zmq_msg_init_size(&frame, size) != 0)
        return false;
    memcpy(zmq_msg_data(&frame), bytes, size);
    return send_frame(port, peer, &frame);
}

static bool send_first(struct port *port, struct packer *packer)
{
    PEN_ASSERT(packer->has_first && packer->writer.used == 0, "it is alone");
    packer->has_first = false;
    return send_frame(port, packer->taker->peer, &packer->first);
}

/* The complete messages of a pack. False: the peer has gone, or there is no memory to send them. */
static bool send_whole(struct port *port, struct packer *packer)
{
    if (packer->has_first)
        return send_first(port, packer);
    struct pack_writer *writer = &packer->writer;
    size_t bytes = 0;
    const uint8_t *single = pack_single(writer, &bytes);
    if (writer->messages == 0)
        return true;
    if (single)
        return send_bytes(port, packer->taker->peer, single, bytes);
    bytes = pack_seal(writer);
    return send_bytes(port, packer->taker->peer, writer->bytes, bytes);
}

/* What waited for the peer is lost, as what lies in the buffers of a connection that ends. */
static void gone(struct port *port, struct packer *packer)
{
    struct taker *taker = packer->taker;
    uint32_t peer = taker->peer;
    let_go(port->packs, packer);
    taker_free(port, taker);
    if (port->gone)
        port->gone(port->gone_context, peer);
}

static bool flush_one(struct port *port, struct packer *packer)
{
    if (send_whole(port, packer)) {
        let_go(port->packs, packer);
        return true;
    }
    gone(port, packer);
    return false;
}

void port_flush(struct port *port)
{
    struct port_packs *packs = port->packs;
    for (uint32_t i = 0; packs && packs->used > 0 && i < PACKERS; i++) {
        if (packs->packers[i].taker)
            flush_one(port, &packs->packers[i]);
    }
}

bool port_holds(const struct port *port)
{
    return port->packs && port->packs->used > 0;
}

/* One that is free; or, when all are in use, the next in turn, sent. */
static struct packer *packer_free(struct port *port)
{
    struct port_packs *packs = port->packs;
    for (uint32_t i = 0; packs->used < PACKERS && i < PACKERS; i++) {
        if (!packs->packers[i].taker)
            return &packs->packers[i];
    }
    struct packer *packer = &packs->packers[packs->oldest++ % PACKERS];
    flush_one(port, packer);
    return packer;
}

enum pack_way port_pack_begin(struct port *port, uint32_t peer)
{
    struct taker *taker = port->packs ? find(port, peer) : NULL;
    if (!taker)
        return PACK_WAY_DIRECT;
    PEN_ASSERT(!port->packs->at, "one message is sent at a time");
    if (!taker->packer) {
        struct packer *packer = packer_free(port);
        packer->taker = taker;
        taker->packer = packer;
        port->packs->used++;
        pack_limit(&packer->writer, taker->limit);
    }
    port->packs->at = taker->packer;
    port->packs->drops = false;
    return PACK_WAY_HELD;
}

/* An empty last frame: the reader drops a message that breaks off so. */
static void break_off(struct port *port)
{
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    if (zmq_msg_send(&frame, port->socket, ZMQ_DONTWAIT) < 0)
        zmq_msg_close(&frame);
}

/* The frames so far of a message that does not fit go to the socket; more follow. */
static bool send_open(struct port *port, const struct packer *packer)
{
    const struct pack_writer *writer = &packer->writer;
    struct pack_item item;
    if (!port_begin_direct(port, packer->taker->peer))
        return false;
    if (writer->used == writer->whole)
        return true; /* its first frame is the one that does not fit */
    struct pack_reader reader = {writer->bytes + writer->whole, writer->bytes + writer->used};
    while (pack_next(&reader, &item)) {
        if (zmq_send(port->socket, item.data, item.bytes, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0) {
            break_off(port);
            return false;
        }
        port->bytes_out += item.bytes;
    }
    return true;
}

/* The message goes direct from here on, behind all that waited for its peer. */
static bool spill(struct port *port, struct packer *packer)
{
    port->packs->at = NULL;
    if (!send_whole(port, packer) || !send_open(port, packer)) {
        gone(port, packer);
        return false;
    }
    let_go(port->packs, packer);
    return true;
}

/* True: the message is kept as it is for now, for nothing else waits. */
static bool keep_first(struct packer *packer, zmq_msg_t *frame, enum frame_follows follows)
{
    if (packer->has_first || packer->writer.used > 0 || follows == FRAME_MORE ||
        !pack_fits(&packer->writer, zmq_msg_size(frame)))
        return false;
    zmq_msg_init(&packer->first);
    zmq_msg_move(&packer->first, frame);
    zmq_msg_close(frame);
    packer->has_first = true;
    return true;
}

/* Another message follows it. Without memory for both it is sent now. False: the peer has gone. */
static bool first_to_writer(struct port *port, struct packer *packer)
{
    size_t bytes = zmq_msg_size(&packer->first);
    uint8_t *to = pack_frame(&packer->writer, bytes, false);
    if (!to)
        return send_first(port, packer);
    memcpy(to, zmq_msg_data(&packer->first), bytes);
    zmq_msg_close(&packer->first);
    packer->has_first = false;
    return true;
}

bool port_pack_part(struct port *port, zmq_msg_t *frame, enum frame_follows follows)
{
    struct port_packs *packs = port->packs;
    struct packer *packer = packs ? packs->at : NULL;
    if (!packer)
        return false;
    if (keep_first(packer, frame, follows)) {
        packs->at = NULL;
        return true;
    }
    if (packer->has_first && !first_to_writer(port, packer)) {
        packs->at = NULL;
        packs->drops = true;
        gone(port, packer);
        return false;
    }
    uint8_t *to = pack_frame(&packer->writer, zmq_msg_size(frame), follows == FRAME_MORE);
    if (!to) {
        packs->drops = !spill(port, packer);
        return false;
    }
    memcpy(to, zmq_msg_data(frame), zmq_msg_size(frame));
    zmq_msg_close(frame);
    if (follows == FRAME_LAST) {
        packs->at = NULL;
        if (pack_soon(&packer->writer))
            flush_one(port, packer);
    }
    return true;
}

bool port_pack_drops(struct port *port, enum frame_follows follows)
{
    bool drops = port->packs && port->packs->drops;
    if (drops && follows == FRAME_LAST)
        port->packs->drops = false;
    return drops;
}

/* ---- who takes packs, told ---- */

static void forget(struct port *port, struct taker *taker)
{
    if (!taker->packer || flush_one(port, taker->packer))
        taker_free(port, taker); /* otherwise it has gone already */
}

void port_takes_packs(struct port *port, uint32_t peer, uint32_t frame_bytes)
{
    struct taker *taker = port->packs ? find(port, peer) : NULL;
    if (taker)
        forget(port, taker);
    if (frame_bytes == 0 || !port->socket || !packs_make(port))
        return;
    taker = calloc(1, sizeof *taker);
    if (!taker)
        return; /* its messages go one by one */
    taker->peer = peer;
    taker->limit = frame_bytes;
    table_insert(&port->packs->takers, &taker->by_peer, table_hash(&port->packs->takers, peer, 0));
}

void port_settle(struct port *port)
{
    for (uint32_t i = 0; port->packs && i < PACKERS; i++) {
        if (!port->packs->packers[i].taker)
            pack_fini(&port->packs->packers[i].writer);
    }
}

/* ---- receiving ---- */

static void reads_end(struct port_packs *packs)
{
    if (packs->reads)
        zmq_msg_close(&packs->in);
    packs->reads = false;
}

bool port_pack_take(struct port *port, struct message *message)
{
    struct pack_reader reader;
    struct envelope env;
    const uint8_t *meta;
    zmq_msg_t *frame = &message->frames[0];
    if (message->count != 1 || message->named || !pack_is(zmq_msg_data(frame), zmq_msg_size(frame)) ||
        !packs_make(port) || envelope_decode(zmq_msg_data(frame), zmq_msg_size(frame), &env, &meta, NULL) != PEN_OK ||
        pack_reader_open(&reader, meta, env.meta_bytes, NULL) != PEN_OK)
        return false;
    struct port_packs *packs = port->packs;
    PEN_ASSERT(!packs->reads, "a pack is read to its end before the next one comes");
    packs->in_fd = message_fd(message);
    packs->in_peer = message->peer;
    zmq_msg_init(&packs->in);
    zmq_msg_move(&packs->in, frame);
    packs->reads = true;
    packs->reader = reader; /* frames of packs are large: their bytes do not lie in the zmq_msg_t that moved */
    return true;
}

/*
 * The frames of the next message, borrowed: what is kept of small frames is copied in any case (shared_message.h). Only
 * a frame that would be moved is copied here. False: no memory.
 */
static bool add_message(struct message *message, struct pack_reader *reader)
{
    struct pack_item item = {.more = true};
    while (item.more && pack_next(reader, &item)) {
        zmq_msg_t frame;
        if (item.bytes < SHARED_MESSAGE_COPY_BYTES) {
            zmq_msg_init_data(&frame, (void *)(uintptr_t)item.data, item.bytes, NULL, NULL); /* cannot fail */
        } else if (zmq_msg_init_size(&frame, item.bytes) == 0) {
            memcpy(zmq_msg_data(&frame), item.data, item.bytes);
        } else {
            return false;
        }
        message_add(message, &frame);
    }
    message->borrowed = true;
    return true;
}

bool port_pack_next(struct port *port, struct message *message)
{
    struct port_packs *packs = port->packs;
    if (!packs || !packs->reads)
        return false;
    PEN_ASSERT(message->count == 0, "the message before it, whose bytes are in the PACK, has been let go");
    if (packs->reader.at == packs->reader.end) {
        reads_end(packs);
        return false;
    }
    struct pack_reader reader = packs->reader;
    if (!add_message(message, &reader)) {
        message_clear(message); /* it is read when there is memory again */
        return false;
    }
    packs->reader = reader;
    message->peer = packs->in_peer;
    message->packed = true;
    message->fd = packs->in_fd;
    if (port->authenticated)
        message->user = zmq_msg_gets(&packs->in, "User-Id");
    return true;
}

bool port_pack_reads(const struct port *port)
{
    return port->packs && port->packs->reads;
}

void port_packs_free(struct port *port)
{
    struct port_packs *packs = port->packs;
    if (!packs)
        return;
    for (uint32_t i = 0; i < PACKERS; i++) {
        if (packs->packers[i].has_first)
            zmq_msg_close(&packs->packers[i].first);
        pack_fini(&packs->packers[i].writer);
    }
    for (size_t i = 0; packs->takers.slots && i <= packs->takers.mask; i++) {
        if (packs->takers.slots[i])
            free(table_entry(packs->takers.slots[i], struct taker, by_peer));
    }
    for (struct table_node *node = packs->takers.overflow, *next; node; node = next) {
        next = node->next;
        free(table_entry(node, struct taker, by_peer));
    }
    reads_end(packs);
    table_fini(&packs->takers);
    free(packs);
    port->packs = NULL;
}
