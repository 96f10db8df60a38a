/*
 * fake_broker.h - a broker of the test's own: a ROUTER on a thread that answers as it is told and counts what it hears.
 *
 * It echoes: a job's inputs come back as its outputs. What it does wrong on request is what clients must survive.
 * Threads: start, stop, set and see from the test; the ROUTER lives on the fake's thread.
 */
#ifndef FAKE_BROKER_H
#define FAKE_BROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"

#define FAKE_ENDPOINT_BYTES 64

/* All zero: an honest broker. */
struct fake_behaviour {
    bool mute;                  /* hears, answers nothing at all */
    bool frozen;                /* reads nothing: what is sent to it fills the kernel and stays with the sender */
    bool hold;                  /* takes jobs, does not answer them (until told otherwise) */
    bool forget;                /* answers the next SUBMIT with RESUME instead, once */
    unsigned extra_results;     /* sends each result this many times more */
    unsigned garbage;           /* malformed messages before each answer */
    unsigned mutants;           /* copies of each answer with some bits flipped, before it */
    unsigned delay_us;          /* before each result */
    unsigned hello_delay_us;    /* before each welcome: it answers one hello after the other */
    enum pen_status job_status; /* of results */
    enum pen_status hello_status;
    uint8_t major;                      /* of the welcome's envelope; 0 = ours */
    bool knows_needs;                   /* of jobs: flags of workers */
    bool first_minor;                   /* the welcome is one of version 1.0 */
    uint64_t heartbeat_us, liveness_us; /* 0 = 100 ms, 20 s: a busy machine is not silence */
    uint64_t max_job_bytes;
    uint32_t digest_kind;
    bool control_mute;
    bool leaving;         /* tells every client that it drains */
    const char *redirect; /* its welcome sends clients there that have followed none; NULL = it sends nobody away */
    bool sends_always;    /* all of them, as no broker does */
    const char *gives_to; /* answers each SUBMIT with a RESUME that sends its client there */
    bool packs;           /* takes PACKs, and answers what came in one with one */
};

struct fake_seen {
    unsigned hellos, submits, resents, cancels, acks, pings, goodbyes, controls, results_sent;
    unsigned packs, packed; /* PACKs that came, and messages in them */
    unsigned pack_bytes;    /* of the last hello */
    unsigned frozen_turns;  /* of its loop, in which it read nothing */
    uint64_t acknowledged;  /* highest */
    struct envelope last_submit;
    char model[64], tenant[64], backend[64], verb[64], argument[64], hello_name[64];
    unsigned inputs, outputs, parameters, tags, needs;
    uint64_t version, grace_us;
    uint64_t sequence_after[16]; /* by the low bits of the job's number */
    char traceparent[64];
    bool explain, debug;
    bool follows; /* of the last hello, as the next */
    unsigned followed;
};

struct fake_broker;

/* endpoint: NULL = a free loopback port. */
struct fake_broker *fake_start(const char *endpoint, struct fake_behaviour behaviour);
const char *fake_endpoint(const struct fake_broker *fake);
void fake_set(struct fake_broker *fake, struct fake_behaviour behaviour);
struct fake_seen fake_see(struct fake_broker *fake);
void fake_stop(struct fake_broker *fake); /* as kill -9 would: no word to anybody */

/* Waits up to 5 s until the counter, a member of fake_seen at `offset`, is at least `least`. */
bool fake_wait(struct fake_broker *fake, size_t offset, unsigned least);
#define FAKE_WAIT(fake, member, least) fake_wait(fake, offsetof(struct fake_seen, member), least)

#endif
