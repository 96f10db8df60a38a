/*
 * key_list.h - the file of --keys, and the check that it is complete.
 *
 * The broker reads it; `penstock keygen --list` and `penstock keys` write it. A valid list is text, its last line ends
 * with a newline, and it has a key. So the remains of a power cut or of an unfinished copy (zero bytes, half a line,
 * nothing) are refused. A list that was cut exactly behind a line looks complete; a seal finds this, too. A sealed list
 * begins with the line `# sealed keys=N sha256=HEX`, the SHA-256 of all that follows; readers that do not know the seal
 * take it for a comment.
 * Threads: any.
 */
#ifndef KEY_LIST_H
#define KEY_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "penstock/status.h"

#define KEY_LIST_BYTES_MAX (8u * 1024u * 1024u)

struct key_list {
    char *text; /* the whole text, with a 0 behind it */
    size_t bytes;
    size_t body; /* where the lines behind the seal begin */
    size_t keys; /* number of lines that are no comment */
    bool sealed;
};

enum key_seal {
    KEY_SEAL_FITS, /* a wrong seal counts as damage, and so does a list without any key */
    KEY_SEAL_ANY,  /* the list will be sealed anew: a wrong seal and an empty list are accepted */
};
enum key_form { KEYS_UNSEALED, KEYS_SEALED };

/*
 * IO: it cannot be read, or is no ordinary file. INVALID: it is damaged (the sentence names the line), or has no key
 * and no seal that says so. TOO_LARGE. The caller frees it with key_list_fini.
 */
enum pen_status key_list_read(const char *path, enum key_seal seal, struct key_list *ret_list,
                              struct pen_error *reterr);
void key_list_fini(struct key_list *list);

/*
 * Writes the lines of `list`, then `line` (may be NULL), with a new seal if KEYS_SEALED. It writes a new file and
 * renames it over the old one, so that a reader sees either the old list or the new one. IO: the old file is untouched.
 * A list without text makes a new file.
 */
enum pen_status key_list_write(const char *path, const struct key_list *list, const char *line, enum key_form form,
                               struct pen_error *reterr);

#endif
