/*
 * place_kind.h - what a kind of place does; place.h says what each function means.
 *
 * Threads: any.
 */
#ifndef PLACE_KIND_H
#define PLACE_KIND_H

#include "place.h"
#include "sign_s3.h"

#define PLACE_TEXT_BYTES 1024u

struct place_kind {
    bool writable;
    enum pen_status (*read)(struct place *place, const struct place_part *part, struct pen_error *reterr);
    enum pen_status (*look)(struct place *place, const char *key, uint64_t *ret_bytes, struct pen_error *reterr);
    enum pen_status (*write)(struct place *place, const char *key, const struct place_content *content,
                             struct pen_error *reterr);
    enum pen_status (*list)(struct place *place, const char *prefix, place_tell *tell, void *context,
                            struct pen_error *reterr);
};

extern const struct place_kind place_folder, place_web, place_bucket;

struct place {
    const struct place_kind *kind;
    char text[PLACE_TEXT_BYTES]; /* as it was written */
    char root[PLACE_TEXT_BYTES]; /* the folder; the URL without '/' at its end; of a bucket: scheme and host */
    struct http_client *http;
    bool hurried; /* place_hurry: a request is made once */
    /* of a bucket */
    char host[256], bucket[512]; /* bucket: "/BUCKET/PREFIX", escaped */
    struct sign_key key;         /* id "": unsigned */
};

/* Fills host, bucket and key from the place's text. */
enum pen_status place_bucket_init(struct place *place, const char *text, struct pen_error *reterr);

#endif
