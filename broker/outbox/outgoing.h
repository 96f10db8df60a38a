/*
 * outgoing.h - one message on its way out of the broker: the groups of one or more jobs, to one client or worker.
 *
 * A group is a header frame and the payload's frames. When the payload is large and the peer takes chunks, only the
 * header is sent and announces the payload (bulk_out.h). When it lies in sealed memory and the peer is on this host, the
 * descriptor goes before the header (sealed_way.h). Frames are shared, never copied. All jobs and replies, one or many
 * per message, are sent through here.
 * Threads: owner.
 */
#ifndef OUTGOING_H
#define OUTGOING_H

#include "broker_state.h"

struct outgoing {
    struct port *port;
    struct transfer_end *end;
    zmq_msg_t last; /* kept back until it is known whether it is the message's last frame */
    uint64_t bytes; /* of the frames so far */
    uint64_t given; /* bytes of payloads in sealed memory */
    uint32_t groups;
};

/* False: the peer is gone; do not call the other two. end: the transfers of that peer. */
bool outgoing_begin(struct outgoing *outgoing, struct port *port, uint32_t peer, struct transfer_end *end);
/* Adds a group; at most FRAME_MAX_GROUPS. header: taken and sent instead of the message's own header; NULL: the
   message's own is sent. */
void outgoing_group(struct broker *broker, struct outgoing *outgoing, struct shared_message *shared, zmq_msg_t *header);
/* Sends the message, which must have a group. Returns the bytes of its frames, those in sealed memory too; an announced
   payload does not count. */
uint64_t outgoing_end(struct outgoing *outgoing);

#endif
