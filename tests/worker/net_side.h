/*
 * net_side.h - the worker's network side in the test itself: links to brokers that the test plays on inproc sockets, with a clock of the test's own.
 *
 * Threads: owner. Failures end the test with a message.
 */
#ifndef NET_SIDE_H
#define NET_SIDE_H

#include "messages.h"
#include "one_slot.h"
#include "tensor_codec.h"

#define NET_BROKERS    2
#define NET_FRAMES_MAX 16
#define NET_START_US   1000000000u

struct net_message {
    zmq_msg_t frames[NET_FRAMES_MAX];
    size_t count;
    struct envelope env;
    const uint8_t *meta;
    struct meta_arena arena;
};

extern struct serve net_serve;
extern struct brokers net_brokers;
extern struct options net_options;
extern struct net_message net_got; /* the last that came */
extern struct stats net_stats;
extern uint64_t net_now_us; /* the test's clock */

/* Links to `brokers` brokers, not connected yet. Models lie in one_slot_root: none. */
void net_open(size_t brokers);
void net_close(void);

/* The redirected log tells of nothing that could not be sent. In a test's body: a failure in its end does not count. */
void net_log_clean(void);

/* The next message to broker `i`, which must be there. */
void net_expect(size_t i, enum frame_type type);
void net_silent(size_t i); /* nothing has come to broker `i` */
/* The meta of what came, unpacked. */
void *net_meta(const ProtobufCMessageDescriptor *descriptor);

/* From broker `i` on the connection it heard from last. meta: NULL = none. */
void net_send(size_t i, const struct envelope *env, const ProtobufCMessage *meta);
/* One message with these groups. */
void net_send_groups(size_t i, const struct envelope *envs, const ProtobufCMessage *const *metas, size_t count);
void net_send_bytes(size_t i, const void *bytes, size_t size);
void net_send_type(size_t i, enum frame_type type);
/* With this raw frame, on the bulk connection. */
void net_send_bulk(size_t i, const struct envelope *env, const void *bytes, size_t size);
void net_welcome(size_t i, uint64_t uuid, enum pen_status status, const char *error);
/* Connects the link, says welcome with `uuid`, and takes the messages in. */
void net_serve_link(size_t i, uint64_t uuid);

/* A dispatch of `jobs` jobs (numbers first, first + 1 ...) with these flags. */
void net_submit(size_t i, uint64_t first, size_t jobs, uint16_t flags);
/* A reply of one job whose frames have `bytes` in all. */
struct reply *net_reply(uint64_t sequence, size_t bytes);
/* The jobs that the last message answers, and its status. */
void net_answered(size_t i, uint64_t sequence, enum pen_status status, const char *part);

#endif
