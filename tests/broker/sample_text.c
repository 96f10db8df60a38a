#include "sample_text.h"

#include <string.h>

size_t sample_name_of(const char *line)
{
    return strspn(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:0123456789");
}

const char *sample_behind_labels(const char *at)
{
    if (*at != '{')
        return at;
    do {
        size_t length = sample_name_of(++at);
        if (length == 0 || strncmp(at + length, "=\"", 2) != 0)
            return NULL;
        for (at += length + 2; *at && *at != '"'; at++)
            if (*at == '\\' && !strchr("\\\"n", *++at))
                return NULL;
        if (*at++ != '"')
            return NULL;
    } while (*at == ',');
    return *at == '}' ? at + 1 : NULL;
}
