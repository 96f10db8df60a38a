/*
 * key_list.h - the file of --keys as a whole: is it all there? Read by the broker, written by `penstock keygen --list` and `penstock keys`.
 *
 * A list is text, its last line ends with a newline, and it has a key. What a power cut or a half-done copy leaves (bytes that are 0, half a line, nothing)
 * is no list. A list cut behind a line looks whole: a careful owner has it sealed. The first line is then `# sealed keys=N sha256=HEX`, the SHA-256 of all
 * that follows it; to readers that know nothing of it that is a comment.
 * Threads: any.
 */
#ifndef KEY_LIST_H
#define KEY_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "penstock/status.h"

#define KEY_LIST_BYTES_MAX (8u * 1024u * 1024u)

struct key_list {
    char *text; /* all of it, a 0 behind it */
    size_t bytes;
    size_t body; /* where the lines behind the seal begin */
    size_t keys; /* lines that are no comment */
    bool sealed;
};

enum key_seal {
    KEY_SEAL_FITS, /* a seal that does not fit is damage, and so is a list without any key */
    KEY_SEAL_ANY,  /* it is to be sealed anew: the seal need not fit, and no key is enough */
};
enum key_form { KEYS_UNSEALED, KEYS_SEALED };

/*
 * IO: cannot be read, or is no ordinary file. INVALID: damaged, with the line; or without any key, and not sealed as such. TOO_LARGE. The caller fini's it.
 */
enum pen_status key_list_read(const char *path, enum key_seal seal, struct key_list *ret_list,
                              struct pen_error *reterr);
void key_list_fini(struct key_list *list);

/*
 * Writes the lines of `list`, then `line` (may be NULL), under a fresh seal if KEYS_SEALED: into a new file that takes the old one's name, so that a reader finds
 * the one or the other. IO: the old file is untouched. list may be one without text: a new file.
 */
enum pen_status key_list_write(const char *path, const struct key_list *list, const char *line, enum key_form form,
                               struct pen_error *reterr);

#endif
