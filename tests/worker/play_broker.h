/*
 * play_broker.h - the test plays the broker: a ROUTER, and the real penstock-worker as its child.
 *
 * Threads: one-at-a-time.
 */
#ifndef PLAY_BROKER_H
#define PLAY_BROKER_H

#include <sys/types.h>
#include <zmq.h>

#include "frame.h"
#include "job.pb-c.h"
#include "penstock/tensor.h"
#include "tensor_codec.h"
#include "worker.pb-c.h"

#define PLAY_DIGITS    PENSTOCK_SOURCE "/deploy/models"
#define PLAY_WAIT_MS   20000
#define PLAY_LOG_BYTES 65536

struct play {
    uint32_t pack_bytes; /* the largest PACK that its welcomes allow; 0: none, as brokers before 1.2 */
    bool skips_updates;  /* play_expect passes over WORKER_UPDATEs that come meanwhile, as over heartbeats */
    void *context, *router;
    char endpoint[128];
    const char *also; /* more brokers for --broker, separated by commas; NULL = none */
    pid_t pid;
    zmq_msg_t peer; /* identity of the last message's sender */
    char log_path[64];
    char log[PLAY_LOG_BYTES];
    struct meta_arena arena; /* of what was received last */
};

/* A received message: frames[0..count) without the identity. Valid until the next play_receive. */
#define PLAY_FRAMES_MAX 512
struct play_message {
    zmq_msg_t frames[PLAY_FRAMES_MAX];
    size_t count;
    struct envelope env;
    const uint8_t *meta;
};

void play_open(struct play *play);
/* Starts the worker with --broker and these arguments (NULL-terminated). */
void play_start(struct play *play, const char *const *arguments);
/* Ends what still runs and frees all. */
void play_close(struct play *play);
/* The exit code, -1 when it still runs after `wait_ms`, 1000 + signal when it was killed. */
int play_exit_code(struct play *play, int wait_ms);
const char *play_log(struct play *play); /* all that the worker has written to stderr so far */
long play_metric(
    struct play *play,
    const char *name); /* penstock_worker_NAME of /metrics now; it was started with --metrics 127.0.0.1:0 */
bool play_logged(struct play *play, const char *part); /* waits until the log holds it; false after PLAY_WAIT_MS */

/* False: nothing came in time. */
bool play_receive(struct play *play, struct play_message *message, int wait_ms);
void play_message_fini(struct play_message *message);
/* Waits for a message of the type, passing over heartbeats (unless wanted); the test fails when another comes. */
void play_expect(struct play *play, enum frame_type type, struct play_message *message);

void play_send_raw(struct play *play, const void *bytes, size_t size, bool more);
void play_send_identity(struct play *play);
void play_send(struct play *play, const struct envelope *env, const void *meta, size_t meta_bytes);
void play_send_type(struct play *play, enum frame_type type);
void play_send_welcome(struct play *play, enum pen_status status, const char *error, uint64_t heartbeat_us,
                       uint64_t liveness_us, uint64_t max_frame_bytes);
/* Receives the hello, answers it; the unpacked hello is valid until the next receive. */
Penstock__WorkerHello *play_hello(struct play *play, struct play_message *message);
Penstock__WorkerHello *play_serve(struct play *play, struct play_message *message);

/* One job of a dispatch. */
struct play_job {
    uint64_t sequence;
    const char *model;
    uint64_t version;
    struct pen_tensor input;
    uint64_t deadline_us;
    int64_t labels; /* parameter, 0 = none */
    uint32_t top_k;
    const char *output; /* wanted output, NULL = all */
    uint16_t flags;
    struct digest digest; /* filled by play_submit when a digest flag is set */
};
void play_submit(struct play *play, struct play_job *jobs, size_t count);
void play_cancel(struct play *play, uint64_t sequence);

/* One result, taken out of a RESULT message. */
struct play_result {
    struct envelope env;
    uint64_t batch_size;
    char error[512], backend[32], label[64];
    size_t labels, outputs;
    size_t annotations;
    uint32_t best[16]; /* class of each annotation */
    float scores[64];
    size_t scores_bytes;
    int64_t rows;
};
/* Collects `count` results (by arrival) from as many messages as it takes. */
void play_results(struct play *play, struct play_result *results, size_t count);

/* The digits test split: image `index` as u8 [1, 8, 8, 1] and its class. */
const uint8_t *play_digit(size_t index);
int play_digit_class(size_t index);
struct pen_tensor play_digit_tensor(size_t index, int64_t rows);

#endif
