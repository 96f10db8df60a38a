/*
 * pack.h - several messages in one ZeroMQ message: a PACK (proto/PROTOCOL.md, "Packs"). Written into memory that grows,
 * and read where it lies. pack_socket.h sends what was written.
 *
 * libzmq's cost is one per frame, whatever the frame's size below some KiB; so small messages that are there at the
 * same time travel as one frame. A message never waits for another one: who writes packs sends them before it sleeps.
 *
 * Threads: any (a struct belongs to its caller).
 */
#ifndef PACK_H
#define PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"

#define PACK_FRAMES_MAX      512u           /* frames in one PACK */
#define PACK_FRAME_BYTES_MAX 8191u          /* larger frames go by themselves: copying them costs more than it saves */
#define PACK_SOON_BYTES      (128u * 1024u) /* a PACK of so many bytes is sent before another message is added */
#define PACK_SOON_FRAMES     256u           /* the same for frames */

/* Messages that wait to be sent as one, and perhaps the first frames of another one. */
struct pack_writer {
    uint8_t *bytes;    /* room for the envelope, then the frames with their lengths */
    size_t room, used; /* of `bytes`; used = 0: nothing waits */
    size_t limit;      /* bytes of the largest PACK that the peer takes; 0 = it takes none */
    size_t whole;      /* where the frames of the message begin that is not complete yet; = used: there is none */
    uint32_t messages; /* complete ones */
    uint32_t frames, frames_whole; /* all, and those of complete messages */
};

/* frame_bytes: the largest PACK that the peer takes, as it said; 0 = none. What waits is dropped. */
void pack_limit(struct pack_writer *writer, uint64_t frame_bytes);
void pack_clear(struct pack_writer *writer); /* drops what waits, keeps the memory */
void pack_fini(struct pack_writer *writer);

/* What this build can take, for its hello or welcome. frame_bytes_max: the largest frame that its socket lets in; 0 =
   any. */
uint32_t pack_bytes_taken(uint64_t frame_bytes_max);

enum pack_place {
    PACK_NOW,   /* there is room, and memory */
    PACK_LATER, /* when what waits has been sent */
    PACK_NEVER, /* the message must go by itself */
};
/* Where a message of that many frames fits, with `bytes` in all and `largest` in its largest. */
enum pack_place pack_place(struct pack_writer *writer, size_t frames, size_t bytes, size_t largest);

/* Whether a message of one frame with so many bytes has room in a PACK that is empty. */
bool pack_fits(const struct pack_writer *writer, size_t bytes);
/* Adds a frame of that many bytes and gives the place where they are to be written. more: another frame of the same
   message follows. NULL: no room (never after PACK_NOW), or no memory; the writer is unchanged. */
uint8_t *pack_frame(struct pack_writer *writer, size_t bytes, bool more);
/* True when what waits should be sent before another message comes. */
bool pack_soon(const struct pack_writer *writer);
/* Writes the envelope of the complete messages. Returns the frame's bytes; it begins at writer->bytes. */
size_t pack_seal(struct pack_writer *writer);
/* The only frame of the only complete message, which needs no PACK: its bytes. NULL: there is more, or less. */
const uint8_t *pack_single(const struct pack_writer *writer, size_t *ret_bytes);

/* Reads the frames of a PACK's meta, or of what a writer holds. */
struct pack_reader {
    const uint8_t *at, *end;
};
struct pack_item {
    const uint8_t *data;
    size_t bytes;
    bool more; /* another frame of the same message follows */
};
/* CORRUPT with a sentence unless all of it can be read: lengths that fill the meta, 1 to PACK_FRAMES_MAX frames, no PACK
   inside. */
enum pen_status pack_reader_open(struct pack_reader *reader, const uint8_t *meta, size_t bytes,
                                 struct pen_error *reterr);
bool pack_next(struct pack_reader *reader, struct pack_item *ret_item); /* false: that was all */
/* True when this header frame is that of a PACK. Cheap: it looks at one byte. */
bool pack_is(const void *frame, size_t bytes);

#endif
