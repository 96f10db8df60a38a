#include "backend/vulkan/tune.h"

#include <stdlib.h>
#include <string.h>

/* The payload: a family, with its tile, per precision and class. A change of classes changes its size, and the file is a miss. */
#define PRECISIONS PEN_PRECISION_BF16
struct table {
    uint32_t classes;
    uint8_t tuned[PRECISIONS][VK_CLASSES];
};

static bool table_valid(const struct table *t)
{
    for (uint32_t i = 0; i < PRECISIONS * VK_CLASSES; i++) {
        const uint32_t class_index = i % VK_CLASSES;
        if (!vk_tuned_valid(vk_class_kind(class_index), t->tuned[i / VK_CLASSES][class_index])) {
            return false;
        }
    }
    return t->classes == VK_CLASSES;
}

static const char *table_read(const char *dir, const struct vk_cache_key *key, struct table *t)
{
    const char *why = "off";
    size_t bytes = 0;
    void *payload = dir != NULL ? vk_cache_read(dir, VK_CACHE_TUNING, key, &bytes, &why) : NULL;
    if (payload != NULL && bytes == sizeof *t) {
        memcpy(t, payload, sizeof *t);
    }
    if (payload != NULL && (bytes != sizeof *t || !table_valid(t))) {
        why = "corrupt";
    }
    free(payload);
    if (strcmp(why, "hit") != 0) {
        *t = (struct table){.classes = VK_CLASSES};
    }
    return why;
}

static bool precision_fits(enum pen_precision precision)
{
    return precision >= PEN_PRECISION_F32 && precision <= PRECISIONS;
}

const char *vk_tune_load(const char *dir, const struct vk_cache_key *key, enum pen_precision precision,
                         uint8_t tuned[VK_CLASSES])
{
    struct table t;
    const char *why = table_read(dir, key, &t);
    memset(tuned, VK_FAMILY_AUTO, VK_CLASSES);
    if (precision_fits(precision)) {
        memcpy(tuned, t.tuned[precision - 1], VK_CLASSES);
    }
    return why;
}

bool vk_tune_store(const char *dir, const struct vk_cache_key *key, enum pen_precision precision,
                   const uint8_t tuned[VK_CLASSES])
{
    struct table t;
    if (dir == NULL || !precision_fits(precision)) {
        return false;
    }
    table_read(dir, key, &t);
    memcpy(t.tuned[precision - 1], tuned, VK_CLASSES);
    return vk_cache_write(dir, VK_CACHE_TUNING, key, &t, sizeof t);
}
