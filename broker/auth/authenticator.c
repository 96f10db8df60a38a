#include "authenticator.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "logline.h"

#define AUTHENTICATOR_ENDPOINT "inproc://zeromq.zap.01"
#define FRAMES                 7u /* version, request id, domain, address, identity, mechanism, key */
#define FRAME_MAX              256u

struct authenticator {
    void *socket; /* the thread's, once it runs */
    struct keyring *keyring;
    pthread_t thread;
    atomic_bool stop;
};

struct frame {
    size_t bytes;
    char data[FRAME_MAX];
};

/* True: a whole request. Frames beyond the seventh, or longer than any of ours, make it a bad one. */
static bool receive(void *socket, struct frame frames[FRAMES], size_t *ret_count)
{
    int more = 1;
    size_t size = sizeof more;
    *ret_count = 0;
    while (more) {
        struct frame extra, *frame = *ret_count < FRAMES ? &frames[*ret_count] : &extra;
        int got = zmq_recv(socket, frame->data, FRAME_MAX - 1, 0);
        if (got < 0)
            return false;
        frame->bytes = (size_t)got < FRAME_MAX ? (size_t)got : FRAME_MAX; /* FRAME_MAX: cut */
        frame->data[frame->bytes < FRAME_MAX ? frame->bytes : FRAME_MAX - 1] = '\0';
        (*ret_count)++;
        if (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) != 0)
            return false;
    }
    return true;
}

static bool allowed(struct authenticator *authenticator, const struct frame frames[FRAMES], size_t count)
{
    if (count != FRAMES || strcmp(frames[0].data, "1.0") != 0 || strcmp(frames[5].data, "CURVE") != 0 ||
        frames[6].bytes != KEY_BYTES)
        return false;
    return keyring_knows(authenticator->keyring, (const uint8_t *)frames[6].data);
}

static void answer(struct authenticator *authenticator, const struct frame frames[FRAMES], size_t count)
{
    bool good = allowed(authenticator, frames, count);
    char user[KEY_TEXT_BYTES] = "";
    if (count == FRAMES && frames[6].bytes == KEY_BYTES)
        key_text((const uint8_t *)frames[6].data, user);
    if (!good)
        log_event(LOG_WARN, "key_refused", "door=%s address=%s key=%s", count > 2 ? frames[2].data : "?",
                  count > 3 ? frames[3].data : "?", user);
    const struct {
        const void *data;
        size_t bytes;
    } reply[] = {{"1.0", 3},
                 {count > 1 ? frames[1].data : "", count > 1 && frames[1].bytes < FRAME_MAX ? frames[1].bytes : 0},
                 {good ? "200" : "400", 3},
                 {good ? "OK" : "this key may not come in here", good ? 2 : 29},
                 {user, good ? strlen(user) : 0},
                 {"", 0}};
    for (size_t i = 0; i < sizeof reply / sizeof reply[0]; i++)
        zmq_send(authenticator->socket, reply[i].data, reply[i].bytes,
                 i + 1 < sizeof reply / sizeof reply[0] ? ZMQ_SNDMORE : 0);
}

static void *authenticator_main(void *arg)
{
    struct authenticator *authenticator = arg;
    struct frame frames[FRAMES];
    size_t count;
    while (!atomic_load(&authenticator->stop)) {
        zmq_pollitem_t item = {.socket = authenticator->socket, .events = ZMQ_POLLIN};
        if (zmq_poll(&item, 1, 200) > 0 && receive(authenticator->socket, frames, &count))
            answer(authenticator, frames, count);
    }
    zmq_close(authenticator->socket);
    return NULL;
}

enum pen_status authenticator_start(void *context, struct keyring *keyring, struct authenticator **ret_authenticator,
                                    struct pen_error *reterr)
{
    int linger = 0;
    struct authenticator *authenticator = calloc(1, sizeof *authenticator);
    if (!authenticator)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the thread that checks keys");
    authenticator->keyring = keyring;
    authenticator->socket = zmq_socket(context, ZMQ_REP);
    if (!authenticator->socket || zmq_setsockopt(authenticator->socket, ZMQ_LINGER, &linger, sizeof linger) != 0 ||
        zmq_bind(authenticator->socket, AUTHENTICATOR_ENDPOINT) != 0 ||
        pthread_create(&authenticator->thread, NULL, authenticator_main, authenticator) != 0) {
        pen_error_set(reterr, PEN_ERR_IO, "cannot start the thread that checks keys: %s", zmq_strerror(errno));
        if (authenticator->socket)
            zmq_close(authenticator->socket);
        free(authenticator);
        return PEN_ERR_IO;
    }
    *ret_authenticator = authenticator;
    return PEN_OK;
}

void authenticator_stop(struct authenticator *authenticator)
{
    if (!authenticator)
        return;
    atomic_store(&authenticator->stop, true);
    pthread_join(authenticator->thread, NULL);
    free(authenticator);
}
