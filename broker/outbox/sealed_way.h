/*
 * sealed_way.h - payloads in sealed memory, to peers on this host (proto/PROTOCOL.md, "On one host").
 *
 * A peer whose hello knows sealed memory is told the name of the broker's Unix socket and a secret of its own. One that
 * connects there with its token is on this host. A payload that came as sealed memory then goes to it as a descriptor;
 * its bytes are never read here. To all others it goes as bytes.
 * Threads: owner.
 */
#ifndef SEALED_WAY_H
#define SEALED_WAY_H

#include "broker_state.h"
#include "parcel.h"
#include "worker.pb-c.h"

/* The Unix socket of a session or worker. */
struct sealed_end {
    TAILQ_ENTRY(sealed_end) in_hub;
    struct transfer_end *end;
    struct parcel_link link;
    uint8_t secret[PARCEL_SECRET_BYTES];
};

/* Tells the peer of the socket, if its hello knows sealed memory. Texts and bytes are borrowed from the broker. */
void sealed_way_welcome(struct broker *broker, const struct port *port, uint32_t peer, Penstock__Welcome *welcome);
/* Binds the sockets of peers that have come. */
void sealed_way_look(struct broker *broker);
int sealed_way_descriptor(const struct broker *broker); /* readable when it has something to do; -1 = never */
/* The peer's connection is lost, or new. */
void sealed_way_reset(struct broker *broker, struct transfer_end *end);
void sealed_way_fini(struct broker *broker);

/* Sends the message's payload as a descriptor and writes its number into `header`, which becomes a copy. False: it does
   not lie in sealed memory, or cannot go that way now. */
bool sealed_way_send(struct broker *broker, struct transfer_end *end, const struct shared_message *shared,
                     zmq_msg_t *header);

#endif
