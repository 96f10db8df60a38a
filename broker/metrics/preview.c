#include "preview.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct previews {
    pthread_mutex_t lock;
    struct preview rows[PREVIEWS_MAX]; /* the oldest first */
    size_t count, bytes;               /* bytes: of all frames */
    uint64_t serial;                   /* given so far */
};

const char *preview_type(const uint8_t *bytes, size_t size)
{
    static const struct {
        const char *type, *magic;
        size_t at, length;
    } kinds[] = {{"image/jpeg", "\xff\xd8\xff", 0, 3},
                 {"image/png", "\x89PNG\r\n\x1a\n", 0, 8},
                 {"image/webp", "WEBP", 8, 4},
                 {"image/bmp", "BM", 0, 2}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (size >= kinds[i].at + kinds[i].length && memcmp(bytes + kinds[i].at, kinds[i].magic, kinds[i].length) == 0)
            return kinds[i].type;
    return NULL;
}

struct previews *previews_new(void)
{
    struct previews *previews = calloc(1, sizeof *previews);
    if (previews && pthread_mutex_init(&previews->lock, NULL) != 0) {
        free(previews);
        return NULL;
    }
    return previews;
}

void preview_fini(struct preview *preview)
{
    zmq_msg_close(&preview->picture.frame);
    zmq_msg_close(&preview->answer.frame);
}

void preview_free(void *preview)
{
    if (preview)
        preview_fini(preview);
    free(preview);
}

static size_t frames_bytes(const struct preview *preview)
{
    return zmq_msg_size(&preview->picture.frame) + zmq_msg_size(&preview->answer.frame);
}

void previews_free(struct previews *previews)
{
    if (!previews)
        return;
    for (size_t i = 0; i < previews->count; i++)
        preview_fini(&previews->rows[i]);
    pthread_mutex_destroy(&previews->lock);
    free(previews);
}

static bool is_of(const struct preview *preview, const char *model, uint64_t version)
{
    return preview->version == version && strcmp(preview->model, model) == 0;
}

/* Only the owner changes the rows, so it reads them without the lock. */
bool previews_due(struct previews *previews, const char *model, uint64_t version, uint64_t now_us)
{
    size_t kept = 0;
    uint64_t newest_us = 0;
    for (size_t i = 0; i < previews->count; i++)
        if (is_of(&previews->rows[i], model, version)) {
            kept++;
            newest_us = previews->rows[i].ended_us;
        }
    return kept < PREVIEWS_OF_MODEL || now_us - newest_us >= PREVIEW_GAP_US;
}

static void drop(struct previews *previews, size_t index)
{
    previews->bytes -= frames_bytes(&previews->rows[index]);
    preview_fini(&previews->rows[index]);
    previews->count--;
    /* zmq_msg_t may not be copied by its bytes while somebody else uses it: under the lock nobody does. */
    memmove(&previews->rows[index], &previews->rows[index + 1], (previews->count - index) * sizeof *previews->rows);
}

/* The model's oldest where it has its share, then the oldest of all. */
static void make_room(struct previews *previews, const struct preview *next)
{
    size_t kept = 0, oldest = 0;
    for (size_t i = previews->count; i-- > 0;)
        if (is_of(&previews->rows[i], next->model, next->version)) {
            kept++;
            oldest = i;
        }
    if (kept >= PREVIEWS_OF_MODEL)
        drop(previews, oldest);
    while (previews->count == PREVIEWS_MAX || previews->bytes + frames_bytes(next) > PREVIEWS_BYTES)
        drop(previews, 0);
}

void previews_keep(struct previews *previews, struct preview *preview)
{
    if (frames_bytes(preview) > PREVIEW_BYTES_MAX || pthread_mutex_trylock(&previews->lock) != 0) {
        preview_fini(preview);
        return;
    }
    make_room(previews, preview);
    preview->serial = ++previews->serial;
    previews->rows[previews->count++] = *preview;
    previews->bytes += frames_bytes(preview);
    pthread_mutex_unlock(&previews->lock);
}

size_t previews_list(struct previews *previews, struct preview ret_rows[PREVIEWS_MAX])
{
    pthread_mutex_lock(&previews->lock);
    size_t count = previews->count;
    for (size_t i = 0; i < count; i++) {
        ret_rows[i] = previews->rows[count - 1 - i];
        zmq_msg_init(&ret_rows[i].picture.frame); /* the row's own stay there */
        zmq_msg_init(&ret_rows[i].answer.frame);
    }
    pthread_mutex_unlock(&previews->lock);
    return count;
}

static void part_share(struct preview_part *from, struct preview_part *to)
{
    zmq_msg_init(&to->frame);
    zmq_msg_copy(&to->frame, &from->frame);
}

bool previews_take(struct previews *previews, uint64_t serial, struct preview *ret_preview)
{
    pthread_mutex_lock(&previews->lock);
    size_t i = 0;
    while (i < previews->count && previews->rows[i].serial != serial)
        i++;
    bool found = i < previews->count;
    if (found) {
        *ret_preview = previews->rows[i];
        part_share(&previews->rows[i].picture, &ret_preview->picture);
        part_share(&previews->rows[i].answer, &ret_preview->answer);
    }
    pthread_mutex_unlock(&previews->lock);
    return found;
}

const void *preview_bytes(const struct preview_part *part)
{
    return (const uint8_t *)zmq_msg_data((zmq_msg_t *)(uintptr_t)&part->frame) + part->at;
}
