/* torture_ledger.c - every job that was accepted, and how often it was answered. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deadline.h"
#include "torture.h"

#define SLICE_US    2000
#define FIRST_JOBS  65536u
#define CLIENT_JOBS 4096u

struct torture_entry {
    struct torture_entry *next, **link; /* among the ledger's open ones */
    struct torture_ledger *ledger;
    uint64_t index;
};

static void entry_open(struct torture_entry *entry)
{
    struct torture_ledger *ledger = entry->ledger;
    entry->next = ledger->open;
    entry->link = &ledger->open;
    if (ledger->open)
        ledger->open->link = &entry->next;
    ledger->open = entry;
}

static void entry_free(struct torture_entry *entry)
{
    *entry->link = entry->next;
    if (entry->next)
        entry->next->link = entry->link;
    free(entry);
}

bool ledger_open(struct torture_ledger *ledger, const char *endpoint, uint64_t window, uint64_t large_every,
                 struct pen_error *reterr)
{
    struct pen_client_options options;
    *ledger = (struct torture_ledger){.window = window, .capacity = FIRST_JOBS, .large_every = large_every};
    ledger->values = malloc(LARGE_ELEMENTS * sizeof(float));
    ledger->answers = calloc(FIRST_JOBS, 1);
    pen_client_options_init(&options, sizeof options);
    options.endpoint = endpoint;
    options.name = "penstock torture";
    options.connect_timeout_us = 10000000;
    options.unreachable_us = 0; /* a job waits for as long as it takes: what is never answered is lost */
    options.grace_us = 60000000;
    if (!ledger->answers || !ledger->values) {
        pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the ledger.");
        return false;
    }
    return pen_client_connect(&options, &ledger->client, reterr) == PEN_OK;
}

void ledger_close(struct torture_ledger *ledger)
{
    pen_client_free(ledger->client); /* what was lost is not answered any more */
    while (ledger->open) {
        entry_free(ledger->open);
    }
    free(ledger->answers);
    free(ledger->values);
    for (size_t i = 0; i < FAULT_COUNT; i++) {
        free(ledger->recoveries_us[i]);
    }
}

/* ---- recoveries ---- */

static void recovered(struct torture_ledger *ledger, const struct wound *wound)
{
    size_t count = ledger->recoveries[wound->fault];
    uint64_t *grown = realloc(ledger->recoveries_us[wound->fault], (count + 1) * sizeof *grown);
    if (!grown) {
        return; /* one figure less */
    }
    grown[count] = clock_now_us() - wound->at_us;
    ledger->recoveries_us[wound->fault] = grown;
    ledger->recoveries[wound->fault]++;
}

void ledger_fault(struct torture_ledger *ledger, enum fault fault)
{
    for (unsigned i = 0; i < ledger->wounds_count; i++) {
        ledger->wounds[i].alone = false;
    }
    if (ledger->wounds_count < WOUNDS_MAX && ledger->under_way > 0) {
        ledger->wounds[ledger->wounds_count] = (struct wound){.fault = fault,
                                                              .at_us = clock_now_us(),
                                                              .below = ledger->accepted,
                                                              .left = ledger->under_way,
                                                              .alone = ledger->wounds_count == 0};
        ledger->wounds_count++;
    }
}

static void heal_wounds(struct torture_ledger *ledger, uint64_t index)
{
    for (unsigned i = ledger->wounds_count; i-- > 0;) {
        struct wound *wound = &ledger->wounds[i];
        if (index < wound->below && --wound->left == 0) {
            if (wound->alone) {
                recovered(ledger, wound);
            }
            *wound = ledger->wounds[--ledger->wounds_count];
        }
    }
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

double ledger_recovery_ms(struct torture_ledger *ledger, enum fault fault, double q)
{
    size_t count = ledger->recoveries[fault];
    if (count == 0) {
        return 0.0;
    }
    qsort(ledger->recoveries_us[fault], count, sizeof(uint64_t), by_size);
    size_t index = (size_t)(q * (double)(count - 1) + 0.5);
    return (double)ledger->recoveries_us[fault][index] * 1e-3;
}

/* ---- the load ---- */

static bool is_large(const struct torture_ledger *ledger, uint64_t index)
{
    return ledger->large_every > 0 && index % ledger->large_every == ledger->large_every - 1;
}

/* Whole numbers below 2^17: twice of them is exact, too. */
static float value(uint64_t index, unsigned element)
{
    return (float)((index >> element / 2 % 8 * 3 & 0xFFFF) + element % 65536);
}

static bool right(const struct torture_ledger *ledger, const pen_result *result, uint64_t index)
{
    unsigned elements = is_large(ledger, index) ? LARGE_ELEMENTS : MODEL_ELEMENTS;
    const struct pen_tensor *y = pen_result_find(result, "y");
    if (!y || y->bytes != elements * sizeof(float)) {
        return false;
    }
    for (unsigned i = 0; i < elements; i++) {
        float got, wanted = 2 * value(index, i);
        memcpy(&got, (const uint8_t *)y->data + i * sizeof got, sizeof got);
        if (got < wanted || got > wanted) {
            return false;
        }
    }
    return true;
}

static void on_answer(pen_job *job, pen_result *result, void *arg)
{
    struct torture_entry *entry = arg;
    struct torture_ledger *ledger = entry->ledger;
    enum pen_status status = pen_result_status(result);
    (void)job;
    ledger->under_way--;
    if (ledger->answers[entry->index]++ > 0) {
        ledger->twice++;
    } else {
        ledger->answered++;
        heal_wounds(ledger, entry->index);
    }
    if (status != PEN_OK) {
        ledger->errors[status]++;
        snprintf(ledger->last_error, sizeof ledger->last_error, "%s: %.200s", pen_status_name(status),
                 pen_result_error(result));
    } else {
        uint32_t attempts = pen_result_info(result)->attempts;
        ledger->duplicates += attempts > 1 ? attempts - 1 : 0;
        ledger->wrong += !right(ledger, result, entry->index);
    }
    pen_result_free(result);
    entry_free(entry);
}

static bool grow(struct torture_ledger *ledger)
{
    if (ledger->accepted < ledger->capacity) {
        return true;
    }
    uint8_t *grown = realloc(ledger->answers, (size_t)ledger->capacity * 2);
    if (!grown) {
        return false;
    }
    memset(grown + ledger->capacity, 0, (size_t)ledger->capacity);
    ledger->answers = grown;
    ledger->capacity *= 2;
    return true;
}

static bool submit(struct torture_ledger *ledger)
{
    bool large = is_large(ledger, ledger->accepted);
    unsigned elements = large ? LARGE_ELEMENTS : MODEL_ELEMENTS;
    struct pen_tensor x = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, elements}};
    struct pen_job_options options;
    struct torture_entry *entry = grow(ledger) ? malloc(sizeof *entry) : NULL;
    if (!entry) {
        return false;
    }
    *entry = (struct torture_entry){.ledger = ledger, .index = ledger->accepted};
    for (unsigned i = 0; i < elements; i++) {
        ledger->values[i] = value(ledger->accepted, i);
    }
    x.data = ledger->values;
    x.bytes = elements * sizeof(float);
    pen_job_options_init(&options, sizeof options);
    options.model = large ? LARGE_NAME : MODEL_NAME;
    options.inputs = &x;
    options.inputs_count = 1;
    options.callback = on_answer;
    options.callback_arg = entry;
    if (pen_client_submit(ledger->client, &options, NULL, NULL) != PEN_OK) {
        free(entry);
        return false;
    }
    entry_open(entry);
    ledger->accepted++;
    ledger->large += large;
    ledger->under_way++;
    return true;
}

void ledger_run(struct torture_ledger *ledger, uint64_t until_us)
{
    while (clock_now_us() < until_us) {
        while (!ledger->closed && ledger->under_way < ledger->window && submit(ledger)) {
        }
        pen_client_dispatch(ledger->client, SLICE_US);
    }
}

void ledger_settle(struct torture_ledger *ledger, uint64_t until_us)
{
    ledger->closed = true;
    while (ledger->under_way > 0 && clock_now_us() < until_us) {
        pen_client_dispatch(ledger->client, SLICE_US);
    }
}

uint64_t ledger_lost(const struct torture_ledger *ledger)
{
    return ledger->accepted - ledger->answered;
}
