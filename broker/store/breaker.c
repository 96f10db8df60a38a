#include "breaker.h"

#include <stdio.h>

void breaker_trip(struct breaker *breaker, const char *reason)
{
    breaker->open = true;
    snprintf(breaker->reason, sizeof breaker->reason, "%s", reason);
}

void breaker_init(struct breaker *breaker)
{
    breaker->failures = 0;
    breaker_trip(breaker, "connecting");
}

bool breaker_fail(struct breaker *breaker, const char *reason)
{
    if (breaker->open || ++breaker->failures < BREAKER_FAILURES)
        return false;
    breaker_trip(breaker, reason);
    return true;
}

void breaker_pass(struct breaker *breaker)
{
    breaker->failures = 0;
}

void breaker_close(struct breaker *breaker)
{
    breaker->failures = 0;
    breaker->open = false;
    breaker->reason[0] = '\0';
}
