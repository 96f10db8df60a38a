/*
 * redis_mail.h - messages between the broker's thread and the Redis thread: one malloc'd mail each, whose pointer is
 * sent over an inproc PAIR; the receiver owns it. Threads: any.
 */
#ifndef REDIS_MAIL_H
#define REDIS_MAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "cache_key.h"
#include "redis_node.h"
#include "shared_message.h"

#define REDIS_KEY_BYTES  320u
#define REDIS_TEXT_BYTES 96u

enum redis_mail_kind {
    REDIS_MAIL_GET,    /* owner -> thread: question, key */
    REDIS_MAIL_PUT,    /* owner -> thread: key, message */
    REDIS_MAIL_CHECK,  /* owner -> thread: is Redis there? */
    REDIS_MAIL_STOP,   /* owner -> thread: end */
    REDIS_MAIL_ANSWER, /* thread -> owner: question, message or NULL; failed: Redis did not answer at all */
    REDIS_MAIL_STORED, /* thread -> owner: bytes of a PUT that the thread has finished */
    REDIS_MAIL_STATE,  /* thread -> owner: up or not, text */
};

struct redis_mail {
    enum redis_mail_kind kind;
    uint64_t question;
    struct shared_message *shared;
    size_t bytes;
    bool up, failed;
    char text[REDIS_TEXT_BYTES];
    char key[REDIS_KEY_BYTES];
    struct cache_key about;     /* the key whose text is in `key` */
    struct redis_question link; /* of the thread, as is the next one */
    unsigned hops;              /* redirections so far */
};

struct redis_mail *redis_mail_new(enum redis_mail_kind kind); /* NULL without memory */
void redis_mail_free(struct redis_mail *mail);                /* with its message; NULL is fine */
bool redis_mail_send(void *socket, struct redis_mail *mail);  /* takes it; false: it was freed */
struct redis_mail *redis_mail_receive(void *socket);          /* gives it; NULL = none there */

/* A value as Redis holds it: magic, frame count and sizes, the frames, a digest over all. */
uint8_t *value_encode(const struct shared_message *shared, size_t *ret_bytes); /* malloc'd; NULL without memory */
struct shared_message *value_decode(const uint8_t *bytes, size_t size);        /* NULL when broken */

#endif
