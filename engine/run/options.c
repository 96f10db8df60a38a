#include "penstock/engine.h"

#include <string.h>

#include "backend/backend.h"
#include "env/env.h"
#include "import/importer.h"

#ifndef PENSTOCK_ENGINE_VERSION
#define PENSTOCK_ENGINE_VERSION "0.1.0"
#endif

void pen_engine_options_init(struct pen_engine_options *options)
{
    env_defaults(options);
}

static struct pen_backend_info look(const struct pen_engine_options *options, const struct backend_ops *ops)
{
    struct backend_config config = {.threads = 1};
    struct backend_caps caps = {0};
    if (options != NULL) {
        config.vulkan = options->vulkan;
    }
    enum pen_status status = backend_probe(ops, &config, &caps);
    struct pen_backend_info info = {.name = ops->name,
                                    .priority = ops->priority,
                                    .available = status == PEN_OK && caps.available,
                                    .precisions = caps.precisions,
                                    .options = ops->options};
    memcpy(info.reason, caps.reason, sizeof info.reason);
    memcpy(info.device, caps.device, sizeof info.device);
    memcpy(info.library, caps.library, sizeof info.library);
    return info;
}

size_t pen_backends(const struct pen_engine_options *options, struct pen_backend_info *infos, size_t room)
{
    size_t count = 0;
    const struct backend_ops *const *table = backend_table(&count);
    for (size_t i = 0; i < count && i < room; i++) {
        infos[i] = look(options, table[i]);
    }
    return count;
}

bool pen_backend_find(const struct pen_engine_options *options, const char *name, struct pen_backend_info *ret_info)
{
    const struct backend_ops *ops = backend_find(name);
    if (ops != NULL) {
        *ret_info = look(options, ops);
    }
    return ops != NULL;
}

const char *pen_engine_formats(void)
{
    return importer_names;
}

const char *pen_engine_version(void)
{
    return PENSTOCK_ENGINE_VERSION;
}
