/*
 * frame.h - the envelope and the multipart layout of every Penstock message. The contract in words: proto/PROTOCOL.md.
 *
 * A message is 1..FRAME_MAX_GROUPS groups. A group is one header frame followed by envelope.frames raw tensor frames. The header frame is
 * a fixed 80-byte little-endian envelope followed by envelope.meta_bytes of protobuf. SUBMIT and RESULT of the client side carry one
 * group; DISPATCH and RESULT of the worker side carry one group per job of the batch.
 *
 * Threads: any (pure functions; a struct belongs to its caller).
 */
#ifndef FRAME_H
#define FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "digest.h"
#include "job_id.h"
#include "penstock/status.h"
#include "precisions.h"

#define FRAME_MAGIC             0x4B50u /* "PK" little-endian */
#define FRAME_VERSION_MAJOR     1
#define FRAME_VERSION_MINOR     3
#define FRAME_ENVELOPE_BYTES    80u
#define FRAME_META_BYTES_MAX    (64u * 1024u)        /* protobuf meta of job traffic */
#define FRAME_CONTROL_BYTES_MAX (4u * 1024u * 1024u) /* meta of hello, update and control messages */
#define FRAME_PACK_BYTES_MAX    (256u * 1024u)       /* messages of one PACK */
#define FRAME_INLINE_BYTES      2048u /* payloads of a job with no more in all are sent inline in the meta */
#define FRAME_MAX_TENSORS       64u   /* raw frames of one group */
#define FRAME_MAX_GROUPS        64u   /* per dispatch */

/* Wire values: never renumber. */
enum frame_type {
    FRAME_CLIENT_HELLO = 1,  /* client -> broker: ClientHello */
    FRAME_SUBMIT = 2,        /* client -> broker, and broker -> worker (then 1..64 groups): JobMeta */
    FRAME_CANCEL = 3,        /* client -> broker -> worker: no meta */
    FRAME_ACK = 4,           /* client -> broker: every result up to job.sequence has arrived; no meta */
    FRAME_CONTROL = 5,       /* client -> broker: ControlRequest */
    FRAME_GOODBYE = 6,       /* client or worker -> broker: leaving now, no grace wanted */
    FRAME_RESULT = 7,        /* worker -> broker (1..64 groups), broker -> client (1 group): ResultMeta */
    FRAME_CONTROL_REPLY = 8, /* broker -> client: ControlReply */
    FRAME_WELCOME = 9,       /* broker -> client or worker: Welcome */
    FRAME_PING = 10,         /* either way; answered by PONG */
    FRAME_PONG = 11,
    FRAME_WORKER_HELLO = 12,  /* worker -> broker: WorkerHello */
    FRAME_WORKER_UPDATE = 13, /* worker -> broker: WorkerUpdate */
    FRAME_HEARTBEAT = 14,     /* worker -> broker: Heartbeat; broker -> worker: no meta */
    FRAME_DRAIN =
        15, /* broker -> worker: finish and leave; worker -> broker: send no more work; broker -> client: I am leaving, go elsewhere */
    FRAME_RESUME = 16, /* broker -> client or worker: I do not know you, say hello again; or Resume: elsewhere */
    FRAME_ATTACH = 17, /* client or worker -> broker, on a second connection: it is the bulk connection of job.client */
    FRAME_CHUNK =
        18, /* either way, on the bulk connection: the bytes from `offset` on of a transfer, in one raw frame */
    FRAME_CREDIT = 19,    /* either way: the transfer may go on up to `offset`; with a status, its rest is not wanted */
    FRAME_PACK = 20,      /* either way: several messages that were there at the same time (pack.h) */
    FRAME_NOTICE = 21,    /* broker -> client: JobNotice: the job waits for its model */
    FRAME_NEIGHBOUR = 22, /* broker -> broker, and back: NeighbourState */
    FRAME_HANDED = 23,    /* broker -> broker: the answer to a SUBMIT with JobMeta.handed; OK: the job is here now */
    FRAME_TYPE_COUNT
};

enum frame_flag {
    FRAME_FLAG_PARTIAL = 1u << 0,      /* more results of this job follow (reserved) */
    FRAME_FLAG_DIGEST_FIRST = 1u << 1, /* SUBMIT: announced only for its digest; small enough to be sent whole */
    FRAME_FLAG_NO_CACHE = 1u << 2, /* neither read nor stored in the result cache, nor joined with an identical job */
    FRAME_FLAG_RESENT = 1u << 3,   /* the client repeats a job id it may have sent before */
    FRAME_FLAG_DIGEST_SHA256 = 1u << 4,   /* digest is SHA-256 cut to 16 bytes, not XXH3-128 */
    FRAME_FLAG_DIGEST = 1u << 5,          /* digest field is filled */
    FRAME_FLAG_DETACHED = 1u << 6,        /* SUBMIT: the answer says that the job is accepted; its result is fetched */
    FRAME_FLAG_SEQUENCE_START = 1u << 12, /* SUBMIT: the first job of its sequence */
    FRAME_FLAG_SEQUENCE_END = 1u << 13,   /* SUBMIT: the last one */
    FRAME_FLAG_FETCH = 1u << 7,           /* SUBMIT without a model: asks for the answer of the job JobMeta.detached */
    FRAME_FLAG_STORED = 1u << 8, /* RESULT in a cache outside of the broker: the job id is a digest of its key */
    FRAME_FLAG_SEALED = 1u << 9, /* SUBMIT, RESULT: the raw frames lie in sealed memory, parcel `transfer` (parcel.h) */
    FRAME_FLAG_ALONE = 1u << 14, /* SUBMIT of a broker: the worker must run nothing else beside it, from any broker */
};

/* Precision class of a result, or the least that a job accepts: enum pen_precision (penstock/precision.h) as the wire has it. */
#define PRECISION_CLASS(constant, name) PRECISION_##constant = PEN_PRECISION_##constant,
enum precision { PRECISIONS(PRECISION_CLASS) PRECISION_COUNT };

/* Host form of the 80 bytes; offsets are in frame.c and proto/PROTOCOL.md. */
struct envelope {
    uint8_t major, minor;
    uint8_t type;   /* enum frame_type */
    uint16_t flags; /* enum frame_flag */
    struct job_id job;
    struct digest digest; /* request digest */
    uint64_t model_hash;  /* XXH3-64 of the model name: routing without opening the meta */
    union {
        uint64_t sequence_id; /* stateful models; 0 = none */
        uint64_t offset;      /* CHUNK, CREDIT: byte position in the transfer */
    };
    uint64_t deadline_us; /* remaining time; 0 = none */
    uint32_t tenant_hash; /* low 32 bits of XXH3-64 of the tenant; 0 = default */
    uint8_t priority;     /* 0 = the model's default, 1 = most urgent */
    uint8_t precision;    /* enum precision */
    uint8_t status;       /* enum pen_status of a RESULT, WELCOME or CONTROL_REPLY */
    uint8_t
        status_told; /* in a decoded envelope: the number as it came, even if it reads as PEN_ERR_INTERNAL; never sent */
    uint8_t frames;  /* raw frames that follow this header */
    uint32_t meta_bytes; /* protobuf bytes behind the envelope in the same frame */
    uint32_t transfer;   /* not 0: the raw frames of this group are sent as chunks with this number (bulk.h) */
};

/* True for a decoded envelope with a status that this build has no name for. */
static inline bool envelope_status_unknown(const struct envelope *env)
{
    return env->status_told >= PEN_STATUS_COUNT;
}

/* A zeroed envelope of this build's version. */
struct envelope envelope_make(enum frame_type type);

/* Writes exactly FRAME_ENVELOPE_BYTES. Returns the address behind them, where the meta begins. */
uint8_t *envelope_encode(const struct envelope *env, void *frame);

/*
 * Reads the envelope at the start of a header frame of `size` bytes and checks magic, major version, known type, a job id where the type has
 * one, caps, and that envelope + meta fill the frame exactly. A peer of a newer minor version may have a longer envelope: it says itself where the
 * meta starts (*ret_meta points into `frame`). A status that this build does not know reads as PEN_ERR_INTERNAL, of whatever minor the peer is;
 * status_told keeps the number.
 *
 * Fails with a sentence: PEN_ERR_VERSION for another major; PEN_ERR_TOO_LARGE beyond a cap, then *ret_env and *ret_meta are filled all the
 * same so that the job can be answered; PEN_ERR_UNSUPPORTED for a type or precision class of a newer minor (skip the message); else
 * PEN_ERR_CORRUPT.
 */
enum pen_status envelope_decode(const void *frame, size_t size, struct envelope *ret_env, const uint8_t **ret_meta,
                                struct pen_error *reterr);

/*
 * Read or change single fields of a header frame in place. envelope_decode must have accepted the frame, or
 * envelope_encode written it. No other code knows the byte positions of fields.
 */
const uint8_t *frame_meta(
    const void *frame); /* where the meta begins: a peer of a newer minor may have a longer envelope */
uint8_t frame_type_of(const void *frame); /* enum frame_type, of any 80 bytes */
uint64_t frame_deadline_us(const void *frame);
uint8_t frame_priority(const void *frame);
void frame_set_deadline_us(void *frame, uint64_t deadline_us);
void frame_add_flags(void *frame, uint16_t flags); /* enum frame_flag; adds them to those that are set */
/* Number 0: no payload is announced. A header from a peer of version 1.0, where these bytes mean nothing, gets our
   minor version. */
void frame_set_transfer(void *frame, uint32_t number);

bool frame_is_sealed(const void *frame);
/* The raw frames lie in the parcel of that number; 0: no longer, they follow. */
void frame_set_sealed(void *frame, uint32_t number);

uint64_t frame_name_hash(const char *name); /* XXH3-64, seed 0; 0 for NULL or "" */
const char *frame_type_name(uint8_t type);

#endif
