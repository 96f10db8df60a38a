/*
 * pack_socket.h - sends packs (pack.h) over a DEALER, for clients and workers; the broker's ports have their own way.
 *
 * The functions are inline, so that proto itself needs no ZeroMQ; the files that include this link it.
 * Threads: those of the socket.
 */
#ifndef PACK_SOCKET_H
#define PACK_SOCKET_H

#include <string.h>
#include <zmq.h>

#include "pack.h"

/* Sends the complete messages that wait: as one PACK, or a single frame as it is. 0; -1 with errno: they still wait. */
static inline int pack_send(struct pack_writer *writer, void *socket)
{
    zmq_msg_t frame;
    size_t bytes = 0;
    const uint8_t *single = pack_single(writer, &bytes);
    if (writer->messages == 0)
        return 0;
    if (!single) {
        bytes = pack_seal(writer);
        single = writer->bytes;
    }
    if (zmq_msg_init_size(&frame, bytes) != 0)
        return -1;
    memcpy(zmq_msg_data(&frame), single, bytes);
    if (zmq_msg_send(&frame, socket, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&frame);
        return -1;
    }
    pack_clear(writer);
    return 0;
}

/* As pack_place(), having sent what stood in the way. PACK_LATER: it cannot be sent now. After PACK_NEVER nothing
   waits any more. */
static inline enum pack_place pack_prepare(struct pack_writer *writer, void *socket, size_t frames, size_t bytes,
                                           size_t largest)
{
    enum pack_place place = pack_place(writer, frames, bytes, largest);
    if (place == PACK_NOW && !pack_soon(writer))
        return place;
    if (pack_send(writer, socket) != 0)
        return PACK_LATER;
    return pack_place(writer, frames, bytes, largest);
}

#endif
