#include "case_model.h"

#include <stdlib.h>

void case_lite_write(const cJSON *line, const char *path, bool open)
{
    (void)line;
    (void)path;
    (void)open;
    exit(2);
}
