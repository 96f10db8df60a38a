/*
 * outgoing.h - one message on its way out of the broker: the groups of one or more jobs, to one client or worker.
 *
 * A group is a header frame and the payload's frames. Where the payload is large and the peer takes chunks, the header goes alone and announces it
 * (bulk_out.h). Frames are shared, never copied. Whoever sends jobs or replies, one or many in a message, sends them through here; what else a message may
 * come to carry (descriptors of the same host beside the frames) has its place in outgoing_group, too.
 * Threads: owner.
 */
#ifndef OUTGOING_H
#define OUTGOING_H

#include "broker_state.h"

struct outgoing {
    struct port *port;
    struct transfer_end *end;
    zmq_msg_t last; /* waits, for it is not known yet whether it is the message's last frame */
    uint64_t bytes; /* of the frames so far */
    uint32_t groups;
};

/* False: the peer is gone, and nothing may follow. end: the transfers of that peer. */
bool outgoing_begin(struct outgoing *outgoing, struct port *port, uint32_t peer, struct transfer_end *end);
/* At most FRAME_MAX_GROUPS. header: taken, instead of the message's own; NULL: that one. */
void outgoing_group(struct broker *broker, struct outgoing *outgoing, struct shared_message *shared, zmq_msg_t *header);
/* At least one group is there: it leaves. The bytes of its frames; what was only announced does not count. */
uint64_t outgoing_end(struct outgoing *outgoing);

#endif
