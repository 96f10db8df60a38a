/*
 * link_pack.h - results that leave together, as a PACK (proto/wire/pack.h), where the broker takes packs.
 *
 * Threads: owner - the network thread.
 */
#ifndef LINK_PACK_H
#define LINK_PACK_H

#include "link.h"

/* Results that are sent between the two leave together. */
void link_hold(struct link *link);
/* False: they could not be sent for lack of memory, and are lost: link_give_back(), so that their jobs run again. */
bool link_release(struct link *link);
/* Sends the results that wait, before anything else is said to the broker. False: no memory now. */
bool link_flush(struct link *link);
/* Sends or holds a whole reply, and frees it. -1 with errno: the socket refuses. */
int link_pack_reply(struct link *link, struct reply *reply);

#endif
