#include "assertion.h"

#include <stdio.h>
#include <stdlib.h>

void assertion_failed(const char *file, int line, const char *condition, const char *sentence)
{
    fprintf(stderr, "level=error evt=assertion_failed at=%s:%d condition=\"%s\" invariant=\"%s\"\n", file, line,
            condition, sentence);
    abort();
}
