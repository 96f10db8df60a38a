/*
 * tokens.h - who a bearer token belongs to: the file of --tokens, read again when it changes.
 *
 * A line is `NAME KEY_FILE TOKEN [settings]`. KEY_FILE is one of `penstock keygen`: its identity and roles at the broker are the token's. TOKEN is the
 * token itself, 16 to 256 visible characters, or `sha256:HEX` of it. `settings`: it may change the gateway's own settings (logging, traces). Only its
 * owner may read the file.
 * A token is never kept: digests are compared, each of them in whole, so that the time tells nothing.
 * Threads: owner - the loop's.
 */
#ifndef TOKENS_H
#define TOKENS_H

#include <stdbool.h>
#include <stddef.h>

#include "keys.h"
#include "penstock/status.h"

#define TOKENS_MAX 256

struct tokens;
struct token_owner {
    char name[KEY_NAME_BYTES];
    char key_file[512];
    bool settings;
};

/* INVALID names the line; DENIED: others may read the file; IO. */
enum pen_status tokens_new(const char *path, struct tokens **ret_tokens, struct pen_error *reterr);
void tokens_free(struct tokens *tokens); /* NULL is fine */
/* Reads the file again if it has changed. A bad one changes nothing: its sentence in *reterr. */
enum pen_status tokens_refresh(struct tokens *tokens, struct pen_error *reterr);
/* NULL: nobody's. Borrowed until the next refresh. */
const struct token_owner *tokens_find(const struct tokens *tokens, const char *token, size_t bytes);

#endif
