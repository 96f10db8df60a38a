/*
 * keyring.h - who may come in: public keys with names, roles and quotas, from the file of --keys, read again when it
 * changes.
 *
 * A line is `HEX NAME ROLES [tenant=T] [rate=N] [bytes=SIZE] [share=PERCENT]`; ROLES is a list of submit, worker,
 * admin, observe. An identity lives as long as the broker, so that sessions may point to it. When its line is removed
 * from the file, it is no longer active.
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
    uint64_t bytes_max;   /* limit for the bytes of its unanswered jobs; 0 = no limit */
    uint32_t share;       /* per cent of --queue-limit and --queue-bytes; 0 = no limit of its own */
    uint64_t jobs, bytes; /* its unanswered jobs, and their bytes */
    double tokens;        /* jobs that its rate allows now; at most those of one second */
    uint64_t tokens_us;
    uint64_t refused; /* jobs refused for a quota */
};

struct keyring;
/* Reads the file; PEN_ERR_INVALID names the line, or says what is wrong with the whole (key_list.h). */
enum pen_status keyring_new(const char *path, struct keyring **ret_keyring, struct pen_error *reterr);
void keyring_free(struct keyring *keyring); /* NULL is fine */

/* Reads the file again when it has changed. True: it has, and identities may have come or gone. When the new file is
   bad, the old list stays and *reterr says why. */
bool keyring_refresh(struct keyring *keyring, struct pen_error *reterr);

/* How many keys are on the list in force. */
unsigned keyring_count(const struct keyring *keyring);

/* The identity of a User-Id that the ZAP thread gave; NULL = unknown or no longer active. */
struct identity *keyring_find(struct keyring *keyring, const char *user);
/* Is this key on the list? Its role is checked later, at the hello, because a hello can be answered with a reason. */
bool keyring_knows(struct keyring *keyring, const uint8_t key[KEY_BYTES]);

/* Checks the quotas for a job of that size now. PEN_ERR_BUSY with a sentence: beyond a quota; *ret_wait_us is a
   hint, when there is room again. PEN_ERR_TOO_LARGE: the job alone is larger than a quota, so it will never fit.
   brokers: how many brokers share the quotas. Rate and bytes are divided by that number; the share counts for this
   broker's own queue alone. */
enum pen_status quota_check(struct identity *identity, uint32_t brokers, size_t bytes, uint64_t queue_limit,
                            uint64_t queue_bytes, uint64_t now_us, uint64_t *ret_wait_us, struct pen_error *reterr);
/* The job just checked will be checked again: gives its part of the rate back, so that it does not count twice. */
void quota_uncheck(struct identity *identity);
void quota_take(struct identity *identity, size_t bytes); /* NULL is fine */
void quota_give(struct identity *identity, size_t bytes);

#endif
