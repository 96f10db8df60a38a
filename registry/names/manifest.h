/*
 * manifest.h - what a version of a model consists of: its files, with sizes and digests, as JSON.
 *
 *   {"format": "penstock-model/1", "model": "digits", "version": 3,
 *    "files": [{"path": "config.json", "bytes": 120, "sha256": "..."}, ...]}
 *
 * The paths are those below the version's folder, in the order of their bytes, none twice. A path is relative; no part
 * of it is empty or begins with a dot, and it holds no backslash and no control characters: so no file lies outside of
 * the folder or is hidden. The digest of a version is SHA-256 over this text as it stands. A manifest says nothing of
 * times or people: the same files give the same digest.
 * Threads: any.
 */
#ifndef MANIFEST_H
#define MANIFEST_H

#include "reference.h"

#define MANIFEST_BYTES_MAX      (2u * 1024u * 1024u)
#define MANIFEST_FILES_MAX      4096u
#define MANIFEST_PATH_BYTES     513u
#define MANIFEST_DEPTH_MAX      8u
#define MANIFEST_FILE_BYTES_MAX (UINT64_C(1) << 40)

struct manifest_file {
    char path[MANIFEST_PATH_BYTES];
    uint64_t bytes;
    struct content_digest digest;
};

struct manifest {
    char model[REFERENCE_NAME_BYTES];
    uint64_t version;
    struct manifest_file *files; /* [count]; owned */
    size_t count;
    uint64_t bytes; /* of all files */
};

/* text needs no end. CORRUPT: it is no manifest, or breaks a rule; the sentence says which. */
enum pen_status manifest_parse(const char *text, size_t bytes, struct manifest *ret_manifest, struct pen_error *reterr);
/* The caller frees *ret_text. Files must be in order (manifest_sort). */
enum pen_status manifest_write(const struct manifest *manifest, char **ret_text, size_t *ret_bytes,
                               struct pen_error *reterr);
void manifest_fini(struct manifest *manifest);

/* Adds a file in construction. TOO_LARGE beyond the caps, INVALID: no path for a manifest. */
enum pen_status manifest_add(struct manifest *manifest, const char *path, uint64_t bytes,
                             const struct content_digest *digest, struct pen_error *reterr);
void manifest_sort(struct manifest *manifest);

#endif
