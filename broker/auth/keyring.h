/*
 * keyring.h - who may come in: public keys with names, roles and quotas, from the file of --keys, read again when it changes.
 *
 * A line is `HEX NAME ROLES [tenant=T] [rate=N] [bytes=SIZE] [share=PERCENT]`; ROLES is a list of submit, worker, admin, observe. An identity
 * lives as long as the broker, so that sessions may point to it; one whose line has gone is no longer active.
 * Threads: keyring_knows: any (the ZAP thread asks). Everything else: owner.
 */
#ifndef KEYRING_H
#define KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "keys.h"

#define TENANT_BYTES_MAX    64u
#define IDENTITIES_MAX      4096u
#define IDENTITY_NAME_BYTES KEY_NAME_BYTES

enum role { ROLE_SUBMIT = 1, ROLE_WORKER = 2, ROLE_ADMIN = 4, ROLE_OBSERVE = 8 };

struct identity {
    uint8_t key[KEY_BYTES];
    char name[IDENTITY_NAME_BYTES], tenant[IDENTITY_NAME_BYTES];
    unsigned roles;
    bool active;
    double rate;          /* jobs per second; 0 = no limit */
    uint64_t bytes_max;   /* of its jobs that are not answered; 0 = no limit */
    uint32_t share;       /* per cent of --queue-limit and --queue-bytes; 0 = no limit of its own */
    uint64_t jobs, bytes; /* not answered */
    double tokens;        /* of its rate: as many as one second gives */
    uint64_t tokens_us;
    uint64_t refused; /* jobs beyond a quota */
};

struct keyring;
/* Reads the file; PEN_ERR_INVALID names the line, or says what is wrong with the whole (key_list.h). */
enum pen_status keyring_new(const char *path, struct keyring **ret_keyring, struct pen_error *reterr);
void keyring_free(struct keyring *keyring); /* NULL is fine */

/* Reads the file again when it has changed. True: it has, and identities may have come or gone. A bad file changes nothing: *reterr. */
bool keyring_refresh(struct keyring *keyring, struct pen_error *reterr);

/* How many keys are on the list in force. */
unsigned keyring_count(const struct keyring *keyring);

/* The identity of a User-Id that the ZAP thread gave; NULL = unknown or no longer active. */
struct identity *keyring_find(struct keyring *keyring, const char *user);
/* Is this key on the list? What it may do is asked at its hello, which has an answer. */
bool keyring_knows(struct keyring *keyring, const uint8_t key[KEY_BYTES]);

/* A job of that size now: PEN_ERR_BUSY and a sentence beyond a quota; *ret_wait_us: when there is room again, as a hint. PEN_ERR_TOO_LARGE: it alone is beyond
 * a quota, so it will never fit. brokers: among so many rate and
 * bytes are divided, each grants its part; the share is one of this broker's own queue. */
enum pen_status quota_check(struct identity *identity, uint32_t brokers, size_t bytes, uint64_t queue_limit,
                            uint64_t queue_bytes, uint64_t now_us, uint64_t *ret_wait_us, struct pen_error *reterr);
/* The job that was just checked will be checked again: it does not count twice. */
void quota_uncheck(struct identity *identity);
void quota_take(struct identity *identity, size_t bytes); /* NULL is fine */
void quota_give(struct identity *identity, size_t bytes);

#endif
