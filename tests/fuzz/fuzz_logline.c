/* Any bytes as a logged value: one line, within its size, ending in a newline. */
#include "logline_text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

__attribute__((format(printf, 2, 3))) static void format(bool json, const char *fmt, ...)
{
    static const struct logline_head head = {"2026-01-31T12:00:00.000Z", "broker", "info", "fuzz", "n0nce123"};
    char line[LOGLINE_BYTES];
    va_list args;
    va_start(args, fmt);
    size_t bytes = logline_format(line, &head, json, fmt, args);
    va_end(args);
    if (bytes == 0 || bytes > sizeof line || memchr(line, '\n', bytes) != line + bytes - 1)
        abort();
    if (json && (line[0] != '{' || line[bytes - 2] != '}'))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    for (int json = 0; json < 2; json++)
        format(json, "model=%s us=%d error=%s", text, 5, text);
    free(text);
    return 0;
}
