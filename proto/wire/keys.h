/*
 * keys.h - CURVE keys as all programs write and read them: 64 hex digits, and a file that only its owner may read.
 *
 * A key file has two lines, `public = HEX` and `secret = HEX`; lines that start with # are skipped. A secret is never logged, never an option's
 * value (process titles are public), and wiped from memory when it is no longer used.
 * Threads: any.
 */
#ifndef KEYS_H
#define KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define KEY_BYTES      32u
#define KEY_TEXT_BYTES 65u

/* The name of a key's owner, in the broker's list: 1 to 64 characters of A-Z a-z 0-9 . _ - */
#define KEY_NAME_BYTES 65u
bool key_name_valid(const char *name);

struct key_pair {
    uint8_t public_key[KEY_BYTES], secret_key[KEY_BYTES];
};

enum pen_status key_pair_new(struct key_pair *ret_pair); /* PEN_ERR_IO: no random numbers */
void key_pair_wipe(struct key_pair *pair);

const char *key_text(const uint8_t key[KEY_BYTES], char text[KEY_TEXT_BYTES]);
enum pen_status key_parse(const char *text, uint8_t ret_key[KEY_BYTES], struct pen_error *reterr);

/* Makes a new file with mode 0600; PEN_ERR_INVALID when the file exists: no key is overwritten. */
enum pen_status key_file_write(const char *path, const struct key_pair *pair, struct pen_error *reterr);
/* PEN_ERR_DENIED when other users may read it; PEN_ERR_CORRUPT when it has no pair, or two keys that do not belong
   together. */
enum pen_status key_file_read(const char *path, struct key_pair *ret_pair, struct pen_error *reterr);

/* The keys that the connecting side of CURVE needs. */
struct key_set {
    bool used; /* false: the connection is neither encrypted nor authenticated */
    struct key_pair own;
    uint8_t broker[KEY_BYTES];
};

/* key_file, broker_key (64 hex digits): both empty means no encryption; one without the other is INVALID. */
enum pen_status key_set_read(const char *key_file, const char *broker_key, struct key_set *ret_set,
                             struct pen_error *reterr);

#endif
