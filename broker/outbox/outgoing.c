#include "outgoing.h"

#include "assertion.h"
#include "bulk_out.h"

bool outgoing_begin(struct outgoing *outgoing, struct port *port, uint32_t peer, struct transfer_end *end)
{
    if (!port->begin(port, peer))
        return false;
    *outgoing = (struct outgoing){.port = port, .end = end};
    zmq_msg_init(&outgoing->last);
    return true;
}

/* A reference to one of its frames. Only a frame that was closed cannot be copied. */
static void share_frame(const struct shared_message *shared, uint32_t index, zmq_msg_t *ret_frame)
{
    enum pen_status status = shared_message_frame(shared, index, ret_frame);
    PEN_ASSERT(status == PEN_OK, "the frames of a message that is retained are open");
}

static void put_frame(struct outgoing *outgoing, zmq_msg_t *frame)
{
    if (outgoing->bytes > 0)
        outgoing->port->part(outgoing->port, &outgoing->last, true);
    outgoing->bytes += zmq_msg_size(frame);
    zmq_msg_init(&outgoing->last);
    zmq_msg_move(&outgoing->last, frame);
    zmq_msg_close(frame);
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
        share_frame(shared, 0, &frame);
        header = &frame;
    }
    uint32_t count = announce(broker, outgoing, shared, header) ? 1 : shared->count;
    put_frame(outgoing, header);
    for (uint32_t i = 1; i < count; i++) {
        share_frame(shared, i, &frame);
        put_frame(outgoing, &frame);
    }
    outgoing->groups++;
}

uint64_t outgoing_end(struct outgoing *outgoing)
{
    PEN_ASSERT(outgoing->groups > 0, "a message that leaves has a group");
    outgoing->port->part(outgoing->port, &outgoing->last, false);
    return outgoing->bytes;
}
