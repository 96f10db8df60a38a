#include "penstock/engine.h"

#include <string.h>

#include "backend/backend.h"

#ifndef PENSTOCK_ENGINE_VERSION
#define PENSTOCK_ENGINE_VERSION "0.1.0"
#endif

void pen_engine_options_init(struct pen_engine_options *options)
{
    *options =
        (struct pen_engine_options){.backend = "auto", .precision = PEN_PRECISION_ANY, .threads = 1, .optimise = true};
}

size_t pen_backends(const struct pen_engine_options *options, struct pen_backend_info *infos, size_t room)
{
    struct backend_config config = {.threads = 1};
    size_t count = 0;
    if (options != NULL) {
        config.vulkan = options->vulkan;
    }
    const struct backend_ops *const *table = backend_table(&count);
    for (size_t i = 0; i < count && i < room; i++) {
        struct backend_caps caps = {0};
        struct pen_backend_info *info = &infos[i];
        enum pen_status status = table[i]->probe(&config, &caps);
        *info = (struct pen_backend_info){
            .name = table[i]->name, .priority = table[i]->priority, .available = status == PEN_OK && caps.available};
        info->precisions = caps.precisions;
        memcpy(info->reason, caps.reason, sizeof info->reason);
        memcpy(info->device, caps.device, sizeof info->device);
        memcpy(info->library, caps.library, sizeof info->library);
    }
    return count;
}

const char *pen_engine_version(void)
{
    return PENSTOCK_ENGINE_VERSION;
}
