#include "play_broker.h"

#include "deadline.h"
#include "job_meta.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define CLIENT 0x1234567812345678u

/* ---- process ----------------------------------------------------------------------------------------------------------------------- */

void play_open(struct play *play)
{
    size_t bytes = sizeof play->endpoint;
    int none = 0;
    memset(play, 0, sizeof *play);
    play->context = zmq_ctx_new();
    play->router = zmq_socket(play->context, ZMQ_ROUTER);
    cr_assert_not_null(play->router);
    zmq_setsockopt(play->router, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(play->router, ZMQ_SNDHWM, &none, sizeof none);
    cr_assert(zmq_bind(play->router, "tcp://127.0.0.1:*") == 0);
    cr_assert(zmq_getsockopt(play->router, ZMQ_LAST_ENDPOINT, play->endpoint, &bytes) == 0);
    zmq_msg_init(&play->peer);
    meta_arena_init(&play->arena, 16u << 20);
    snprintf(play->log_path, sizeof play->log_path, "/tmp/penstock-worker-log-XXXXXX");
    int fd = mkstemp(play->log_path);
    cr_assert(fd >= 0);
    close(fd);
}

void play_start(struct play *play, const char *const *arguments)
{
    char brokers[1024];
    char *argv[64] = {(char[]){PENSTOCK_BIN "/penstock-worker"}, (char[]){"--broker"}, brokers};
    snprintf(brokers, sizeof brokers, "%s%s%s", play->endpoint, play->also ? "," : "", play->also ? play->also : "");
    posix_spawn_file_actions_t actions;
    size_t count = 3;
    for (; arguments && *arguments && count < 63; arguments++)
        argv[count++] = strdup(*arguments);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, play->log_path, O_WRONLY | O_APPEND, 0600);
    cr_assert(posix_spawn(&play->pid, argv[0], &actions, NULL, argv, environ) == 0, "cannot start %s", argv[0]);
    posix_spawn_file_actions_destroy(&actions);
    for (size_t i = 3; i < count; i++)
        free(argv[i]);
}

int play_exit_code(struct play *play, int wait_ms)
{
    int status = 0;
    for (; wait_ms >= 0; wait_ms -= 2, usleep(2000)) {
        if (waitpid(play->pid, &status, WNOHANG) != play->pid)
            continue;
        play->pid = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    }
    return -1;
}

void play_close(struct play *play)
{
    if (play->pid > 0) {
        kill(play->pid, SIGKILL);
        waitpid(play->pid, NULL, 0);
    }
    zmq_msg_close(&play->peer);
    zmq_close(play->router);
    zmq_ctx_term(play->context);
    meta_arena_fini(&play->arena);
    unlink(play->log_path);
}

const char *play_log(struct play *play)
{
    FILE *file = fopen(play->log_path, "r");
    cr_assert_not_null(file);
    size_t bytes = fread(play->log, 1, sizeof play->log - 1, file);
    play->log[bytes] = '\0';
    fclose(file);
    return play->log;
}

bool play_logged(struct play *play, const char *part)
{
    for (int waited = 0; waited < PLAY_WAIT_MS; waited += 5) {
        if (strstr(play_log(play), part))
            return true;
        struct timespec wait = {.tv_nsec = 5000000};
        nanosleep(&wait, NULL);
    }
    return false;
}

/* ---- messages ---------------------------------------------------------------------------------------------------------------------- */

void play_message_fini(struct play_message *message)
{
    while (message->count > 0)
        zmq_msg_close(&message->frames[--message->count]);
}

bool play_receive(struct play *play, struct play_message *message, int wait_ms)
{
    zmq_pollitem_t item = {.socket = play->router, .events = ZMQ_POLLIN};
    play_message_fini(message);
    if (zmq_poll(&item, 1, wait_ms) <= 0)
        return false;
    cr_assert(zmq_msg_recv(&play->peer, play->router, 0) >= 0);
    for (int more = 1; more; message->count++) {
        cr_assert(message->count < PLAY_FRAMES_MAX);
        zmq_msg_t *frame = &message->frames[message->count];
        zmq_msg_init(frame);
        cr_assert(zmq_msg_recv(frame, play->router, 0) >= 0);
        more = zmq_msg_more(frame);
    }
    struct pen_error error = {0};
    cr_assert(envelope_decode(zmq_msg_data(&message->frames[0]), zmq_msg_size(&message->frames[0]), &message->env,
                              &message->meta, &error) == PEN_OK,
              "%s", error.text);
    return true;
}

void play_expect(struct play *play, enum frame_type type, struct play_message *message)
{
    do
        cr_assert(play_receive(play, message, PLAY_WAIT_MS), "no %s came; log:\n%s", frame_type_name((uint8_t)type),
                  play_log(play));
    while ((message->env.type == FRAME_HEARTBEAT && type != FRAME_HEARTBEAT) ||
           (play->skips_updates && message->env.type == FRAME_WORKER_UPDATE));
    cr_assert(message->env.type == type, "%s came instead of %s; log:\n%s", frame_type_name(message->env.type),
              frame_type_name((uint8_t)type), play_log(play));
}

void play_send_identity(struct play *play)
{
    cr_assert(zmq_send(play->router, zmq_msg_data(&play->peer), zmq_msg_size(&play->peer), ZMQ_SNDMORE) >= 0);
}

void play_send_raw(struct play *play, const void *bytes, size_t size, bool more)
{
    cr_assert(zmq_send(play->router, bytes, size, more ? ZMQ_SNDMORE : 0) >= 0);
}

static void send_header(struct play *play, const struct envelope *env, const void *meta, size_t meta_bytes, bool more)
{
    struct envelope copy = *env;
    uint8_t *bytes = malloc(FRAME_ENVELOPE_BYTES + meta_bytes);
    cr_assert_not_null(bytes);
    copy.meta_bytes = (uint32_t)meta_bytes;
    envelope_encode(&copy, bytes);
    if (meta_bytes)
        memcpy(bytes + FRAME_ENVELOPE_BYTES, meta, meta_bytes);
    play_send_raw(play, bytes, FRAME_ENVELOPE_BYTES + meta_bytes, more);
    free(bytes);
}

void play_send(struct play *play, const struct envelope *env, const void *meta, size_t meta_bytes)
{
    play_send_identity(play);
    send_header(play, env, meta, meta_bytes, false);
}

void play_send_type(struct play *play, enum frame_type type)
{
    struct envelope env = envelope_make(type);
    play_send(play, &env, NULL, 0);
}

void play_send_welcome(struct play *play, enum pen_status status, const char *error, uint64_t heartbeat_us,
                       uint64_t liveness_us, uint64_t max_frame_bytes)
{
    Penstock__Welcome welcome = PENSTOCK__WELCOME__INIT;
    struct envelope env = envelope_make(FRAME_WELCOME);
    char text[256];
    uint8_t bytes[512];
    snprintf(text, sizeof text, "%s", error ? error : "");
    env.status = (uint8_t)status;
    welcome.error = text;
    welcome.heartbeat_us = heartbeat_us;
    welcome.liveness_us = liveness_us;
    welcome.max_frame_bytes = max_frame_bytes;
    welcome.pack_bytes = play->pack_bytes;
    welcome.broker_uuid = (uint64_t)(uintptr_t)play->router; /* another for each play */
    play_send(play, &env, bytes, penstock__welcome__pack(&welcome, bytes));
}

Penstock__WorkerHello *play_hello(struct play *play, struct play_message *message)
{
    play_expect(play, FRAME_WORKER_HELLO, message);
    meta_arena_reset(&play->arena);
    Penstock__WorkerHello *hello =
        meta_unpack(&play->arena, &penstock__worker_hello__descriptor, message->meta, message->env.meta_bytes);
    cr_assert_not_null(hello);
    return hello;
}

Penstock__WorkerHello *play_serve(struct play *play, struct play_message *message)
{
    Penstock__WorkerHello *hello = play_hello(play, message);
    play_send_welcome(play, PEN_OK, NULL, 1000000, 30000000, 0);
    return hello;
}

/* ---- jobs -------------------------------------------------------------------------------------------------------------------------- */

static char *unconst(const char *text)
{
    char *pointer;
    memcpy(&pointer, &text, sizeof pointer);
    return pointer;
}

static void send_job(struct play *play, struct play_job *job, bool more)
{
    Penstock__TensorDesc desc, *descs[1];
    Penstock__Parameter parameter = PENSTOCK__PARAMETER__INIT, *parameters[1] = {&parameter};
    Penstock__JobMeta meta = PENSTOCK__JOB_META__INIT;
    struct envelope env = envelope_make(FRAME_SUBMIT);
    char *outputs[1] = {unconst(job->output)};
    uint32_t order[1];
    size_t raw = 0;
    tensors_encode(&job->input, 1, &desc, descs, order, &raw);
    meta.model = unconst(job->model ? job->model : "digits");
    meta.version = job->version;
    meta.inputs = descs;
    meta.n_inputs = 1;
    meta.outputs = outputs;
    meta.n_outputs = job->output ? 1 : 0;
    parameter.name = unconst("labels");
    parameter.value_case = PENSTOCK__PARAMETER__VALUE_INTEGER;
    parameter.integer = job->labels;
    meta.parameters = parameters;
    meta.n_parameters = job->labels ? 1 : 0;
    meta.top_k = job->top_k;
    if (job->flags & FRAME_FLAG_DIGEST) {
        struct meta_arena arena;
        meta_arena_init(&arena, 1u << 16);
        enum digest_kind kind = job->flags & FRAME_FLAG_DIGEST_SHA256 ? DIGEST_SHA256 : DIGEST_XXH3;
        cr_assert(job_meta_digest(kind, &meta, &job->input, &arena, &job->digest) == PEN_OK);
        meta_arena_fini(&arena);
    }
    env.job = (struct job_id){.client = CLIENT, .sequence = job->sequence};
    env.flags = job->flags;
    env.digest = job->digest;
    env.deadline_us = job->deadline_us;
    env.frames = (uint8_t)raw;
    size_t bytes = penstock__job_meta__get_packed_size(&meta);
    uint8_t *packed = malloc(bytes + 1);
    cr_assert_not_null(packed);
    penstock__job_meta__pack(&meta, packed);
    send_header(play, &env, packed, bytes, more || raw > 0);
    if (raw > 0)
        play_send_raw(play, job->input.data, job->input.bytes, more);
    free(packed);
}

void play_submit(struct play *play, struct play_job *jobs, size_t count)
{
    play_send_identity(play);
    for (size_t i = 0; i < count; i++)
        send_job(play, &jobs[i], i + 1 < count);
}

void play_cancel(struct play *play, uint64_t sequence)
{
    struct envelope env = envelope_make(FRAME_CANCEL);
    env.job = (struct job_id){.client = CLIENT, .sequence = sequence};
    play_send(play, &env, NULL, 0);
}

static void result_fill(struct play *play, const struct envelope *env, const uint8_t *bytes, struct play_result *result)
{
    meta_arena_reset(&play->arena);
    const Penstock__ResultMeta *meta =
        meta_unpack(&play->arena, &penstock__result_meta__descriptor, bytes, env->meta_bytes);
    cr_assert_not_null(meta);
    *result = (struct play_result){.env = *env, .batch_size = meta->batch_size, .labels = meta->n_labels};
    snprintf(result->error, sizeof result->error, "%s", meta->error);
    snprintf(result->backend, sizeof result->backend, "%s", meta->backend);
    snprintf(result->label, sizeof result->label, "%s", meta->n_labels ? meta->labels[0] : "");
    result->outputs = meta->n_outputs;
    result->annotations = meta->n_annotations;
    for (size_t i = 0; i < meta->n_annotations && i < 16; i++)
        result->best[i] = meta->annotations[i]->classes[0]->index;
    if (meta->n_outputs == 0)
        return;
    const Penstock__TensorDesc *output = meta->outputs[0];
    result->rows = output->n_dims ? output->dims[0] : 0;
    result->scores_bytes = output->data.len;
    if (output->data.len > 0)
        memcpy(result->scores, output->data.data,
               output->data.len < sizeof result->scores ? output->data.len : sizeof result->scores);
}

void play_results(struct play *play, struct play_result *results, size_t count)
{
    static struct play_message message;
    size_t got = 0;
    while (got < count) {
        play_expect(play, FRAME_RESULT, &message);
        for (size_t at = 0; at < message.count;) {
            struct envelope env;
            const uint8_t *meta;
            zmq_msg_t *frame = &message.frames[at];
            cr_assert(envelope_decode(zmq_msg_data(frame), zmq_msg_size(frame), &env, &meta, NULL) == PEN_OK);
            cr_assert(env.type == FRAME_RESULT && got < count);
            cr_assert(env.job.client == CLIENT);
            result_fill(play, &env, meta, &results[got++]);
            at += 1u + env.frames;
        }
    }
    play_message_fini(&message);
}

/* ---- digits ------------------------------------------------------------------------------------------------------------------------ */

/* The array behind a .npy header of version 1. */
static const uint8_t *npy(const char *name)
{
    char path[512];
    uint8_t *bytes = malloc(1u << 20);
    snprintf(path, sizeof path, "%s/digits/testset/%s", PLAY_DIGITS, name);
    FILE *file = fopen(path, "rb");
    cr_assert(file && bytes, "cannot open %s", path);
    cr_assert(fread(bytes, 1, 1u << 20, file) > 128);
    fclose(file);
    return bytes + 10 + (size_t)(bytes[8] | bytes[9] << 8);
}

const uint8_t *play_digit(size_t index)
{
    static const uint8_t *images;
    if (!images)
        images = npy("images.npy");
    return images + index * 64;
}

int play_digit_class(size_t index)
{
    static const uint8_t *classes;
    if (!classes)
        classes = npy("labels.npy");
    return classes[index];
}

struct pen_tensor play_digit_tensor(size_t index, int64_t rows)
{
    return (struct pen_tensor){.name = "image",
                               .dtype = PEN_DTYPE_U8,
                               .rank = 4,
                               .dims = {rows, 8, 8, 1},
                               .data = play_digit(index),
                               .bytes = (size_t)rows * 64};
}

static void page_read(struct play *play, char *page, size_t room)
{
    const char *at = play_logged(play, "evt=metrics address=") ? strstr(play_log(play), "evt=metrics address=") : NULL;
    unsigned port = 0;
    cr_assert(at && sscanf(strchr(at + 20, ':'), ":%u", &port) == 1, "%s", play_log(play));
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0);
    cr_assert(write(fd, request, sizeof request - 1) == (ssize_t)sizeof request - 1);
    size_t used = 0;
    for (ssize_t got = 1; got > 0 && used < room - 1;) {
        got = read(fd, page + used, room - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    }
    page[used] = '\0';
    close(fd);
}

long play_metric(struct play *play, const char *name)
{
    static char page[65536];
    char line[128];
    long value = -1;
    page_read(play, page, sizeof page);
    snprintf(line, sizeof line, "\npenstock_worker_%s ", name);
    const char *at = strstr(page, line);
    cr_assert(at && sscanf(at + strlen(line), "%ld", &value) == 1, "no %s in\n%s", name, page);
    return value;
}
