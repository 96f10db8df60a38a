#include "assertion.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static void (*teller)(const char *file, int line, const char *condition, const char *sentence);

void assertion_teller_set(void (*tell)(const char *file, int line, const char *condition, const char *sentence))
{
    teller = tell;
}

void assertion_failed(const char *file, int line, const char *condition, const char *sentence)
{
    if (teller)
        teller(file, line, condition, sentence);
    else
        fprintf(stderr, "level=error evt=assertion_failed at=%s:%d invariant=\"%s\" condition=\"%s\"\n", file, line,
                sentence, condition);
    abort();
}
