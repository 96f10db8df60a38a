/* Any bytes as a picture's file, decoded and resized: a picture, or a refusal with a sentence. */
#include "picture.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void resize(const struct picture *p)
{
    struct picture grey = {0}, out = {0};
    if (picture_convert(p, p->channels == 1 ? 3 : 1, &grey, NULL) != PEN_OK)
        return;
    for (int filter = PICTURE_BILINEAR; filter <= PICTURE_AREA; filter++)
        if (picture_resize(&grey, 7, 5, (enum picture_filter)filter, (enum picture_fit)(p->width % 3), &out, NULL) ==
            PEN_OK)
            picture_fini(&out);
    picture_fini(&grey);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct picture_limits limits = {.pixels = 1 << 20, .memory_bytes = 1 << 24};
    struct pen_error error = {.status = PEN_OK};
    struct picture picture = {0};
    uint8_t *bytes = malloc(size ? size : 1); /* exact, so that a byte too far is seen */
    if (!bytes)
        return 0;
    if (size)
        memcpy(bytes, data, size);
    enum pen_status status = picture_decode(bytes, size, "x", &limits, &picture, &error);
    if (status != PEN_OK && !error.text[0])
        abort();
    if (status == PEN_OK &&
        (!picture.width || !picture.height || (uint64_t)picture.width * picture.height > limits.pixels))
        abort();
    if (status == PEN_OK)
        resize(&picture);
    picture_fini(&picture);
    free(bytes);
    return 0;
}
