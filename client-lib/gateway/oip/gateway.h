/*
 * gateway.h - what all calls of the gateway share, and one call on its way.
 *
 * A call is answered on the loop's thread. What must ask the broker, or computes for long, does so on a thread of an offload in between; its peer may have
 * gone when it comes back.
 * Threads: owner - the loop's, but for `work` of a call.
 */
#ifndef GATEWAY_H
#define GATEWAY_H

#include "grpc_server.h"
#include "http_server.h"
#include "inference.h"
#include "offload.h"
#include "session_pool.h"
#include "tokens.h"
#include "trace_rules.h"
#include "usage.h"

#define CALL_KINDS 24

enum call_place {
    ON_LOOP,
    ON_QUESTION,
    ON_ORDER
}; /* which thread answers: the loop's; one that may wait; one for load and unload */

struct gateway {
    struct http_server *server;
    struct grpc_server *grpc;   /* NULL: off */
    struct grpc_watch *watches; /* who is told when the gateway's health changes; all end with `grpc` */
    struct session_pool *sessions;
    struct gateway_session *own; /* of --key: health, and everybody where there are no tokens */
    struct tokens *tokens;       /* NULL: nobody is asked for one */
    struct usage *usage;
    struct trace_rules *traces;
    struct offload *compute, *questions, *orders;
    const char *cors; /* origin that browsers may call from; "" = none */
    bool local_only;  /* listens on loopback: the Host must say so, too */
    bool draining;
    size_t body_max;
    int64_t order_us;    /* for load and unload */
    uint64_t refresh_us; /* age of a listing that is still used */
    uint64_t started_us;
    bool refreshing;                 /* the own session's listing */
    uint64_t answers[CALL_KINDS][6]; /* by row of the table of calls and the first digit of the status */
    uint64_t grpc_answers[CALL_KINDS][GRPC_CODES];
    uint64_t cancelled;  /* requests whose peer hung up */
    unsigned inferences; /* under way */
};

/* What a call's path says. Texts are the call's own. */
#define CALL_NAME_BYTES 256
struct call;

typedef enum pen_status call_answer(struct call *call, struct pen_error *reterr);

struct call {
    struct offload_task task; /* the first member */
    struct gateway *gateway;
    struct http_request *request; /* NULL: the peer has gone */
    struct gateway_session *session;
    bool may_set; /* the gateway's own settings */
    bool local;
    unsigned kind;       /* row of the table of calls */
    call_answer *answer; /* fills text */
    char model[CALL_NAME_BYTES], version[64], region[CALL_NAME_BYTES];
    struct hold *hold;
    const char *body; /* [body_bytes], in the hold */
    size_t body_bytes;
    struct bytes text;
    const char *type;    /* of the text */
    const char *headers; /* more lines, each with its end; NULL = none */
    enum pen_status status;
    struct pen_error error;
};

/*
 * The session that an Authorization header stands for ("" or NULL: there is none), and whether it may change the gateway's own settings.
 * DENIED: nobody's token; UNAVAILABLE: the broker cannot be reached with its key. Both with a sentence.
 */
enum pen_status gateway_find_session(struct gateway *gateway, const char *authorization,
                                     struct gateway_session **ret_session, bool *ret_may_set, struct pen_error *reterr);

unsigned http_status_of(enum pen_status status);

/* Counts the answer and sends it with the headers that all have. A 200 has answer->text; others are told by call_fail. */
void gateway_answer(struct gateway *gateway, unsigned kind, struct http_request *request, struct http_answer *answer);
void gateway_fail(struct gateway *gateway, unsigned kind, struct http_request *request, unsigned status,
                  const char *text);

/* The listing of a session for a call on a thread that may wait. */
enum pen_status call_listing(struct call *call, const struct listing **ret_listing, struct pen_error *reterr);
/* The model that the path names, in that listing; NOT_FOUND with a sentence. */
enum pen_status call_model(const struct call *call, const struct listing *listing, const struct pen_model **ret_model,
                           struct pen_error *reterr);

#endif
