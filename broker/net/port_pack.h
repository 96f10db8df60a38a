/*
 * port_pack.h - packs at a port (proto/wire/pack.h): messages to a peer that takes packs wait until port_flush(), and
 * leave together; the messages of a PACK that came are received one by one. For port.c alone.
 *
 * A fixed number of packs is written at a time; one more peer's message sends the pack that waited longest.
 * Threads: owner.
 */
#ifndef PORT_PACK_H
#define PORT_PACK_H

#include "port.h"

void port_packs_free(struct port *port);

/* Sends the routing id of a message whose frames go to the socket. False: the peer has gone. */
bool port_begin_direct(struct port *port, uint32_t peer);

/* How the message that is being sent goes. */
enum pack_way {
    PACK_WAY_DIRECT, /* frame by frame to the socket: the caller sends the routing id first */
    PACK_WAY_HELD,   /* into the peer's pack: nothing is sent now */
};
enum pack_way port_pack_begin(struct port *port, uint32_t peer);
/* The next frame of a held message; takes it. False: the message is too large for a pack, all of it before this frame
   has been sent to the socket, and the frame is still the caller's: it and the others go direct. */
bool port_pack_part(struct port *port, zmq_msg_t *frame, enum frame_follows follows);
/* True while the rest of a message is to be dropped, because its peer has gone. */
bool port_pack_drops(struct port *port, enum frame_follows follows);

/* Whether the message that came is a PACK that can be read; then it is taken, and port_pack_next gives what is in it. */
bool port_pack_take(struct port *port, struct message *message);
bool port_pack_next(struct port *port, struct message *message); /* false: nothing is left, or no memory */
bool port_pack_reads(const struct port *port);                   /* is a PACK not read to its end? */

#endif
