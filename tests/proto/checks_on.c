/* PEN_ASSERT_SLOW as a build with PENSTOCK_CHECKS has it (test_assertion.c). */
#ifndef PENSTOCK_CHECKS
#define PENSTOCK_CHECKS
#endif
#include "assertion.h"

#include <stdbool.h>

static unsigned asked;

static bool holds(void)
{
    return ++asked > 0;
}

unsigned asked_with_checks(void);
unsigned asked_with_checks(void)
{
    PEN_ASSERT_SLOW(holds(), "it holds");
    return asked;
}
