#include "ledger.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "process.h"

#define TOLERANCE 1e-4f /* between backends */

struct entry {
    struct ledger *ledger;
    uint32_t answers; /* how often it was answered */
};

struct ledger {
    pen_client *client;
    const struct digits *digits;
    float (*expected)[DIGITS_CLASSES]; /* [digits->count] */
    struct entry *entries;             /* [jobs_max]; entry i sends image i % count */
    size_t jobs_max, under_way;
    struct ledger_sums sums;
};

struct ledger *ledger_new(pen_client *client, const struct digits *digits, size_t jobs_max)
{
    struct ledger *ledger = calloc(1, sizeof *ledger);
    if (!ledger || !(ledger->expected = calloc(digits->count, sizeof *ledger->expected)) ||
        !(ledger->entries = calloc(jobs_max, sizeof *ledger->entries))) {
        support_fail("out of memory");
    }
    ledger->client = client;
    ledger->digits = digits;
    ledger->jobs_max = jobs_max;
    for (size_t i = 0; i < digits->count; i++) {
        pen_result *result = digits_run(client, digits, i, PEN_JOB_NO_CACHE);
        digits_probabilities(result, ledger->expected[i]);
        pen_result_free(result);
    }
    return ledger;
}

void ledger_free(struct ledger *ledger)
{
    if (ledger) {
        free(ledger->expected);
        free(ledger->entries);
        free(ledger);
    }
}

static int differs(const pen_result *result, const float expected[DIGITS_CLASSES])
{
    float values[DIGITS_CLASSES];
    digits_probabilities(result, values);
    for (int i = 0; i < DIGITS_CLASSES; i++) {
        if (!(fabsf(values[i] - expected[i]) <= TOLERANCE)) {
            return 1;
        }
    }
    return 0;
}

static void on_answer(pen_job *job, pen_result *result, void *arg)
{
    struct entry *entry = arg;
    struct ledger *ledger = entry->ledger;
    struct ledger_sums *sums = &ledger->sums;
    const struct pen_result_info *info = pen_result_info(result);
    size_t index = (size_t)(entry - ledger->entries);
    (void)job;
    ledger->under_way--;
    if (entry->answers++ > 0) {
        sums->twice++;
    } else if (pen_result_status(result) != PEN_OK) {
        sums->refused++;
        sums->last_refusal = pen_result_status(result);
        snprintf(sums->last_sentence, sizeof sums->last_sentence, "%.255s", pen_result_error(result));
    } else {
        sums->answered++;
        sums->wrong += (size_t)differs(result, ledger->expected[index % ledger->digits->count]);
        sums->rerun += info->attempts > 1;
        sums->slowest_us = info->round_trip_us > sums->slowest_us ? info->round_trip_us : sums->slowest_us;
    }
    pen_result_free(result);
}

static void submit_next(struct ledger *ledger)
{
    size_t index = ledger->sums.submitted++;
    struct entry *entry = &ledger->entries[index];
    struct pen_tensor tensor = digits_tensor(ledger->digits, index % ledger->digits->count);
    struct pen_job_options options;
    struct pen_error error = {0};
    entry->ledger = ledger;
    digits_job(&tensor, &options);
    options.flags = PEN_JOB_NO_CACHE;
    options.callback = on_answer;
    options.callback_arg = entry;
    if (pen_client_submit(ledger->client, &options, NULL, &error) != PEN_OK) {
        support_fail("job %zu was not taken: %s", index, error.text);
    }
    ledger->under_way++;
}

void ledger_submit(struct ledger *ledger, size_t jobs, size_t window)
{
    if (jobs > ledger->jobs_max) {
        support_fail("the ledger has room for %zu jobs, not %zu", ledger->jobs_max, jobs);
    }
    while (ledger->sums.submitted < jobs) {
        while (ledger->under_way < window && ledger->sums.submitted < jobs) {
            submit_next(ledger);
        }
        if (ledger->sums.submitted == jobs) {
            return;
        }
        if (pen_client_dispatch(ledger->client, (int64_t)support_slow(20000) * 1000) == 0) {
            support_fail("no answer for 20 s; %zu jobs under way", ledger->under_way);
        }
    }
}

void ledger_settle(struct ledger *ledger, int timeout_ms)
{
    uint64_t until = support_now_us() + (uint64_t)support_slow(timeout_ms) * 1000u;
    while (ledger->under_way > 0 && support_now_us() < until) {
        pen_client_dispatch(ledger->client, 10000);
    }
}

struct ledger_sums ledger_sums(const struct ledger *ledger)
{
    return ledger->sums;
}

void ledger_forget_slowest(struct ledger *ledger)
{
    ledger->sums.slowest_us = 0;
}

void ledger_check(const struct ledger *ledger)
{
    const struct ledger_sums *sums = &ledger->sums;
    if (sums->answered != sums->submitted || sums->twice || sums->wrong || sums->refused) {
        support_fail("of %zu jobs %zu were answered, %zu refused (last: %s: %s), %zu answered twice, %zu wrongly, %zu "
                     "not at all",
                     sums->submitted, sums->answered, sums->refused, pen_status_name(sums->last_refusal),
                     sums->last_sentence, sums->twice, sums->wrong, sums->submitted - sums->answered - sums->refused);
    }
}
