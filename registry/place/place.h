/*
 * place.h - a registry as a place with named contents: a folder, a web server, or a bucket.
 *
 *   /srv/models, ./models, file:///srv/models       a folder
 *   http://HOST[:PORT]/PATH, https://...            a web server that serves such a folder; it is only read
 *   s3://BUCKET[/PREFIX]                            a bucket of AWS, in the region of AWS_REGION
 *   s3+http://HOST[:PORT]/BUCKET[/PREFIX], s3+https://...   a bucket of any server that speaks S3
 *
 * What lies in a registry:
 *
 *   blobs/sha256/DIGEST             files and manifests, by their SHA-256; they never change
 *   models/NAME/versions/VERSION    the digest of that version's manifest: "sha256:DIGEST\n"
 *   models/NAME/labels/LABEL        the digest of the manifest that has the label
 *   index                           the names of all files below models/, one a line: for web servers, which list nothing
 *
 * Keys of buckets come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; without them requests are
 * not signed.
 * Ownership: texts are copied. Threads: any.
 */
#ifndef PLACE_H
#define PLACE_H

#include "http_client.h"

#define PLACE_KEY_BYTES 320u

struct place;

/* stop: as in http_client.h. INVALID: no such kind of place, or a bucket's settings are wrong. */
enum pen_status place_open(const char *text, bool (*stop)(void), struct place **ret_place, struct pen_error *reterr);
void place_close(struct place *place); /* NULL is fine */
void place_hurry(struct place *place); /* http_client_hurry */
const char *place_text(const struct place *place);
bool place_writable(const struct place *place);

/* A part of a content; last = UINT64_MAX: up to its end. A server that knows no ranges sends the whole content: the sink
   is told the position of what comes. */
struct place_part {
    const char *key;
    uint64_t first, last;
    http_sink *sink;
    void *context;
};
enum pen_status place_read(struct place *place, const struct place_part *part, struct pen_error *reterr);

/* A small content as a text with an end behind it; the caller frees it. TOO_LARGE beyond `most`. */
enum pen_status place_read_small(struct place *place, const char *key, size_t most, char **ret_text, size_t *ret_bytes,
                                 struct pen_error *reterr);

/* NOT_FOUND, or OK and its size. */
enum pen_status place_look(struct place *place, const char *key, uint64_t *ret_bytes, struct pen_error *reterr);

/* Puts a content in its place at once: readers see the old one or the new one. */
struct place_content {
    const void *bytes; /* or NULL: from the file `fd`, from its begin */
    int fd;
    uint64_t size;
    const char *sha256; /* of the content, 64 hex digits */
};
enum pen_status place_write(struct place *place, const char *key, const struct place_content *content,
                            struct pen_error *reterr);

/* Names of contents below models/, in no order; false from `tell` ends it. */
typedef bool place_tell(void *context, const char *key);
enum pen_status place_list(struct place *place, const char *prefix, place_tell *tell, void *context,
                           struct pen_error *reterr);

#endif
