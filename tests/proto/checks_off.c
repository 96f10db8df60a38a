/* PEN_ASSERT_SLOW as a build without PENSTOCK_CHECKS has it (test_assertion.c). */
#undef PENSTOCK_CHECKS
#include "assertion.h"

#include <stdbool.h>

static unsigned asked;

static bool holds(void)
{
    return ++asked > 0;
}

unsigned asked_without_checks(void);
unsigned asked_without_checks(void)
{
    PEN_ASSERT_SLOW(holds(), "it holds");
    return asked;
}
