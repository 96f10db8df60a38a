#include "outgoing.h"

#include "assertion.h"
#include "bulk_out.h"
#include "sealed_way.h"

bool outgoing_begin(struct outgoing *outgoing, struct port *port, uint32_t peer, struct transfer_end *end)
{
    if (!port->begin(port, peer))
        return false;
    *outgoing = (struct outgoing){.port = port, .end = end};
    zmq_msg_init(&outgoing->last);
    return true;
}

static void put_frame(struct outgoing *outgoing, zmq_msg_t *frame)
{
    if (outgoing->bytes > 0)
        outgoing->port->part(outgoing->port, &outgoing->last, FRAME_MORE);
    outgoing->bytes += zmq_msg_size(frame);
    zmq_msg_init(&outgoing->last);
    zmq_msg_move(&outgoing->last, frame);
    zmq_msg_close(frame);
}

static uint64_t payload_bytes(const struct shared_message *shared)
{
    return shared_message_bytes(shared) - zmq_msg_size(&shared->frames[0]);
}

/* A payload in sealed memory goes as a descriptor. Its bytes count as sent: the peer has not read them. */
static bool give(struct broker *broker, struct outgoing *outgoing, struct shared_message *shared, zmq_msg_t *header)
{
    if (!sealed_way_send(broker, outgoing->end, shared, header))
        return false;
    outgoing->given += payload_bytes(shared);
    return true;
}

/* A large payload is only announced: the peer asks for it when it wants it. */
static bool announce(struct broker *broker, const struct outgoing *outgoing, struct shared_message *shared,
                     zmq_msg_t *header)
{
    struct envelope env;
    const uint8_t *meta;
    return transfer_wanted(broker, outgoing->end, shared) &&
           envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, NULL) == PEN_OK &&
           transfer_begin(broker, outgoing->end, env.job, shared, header);
}

void outgoing_group(struct broker *broker, struct outgoing *outgoing, struct shared_message *shared, zmq_msg_t *header)
{
    zmq_msg_t frame;
    PEN_ASSERT(outgoing->groups < FRAME_MAX_GROUPS, "a message has no more groups than its reader takes");
    if (!header) {
        shared_message_frame(shared, 0, &frame);
        header = &frame;
    }
    bool apart = give(broker, outgoing, shared, header) || announce(broker, outgoing, shared, header);
    uint32_t count = apart ? 1 : shared->count;
    put_frame(outgoing, header);
    for (uint32_t i = 1; i < count; i++) {
        shared_message_frame(shared, i, &frame);
        put_frame(outgoing, &frame);
    }
    outgoing->groups++;
}

uint64_t outgoing_end(struct outgoing *outgoing)
{
    PEN_ASSERT(outgoing->groups > 0, "a message that leaves has a group");
    outgoing->port->part(outgoing->port, &outgoing->last, FRAME_LAST);
    return outgoing->bytes + outgoing->given;
}
