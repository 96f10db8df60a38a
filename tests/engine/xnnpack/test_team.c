/*
 * test_team.c - a plain harness, also for ThreadSanitizer: every unit of a loop runs exactly once, whoever takes it, and is seen when team_run returns.
 */
#include "backend/xnnpack/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNITS 257

static void count(void *context, size_t unit)
{
    int *counts = context;
    counts[unit]++;
}

static int loops(uint32_t threads, int turns)
{
    struct team *t = team_new(threads);
    int counts[UNITS], wrong = t == NULL;
    for (int turn = 0; turn < turns && !wrong; turn++) {
        size_t units = (size_t)(turn * 31 % UNITS);
        memset(counts, 0, sizeof counts);
        team_run(t, count, counts, units);
        for (size_t i = 0; i < UNITS; i++) {
            wrong += counts[i] != (i < units);
        }
        if (turn % 500 == 499) {
            usleep(2000); /* long enough for the helpers to fall asleep */
        }
    }
    team_free(t);
    printf("%s %u threads, %d loops\n", wrong ? "FAIL" : "ok", threads, turns);
    return wrong != 0;
}

int main(void)
{
    team_free(NULL);
    return loops(2, 5000) + loops(3, 3000) + loops(8, 1000) + loops(4, 0) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
