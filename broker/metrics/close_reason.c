/* close_reason.c - the one table of the names. */
#include "close_reason.h"

#include "assertion.h"

static const char *const names[] = {
    [CLOSE_NONE] = "",           [CLOSE_SINGLE] = "single",     [CLOSE_FULL] = "full",   [CLOSE_IDLE] = "idle",
    [CLOSE_DELAY] = "delay",     [CLOSE_DEADLINE] = "deadline", [CLOSE_BEST] = "best",   [CLOSE_UNPAID] = "unpaid",
    [CLOSE_EXPLORE] = "explore", [CLOSE_HEDGE] = "hedge",       [CLOSE_STEPS] = "steps",
};
_Static_assert(sizeof names / sizeof names[0] == CLOSE_REASONS, "each reason has a name");

const char *close_reason_name(enum close_reason reason)
{
    PEN_ASSERT((unsigned)reason < CLOSE_REASONS, "a reason why a batch closed is one of the table");
    return names[reason];
}
