/*
 * preview.h - the last pictures that clients sent, with their models' answers, for the dashboard (`--http-preview`).
 *
 * The frames are shared with the jobs' messages, so nothing is copied, and nothing is decoded. Bounds: PREVIEWS_MAX
 * pictures, PREVIEWS_OF_MODEL of one model, PREVIEW_BYTES_MAX of one, PREVIEWS_BYTES of all; the oldest one goes.
 * Threads: previews_due, previews_keep: owner, they never wait for a lock; the others: any.
 */
#ifndef PREVIEW_H
#define PREVIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zmq.h>

#include "job_id.h"

#define PREVIEWS_MAX       64u
#define PREVIEWS_OF_MODEL  6u
#define PREVIEW_BYTES_MAX  (8u << 20)  /* frames of one: the picture's and the answer's */
#define PREVIEWS_BYTES     (64u << 20) /* of all */
#define PREVIEW_GAP_US     250000u     /* a busy model's pictures change no faster */
#define PREVIEW_NAME_BYTES 256u

/* Bytes within a frame. */
struct preview_part {
    zmq_msg_t frame;
    size_t at, bytes;
};

struct preview {
    uint64_t serial, version;
    struct job_id job;
    char model[PREVIEW_NAME_BYTES];
    const char *type;  /* of the picture, such as image/png; a constant */
    uint64_t ended_us; /* the broker's clock */
    struct preview_part picture, answer;
};

/* The media type that the first bytes of a file say; NULL: it is no JPEG, PNG, WebP or BMP. */
const char *preview_type(const uint8_t *bytes, size_t size);

struct previews;
struct previews *previews_new(void);           /* NULL without memory */
void previews_free(struct previews *previews); /* NULL is fine; no thread may ask any more */

/* True: a picture of that model would be kept now. */
bool previews_due(struct previews *previews, const char *model, uint64_t version, uint64_t now_us);
/* Takes the frames, also when it keeps nothing: it is too large, or a page has the lock. The serial is set here. */
void previews_keep(struct previews *previews, struct preview *preview);

/* What is kept, the newest first, without frames. Gives the number of rows. */
size_t previews_list(struct previews *previews, struct preview ret_rows[PREVIEWS_MAX]);
/* One with its frames, for preview_fini; false: it is not kept (any more). */
bool previews_take(struct previews *previews, uint64_t serial, struct preview *ret_preview);
void preview_fini(struct preview *preview);
void preview_free(void *preview); /* one that lies in memory of malloc; NULL is fine */
const void *preview_bytes(const struct preview_part *part);

#endif
