/* link_pack.c - results on their way to a socket, alone or together. */
#include "link_pack.h"

#include "assertion.h"
#include "pack_socket.h"

#include <errno.h>
#include <string.h>

bool link_flush(struct link *link)
{
    return link->going.messages == 0 || (link->socket && pack_send(&link->going, link->socket) == 0);
}

void link_hold(struct link *link)
{
    PEN_ASSERT(!link->holds, "results are held by one at a time");
    link->holds = true;
}

bool link_release(struct link *link)
{
    PEN_ASSERT(link->holds, "what was held is let go");
    link->holds = false;
    if (link_flush(link))
        return true;
    log_event(LOG_ERROR, "send_failed", "error=%s", zmq_strerror(errno));
    pack_clear(&link->going);
    return false;
}

/* Where a whole reply goes, now that what stood in its way has been sent. */
static enum pack_place place(struct link *link, struct reply *reply)
{
    size_t bytes = 0, largest = 0;
    if (!link->holds)
        return link_flush(link) ? PACK_NEVER : PACK_LATER;
    for (size_t i = 0; i < reply->frames_count; i++) {
        size_t own = zmq_msg_size(&reply->frames[i]);
        bytes += own;
        largest = own > largest ? own : largest;
    }
    return pack_prepare(&link->going, link->socket, reply->frames_count, bytes, largest);
}

static void pack_reply(struct link *link, struct reply *reply)
{
    for (size_t i = 0; i < reply->frames_count; i++) {
        size_t bytes = zmq_msg_size(&reply->frames[i]);
        uint8_t *to = pack_frame(&link->going, bytes, i + 1 < reply->frames_count);
        PEN_ASSERT(to, "a pack takes what was found to fit");
        memcpy(to, zmq_msg_data(&reply->frames[i]), bytes);
    }
    reply_free(reply);
}

int link_pack_reply(struct link *link, struct reply *reply)
{
    enum pack_place where = place(link, reply);
    if (where == PACK_NEVER)
        return reply_send(reply, link->socket);
    if (where == PACK_LATER) {
        reply_free(reply);
        return -1;
    }
    pack_reply(link, reply);
    return 0;
}
