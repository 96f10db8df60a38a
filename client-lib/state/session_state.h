/*
 * session_state.h - where a client stands with its broker, and the few ways in which that changes.
 *
 * Plain data of the client (core.h). session_enter() alone writes `state`; acks.h counts what is not acknowledged; the files of session/ keep the times.
 * Threads: under the client's lock.
 */
#ifndef SESSION_STATE_H
#define SESSION_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "digest.h"
#include "endpoints.h"
#include "penstock/status.h"

#define SESSION_HEARTBEAT_US 500000u /* until the broker's welcome says better */
#define SESSION_LIVENESS_US  1500000u

enum session_state {
    SESSION_HELLO,   /* hello sent or to be sent, no welcome yet */
    SESSION_READY,   /* welcomed */
    SESSION_REFUSED, /* the broker will never have us */
    SESSION_STATE_COUNT
};

/* Times are absolute. */
struct session {
    enum session_state state;
    bool settled;  /* not SESSION_HELLO; what pen_client_wait_ready() waits for */
    uint64_t uuid; /* kept over reconnects: first half of job ids */
    size_t broker; /* index of the one that is spoken to, or tried */
    char redirect[ENDPOINTS_ONE_BYTES_MAX +
                  1];   /* spoken to, or tried, instead of that one: a broker sent us there; "" = none */
    uint32_t followed;  /* redirects in a row, until a broker answered a job or took us by itself */
    uint64_t opened_us; /* present socket */
    uint64_t reopen_us; /* not before; DEADLINE_NONE: not wanted */
    uint64_t lost_us;   /* since when there is no broker */
    size_t unanswered;  /* hellos in a row */
    uint64_t sent_us, heard_us;
    uint64_t heartbeat_us, liveness_us;
    uint64_t frame_bytes_max, job_bytes_max; /* the broker's; 0 = unknown */
    enum digest_kind digest_kind;
    bool welcomed;           /* ever: a broker that denies us now may have lost its list of keys, and is asked again */
    bool leaving;            /* this broker is about to end and there are others: it gets no new jobs */
    uint64_t leave_us;       /* when leaving: not later than this */
    size_t left;             /* leaving brokers in a row: when all of the list leave, the one at hand is kept */
    bool draining;           /* this broker is about to end, and there is no other */
    uint64_t held_us;        /* since when it takes no more jobs, so they wait for the next one; 0: it does */
    uint32_t unacknowledged; /* results since the last ACK */
    uint64_t unacknowledged_bytes;
    uint64_t acknowledge_us;     /* when the ACK is due; DEADLINE_NONE */
    bool detached;               /* the broker takes detached jobs */
    bool contracts;              /* it keeps what jobs state of their error */
    bool needs;                  /* it sends jobs that require flags only to workers that have them */
    uint8_t broker_minor;        /* of the protocol, as its welcome said */
    uint64_t digest_first_bytes; /* payloads of more may be announced for the sake of their digest; 0 = not */
    uint64_t bulk_bytes;         /* larger payloads go in chunks; 0 = none do */
    bool cancels_waiting;
    bool drop_wanted;         /* a new connection, to drop borrowed bytes that lie unsent in the old one */
    struct pen_error refusal; /* why SESSION_REFUSED */
    char trouble[256];        /* what went wrong on the way to a welcome, for the error text */
};

void session_init(struct session *session);

/* Goes to that state, which must be one of those that may follow. */
void session_enter(struct session *session, enum session_state state);

/* What went wrong on the way to a welcome, for people; cut off when it is long. */
void session_trouble_note(struct session *session, const char *text);

#endif
