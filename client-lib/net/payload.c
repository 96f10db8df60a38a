#include "payload.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "assertion.h"
#include "sealed.h"

struct payload {
    atomic_uint references;
    void (*release)(void *arg);
    void *release_arg;
    struct sealed *block; /* NULL: none */
    unsigned char bytes[];
};

struct payload *payload_new(size_t copy_bytes, void (*release)(void *arg), void *release_arg)
{
    if (copy_bytes > SIZE_MAX - sizeof(struct payload)) {
        return NULL;
    }
    struct payload *payload = malloc(sizeof *payload + copy_bytes);
    if (payload) {
        atomic_init(&payload->references, 1);
        payload->release = release;
        payload->release_arg = release_arg;
        payload->block = NULL;
    }
    return payload;
}

unsigned char *payload_copy(struct payload *payload)
{
    return payload->bytes;
}

struct payload *payload_retain(struct payload *payload)
{
    if (payload) {
        atomic_fetch_add_explicit(&payload->references, 1, memory_order_relaxed);
    }
    return payload;
}

void payload_drop(struct payload *payload)
{
    unsigned held = payload ? atomic_fetch_sub_explicit(&payload->references, 1, memory_order_acq_rel) : 0;
    PEN_ASSERT(!payload || held > 0, "a payload is given back only by who holds it");
    if (held == 1) {
        if (payload->release) {
            payload->release(payload->release_arg);
        }
        sealed_release(payload->block);
        free(payload);
    }
}

void payload_seal(struct payload *payload, struct sealed *block)
{
    PEN_ASSERT(!payload->block, "a payload lies in one block");
    payload->block = block;
}

struct sealed *payload_sealed(const struct payload *payload)
{
    return payload ? payload->block : NULL;
}

bool payload_alone(const struct payload *payload)
{
    return atomic_load_explicit(&payload->references, memory_order_acquire) == 1;
}

/* ZeroMQ's free function: on its I/O thread, once the bytes are in the kernel or the socket is gone. */
static void unlend(void *data, void *hint)
{
    (void)data;
    payload_drop(hint);
}

int payload_lend(struct payload *payload, const void *data, size_t bytes, zmq_msg_t *msg)
{
    payload_retain(payload);
    if (zmq_msg_init_data(msg, (void *)(uintptr_t)data, bytes, unlend, payload) != 0) {
        payload_drop(payload);
        return -1;
    }
    return 0;
}

void payload_forget_release(struct payload *payload)
{
    if (payload) {
        payload->release = NULL;
    }
}
