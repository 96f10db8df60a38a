#include "mapped.h"

#include <stdio.h>
#include <stdlib.h>

void *mapped_read(const char *path, size_t *ret_bytes)
{
    FILE *f = fopen(path, "rb");
    long size = 0;
    void *data = NULL;
    if (f && fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) > 0 && fseek(f, 0, SEEK_SET) == 0)
        data = malloc((size_t)size);
    if (data && fread(data, 1, (size_t)size, f) != (size_t)size) {
        free(data);
        data = NULL;
    }
    if (f)
        fclose(f);
    *ret_bytes = data ? (size_t)size : 0;
    return data;
}
