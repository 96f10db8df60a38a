#include "redis_mail.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "digest.h"
#include "frame.h"

#if defined(__SANITIZE_THREAD__)
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#else
#define __tsan_acquire(address) ((void)(address))
#define __tsan_release(address) ((void)(address))
#endif

#define MAGIC       0x31565350u /* "PSV1" */
#define DIGEST_SIZE 16u

struct redis_mail *redis_mail_new(enum redis_mail_kind kind)
{
    struct redis_mail *mail = calloc(1, sizeof *mail);
    if (mail)
        mail->kind = kind;
    return mail;
}

void redis_mail_free(struct redis_mail *mail)
{
    if (!mail)
        return;
    shared_message_release(mail->shared);
    free(mail);
}

bool redis_mail_send(void *socket, struct redis_mail *mail)
{
    __tsan_release(mail); /* libzmq is not instrumented: the hand-over must be told */
    if (zmq_send(socket, &mail, sizeof mail, ZMQ_DONTWAIT) == (int)sizeof mail)
        return true;
    redis_mail_free(mail);
    return false;
}

struct redis_mail *redis_mail_receive(void *socket)
{
    struct redis_mail *mail;
    if (zmq_recv(socket, &mail, sizeof mail, ZMQ_DONTWAIT) != (int)sizeof mail)
        return NULL;
    __tsan_acquire(mail);
    return mail;
}

static struct digest digest_of(const uint8_t *bytes, size_t size)
{
    struct digest digest = {{0}};
    struct digest_stream *stream = digest_new(DIGEST_XXH3);
    if (!stream)
        return digest;
    digest_update(stream, bytes, size);
    digest = digest_final(stream);
    digest_free(stream);
    return digest;
}

uint8_t *value_encode(const struct shared_message *shared, size_t *ret_bytes)
{
    size_t size = 8 + 8u * shared->count + shared_message_bytes(shared) + DIGEST_SIZE;
    uint8_t *bytes = malloc(size), *at = bytes;
    if (!bytes)
        return NULL;
    uint32_t head[2] = {htole32(MAGIC), htole32(shared->count)};
    memcpy(at, head, sizeof head);
    at += sizeof head;
    for (uint32_t i = 0; i < shared->count; i++, at += 8) {
        uint64_t frame_bytes = htole64(zmq_msg_size(&shared->frames[i]));
        memcpy(at, &frame_bytes, 8);
    }
    for (uint32_t i = 0; i < shared->count; i++) {
        zmq_msg_t *frame = (zmq_msg_t *)(uintptr_t)&shared->frames[i];
        memcpy(at, zmq_msg_data(frame), zmq_msg_size(frame));
        at += zmq_msg_size(frame);
    }
    struct digest digest = digest_of(bytes, (size_t)(at - bytes));
    PEN_ASSERT((size_t)(at - bytes) + DIGEST_SIZE == size, "a message for Redis is as long as its parts");
    memcpy(at, digest.bytes, DIGEST_SIZE);
    *ret_bytes = (size_t)(at - bytes) + DIGEST_SIZE;
    return bytes;
}

static bool read_frame(struct shared_message *shared, uint32_t index, const uint8_t *data, size_t size)
{
    uint8_t *to = shared_message_make(shared, index, size);
    if (to)
        memcpy(to, data, size);
    return to != NULL;
}

struct shared_message *value_decode(const uint8_t *bytes, size_t size)
{
    uint32_t head[2];
    if (size < sizeof head + DIGEST_SIZE)
        return NULL;
    size_t left = size - DIGEST_SIZE;
    struct digest digest = digest_of(bytes, left);
    memcpy(head, bytes, sizeof head);
    uint32_t count = le32toh(head[1]);
    if (memcmp(digest.bytes, bytes + left, DIGEST_SIZE) != 0 || le32toh(head[0]) != MAGIC || count == 0 ||
        count > FRAME_MAX_TENSORS + 1 || left < 8 + 8u * count)
        return NULL;
    struct shared_message *shared = shared_message_new(count);
    const uint8_t *at = bytes + 8 + 8u * count, *end = bytes + left;
    for (uint32_t i = 0; shared && i < count; i++) {
        uint64_t frame_bytes;
        memcpy(&frame_bytes, bytes + 8 + 8u * i, 8);
        frame_bytes = le64toh(frame_bytes);
        if (frame_bytes > (uint64_t)(end - at) || !read_frame(shared, i, at, (size_t)frame_bytes)) {
            shared_message_release(shared);
            return NULL;
        }
        at += frame_bytes;
    }
    return shared;
}
