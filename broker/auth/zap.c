#include "zap.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "logline.h"

#define ZAP_ENDPOINT "inproc://zeromq.zap.01"
#define FRAMES       7u /* version, request id, domain, address, identity, mechanism, key */
#define FRAME_MAX    256u

struct zap {
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

static bool allowed(struct zap *zap, const struct frame frames[FRAMES], size_t count)
{
    if (count != FRAMES || strcmp(frames[0].data, "1.0") != 0 || strcmp(frames[5].data, "CURVE") != 0 ||
        frames[6].bytes != KEY_BYTES)
        return false;
    return keyring_knows(zap->keyring, (const uint8_t *)frames[6].data);
}

static void answer(struct zap *zap, const struct frame frames[FRAMES], size_t count)
{
    bool good = allowed(zap, frames, count);
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
        zmq_send(zap->socket, reply[i].data, reply[i].bytes, i + 1 < sizeof reply / sizeof reply[0] ? ZMQ_SNDMORE : 0);
}

static void *zap_main(void *arg)
{
    struct zap *zap = arg;
    struct frame frames[FRAMES];
    size_t count;
    while (!atomic_load(&zap->stop)) {
        zmq_pollitem_t item = {.socket = zap->socket, .events = ZMQ_POLLIN};
        if (zmq_poll(&item, 1, 200) > 0 && receive(zap->socket, frames, &count))
            answer(zap, frames, count);
    }
    zmq_close(zap->socket);
    return NULL;
}

enum pen_status zap_start(void *context, struct keyring *keyring, struct zap **ret_zap, struct pen_error *reterr)
{
    int linger = 0;
    struct zap *zap = calloc(1, sizeof *zap);
    if (!zap)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the porter");
    zap->keyring = keyring;
    zap->socket = zmq_socket(context, ZMQ_REP);
    if (!zap->socket || zmq_setsockopt(zap->socket, ZMQ_LINGER, &linger, sizeof linger) != 0 ||
        zmq_bind(zap->socket, ZAP_ENDPOINT) != 0 || pthread_create(&zap->thread, NULL, zap_main, zap) != 0) {
        pen_error_set(reterr, PEN_ERR_IO, "cannot start the porter: %s", zmq_strerror(errno));
        if (zap->socket)
            zmq_close(zap->socket);
        free(zap);
        return PEN_ERR_IO;
    }
    *ret_zap = zap;
    return PEN_OK;
}

void zap_stop(struct zap *zap)
{
    if (!zap)
        return;
    atomic_store(&zap->stop, true);
    pthread_join(zap->thread, NULL);
    free(zap);
}
