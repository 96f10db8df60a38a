/*
 * redis_mail.h - what the broker's thread and the Redis thread hand each other: one malloc'd letter per message, whose pointer crosses an inproc
 * PAIR; the receiver owns it. Threads: any.
 */
#ifndef REDIS_MAIL_H
#define REDIS_MAIL_H

#include <stdbool.h>
#include <stdint.h>

#include "cache_key.h"
#include "parcel.h"

#define REDIS_KEY_BYTES  320u
#define REDIS_TEXT_BYTES 96u

enum letter_kind {
    LETTER_GET,    /* owner -> thread: question, key */
    LETTER_PUT,    /* owner -> thread: key, parcel */
    LETTER_CHECK,  /* owner -> thread: is Redis there? */
    LETTER_STOP,   /* owner -> thread: end */
    LETTER_ANSWER, /* thread -> owner: question, parcel or NULL; failed: Redis did not answer at all */
    LETTER_STORED, /* thread -> owner: bytes of a PUT that left the thread */
    LETTER_STATE,  /* thread -> owner: up or not, text */
};

struct redis_letter {
    enum letter_kind kind;
    uint64_t question;
    struct parcel *parcel;
    size_t bytes;
    bool up, failed;
    char text[REDIS_TEXT_BYTES];
    char key[REDIS_KEY_BYTES];
    struct cache_key about; /* what `key` is the text of */
};

struct redis_letter *letter_new(enum letter_kind kind);      /* NULL without memory */
void letter_free(struct redis_letter *letter);               /* with its parcel; NULL is fine */
bool letter_send(void *socket, struct redis_letter *letter); /* takes it; false: it was freed */
struct redis_letter *letter_receive(void *socket);           /* gives it; NULL = none there */

/* A value as Redis holds it: magic, frame count and sizes, the frames, a digest over all. */
uint8_t *value_encode(const struct parcel *parcel, size_t *ret_bytes); /* malloc'd; NULL without memory */
struct parcel *value_decode(const uint8_t *bytes, size_t size);        /* NULL when broken */

#endif
