/* precisions.c - names of the numeric classes. */
#include "precisions.h"

#include <stddef.h>
#include <string.h>

#define NAME_OF(constant, name)                                                                                        \
    case PEN_PRECISION_##constant:                                                                                     \
        return name;

/* There is no default case, so the compiler warns of a class without a row. */
const char *precision_name(unsigned precision)
{
    switch ((enum pen_precision)precision) {
        PRECISIONS(NAME_OF)
    }
    return "unknown";
}

int precision_find(const char *name)
{
    for (int i = 0; name && i < PRECISIONS_COUNT; i++)
        if (strcmp(name, precision_name((unsigned)i)) == 0)
            return i;
    return -1;
}
