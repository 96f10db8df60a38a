/* Any bytes as a model's config.pbtxt: read, or refused with a sentence. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config;
    struct pen_error error = {.status = PEN_OK};
    char *text = malloc(size ? size : 1); /* exact, so that a byte too far is seen */
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    config_init(&config);
    enum pen_status status = config_parse_pbtxt(text, size, &config, &error);
    if (status != PEN_OK && !error.text[0])
        abort();
    if (!memchr(config.ignored, '\0', sizeof config.ignored) || (config.plan && config.declared))
        abort();
    config_fini(&config);
    free(text);
    return 0;
}
