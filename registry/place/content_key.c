/* content_key.c - names, and the small files that point to a digest. */
#include "content_key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINTER_BYTES_MAX 128u

const char *content_key(const struct content_digest *digest, char key[PLACE_KEY_BYTES])
{
    snprintf(key, PLACE_KEY_BYTES, "blobs/sha256/%s", digest->hex);
    return key;
}

const char *version_key(const char *name, uint64_t version, char key[PLACE_KEY_BYTES])
{
    snprintf(key, PLACE_KEY_BYTES, "models/%s/versions/%" PRIu64, name, version);
    return key;
}

const char *label_key(const char *name, const char *label, char key[PLACE_KEY_BYTES])
{
    snprintf(key, PLACE_KEY_BYTES, "models/%s/labels/%s", name, label);
    return key;
}

enum pen_status pointer_read(struct place *place, const char *key, struct content_digest *ret_digest,
                             struct pen_error *reterr)
{
    char *text = NULL;
    size_t bytes = 0;
    enum pen_status status = place_read_small(place, key, POINTER_BYTES_MAX, &text, &bytes, reterr);
    if (status != PEN_OK)
        return status;
    text[strcspn(text, "\r\n")] = '\0';
    if (strncmp(text, "sha256:", 7) != 0 || !content_digest_parse(text + 7, ret_digest))
        status = pen_error_set(reterr, PEN_ERR_CORRUPT, "%s of %.200s does not hold \"sha256:\" and a digest", key,
                               place_text(place));
    free(text);
    return status;
}

enum pen_status pointer_write(struct place *place, const char *key, const struct content_digest *digest,
                              struct pen_error *reterr)
{
    char text[POINTER_BYTES_MAX];
    int length = snprintf(text, sizeof text, "sha256:%s\n", digest->hex);
    struct content_digest own = content_digest_of(text, (size_t)length);
    return place_write(place, key,
                       &(struct place_content){.bytes = text, .fd = -1, .size = (uint64_t)length, .sha256 = own.hex},
                       reterr);
}
