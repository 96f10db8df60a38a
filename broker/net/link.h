/*
 * link.h - one connection as the broker sees it: when it was last heard, the bytes sent, the bytes that the peer has
 * not read yet, and probes after a hint that some connection was lost.
 *
 * PONGs tell how much a peer has read: they come in the order of the PINGs, so the answer to a PING that was sent
 * behind n bytes says that the peer has read those n bytes.
 * Threads: owner. Pure: times are parameters.
 */
#ifndef LINK_H
#define LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "table.h"

struct link {
    struct table_node by_peer;
    uint32_t peer; /* routing id */
    int fd;        /* of the connection; -1 unknown */
    uint64_t heard_us, sent_us;
    uint64_t bytes_sent, bytes_taken, bytes_marked; /* marked: sent before the PING that waits for its PONG */
    uint32_t pings, pongs, ping_marked;
    uint64_t probe_start_us;
    unsigned probe_step; /* next entry of the schedule; LINK_PROBES = none */
};

#define LINK_PROBES 11u

void link_init(struct link *link, uint32_t peer, int fd, uint64_t now_us);
void link_sent(struct link *link, uint64_t bytes, uint64_t now_us);

/* True once for each 1/8 of the cap: a PING now would tell how far the peer has read. */
bool link_wants_ping(const struct link *link, uint64_t cap_bytes);
void link_pinged(struct link *link, uint64_t now_us);
void link_ponged(struct link *link);
/* True when the peer has more than `cap_bytes` of our bytes unread. */
bool link_full(const struct link *link, uint64_t cap_bytes);

/*
 * After a hint: PINGs at 0, 0.1, 0.3, 0.6, 1.5, 4, 13, 40, 121, 400 and 1200 ms. The first PING alone missed 3 of 5
 * killed peers: libzmq reports the end of a connection before it has closed it, and on a busy machine its thread may be
 * delayed in between (in one of 200 kills for more than 121 ms).
 */
void link_probe(struct link *link, uint64_t now_us);
bool link_probing(const struct link *link);
bool link_probe_due(struct link *link, uint64_t now_us); /* true: send a PING now */
uint64_t link_probe_next_us(const struct link *link);    /* UINT64_MAX = none */
uint64_t link_probed_us(const struct link *link,
                        uint64_t now_us); /* time since the hint; 0 = there was no hint, or the peer answered */

#endif
