#include "usage.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "metrics.h"

#define TENANTS (METRICS_TENANTS_MAX + 1)
#define MODELS  (METRICS_MODELS_MAX + 1)

_Static_assert((size_t)TENANTS *MODELS < UINT16_MAX, "an account's index + 1 fits into account_of");

/* Room for one more account; false without memory. */
static bool accounts_grow(struct usage *usage)
{
    if (usage->accounts_count < usage->accounts_room)
        return true;
    uint32_t room = usage->accounts_room ? 2 * usage->accounts_room : 16;
    struct usage_account *grown = realloc(usage->accounts, room * sizeof *grown);
    if (!grown)
        return false;
    usage->accounts = grown;
    usage->accounts_room = room;
    return true;
}

static uint32_t account_add(struct usage *usage, uint32_t tenant, uint32_t model)
{
    usage->accounts[usage->accounts_count] =
        (struct usage_account){.tenant = (uint16_t)tenant, .model = (uint16_t)model};
    usage->account_of[tenant * MODELS + model] = (uint16_t)(usage->accounts_count + 1);
    return usage->accounts_count++;
}

struct usage *usage_new(void)
{
    struct usage *usage = calloc(1, sizeof *usage);
    if (usage && (usage->account_of = calloc((size_t)TENANTS * MODELS, sizeof *usage->account_of)) != NULL &&
        accounts_grow(usage)) {
        account_add(usage, 0, 0);
        return usage;
    }
    usage_free(usage);
    return NULL;
}

void usage_free(struct usage *usage)
{
    if (!usage)
        return;
    free(usage->accounts);
    free(usage->rows);
    free(usage->account_of);
    free(usage);
}

struct usage_counts *usage_of(struct usage *usage, uint32_t tenant, uint32_t model)
{
    PEN_ASSERT(tenant < TENANTS && model < MODELS, "an account is made of rows of the metrics");
    uint32_t index = usage->account_of[tenant * MODELS + model];
    if (index == 0 && accounts_grow(usage))
        index = account_add(usage, tenant, model) + 1;
    return &usage->accounts[index ? index - 1 : 0].hour;
}

/* A quarter of the rows goes at a time, by whole hours; what was left of a partial hour is no longer told as complete. */
static void rows_shorten(struct usage *usage)
{
    uint32_t gone = usage->rows_count / 4 + 1;
    usage->since_hour = usage->rows[gone - 1].hour + 1;
    while (gone < usage->rows_count && usage->rows[gone].hour < usage->since_hour)
        gone++;
    usage->rows_count -= gone;
    memmove(usage->rows, usage->rows + gone, usage->rows_count * sizeof *usage->rows);
}

static bool rows_grow(struct usage *usage)
{
    if (usage->rows_count == USAGE_ROWS_MAX)
        rows_shorten(usage);
    if (usage->rows_count < usage->rows_room)
        return true;
    uint32_t room = usage->rows_room ? 2 * usage->rows_room : 64;
    struct usage_row *grown = realloc(usage->rows, room * sizeof *grown);
    if (!grown)
        return false;
    usage->rows = grown;
    usage->rows_room = room;
    return true;
}

void usage_turn(struct usage *usage, uint32_t hour)
{
    if (usage->hour == hour)
        return;
    if (usage->hour == 0)
        usage->since_hour = hour; /* the first look at the clock */
    for (uint32_t i = 0; usage->hour && i < usage->accounts_count; i++) {
        struct usage_account *account = &usage->accounts[i];
        if (usage_none(&account->hour))
            continue;
        if (rows_grow(usage))
            usage->rows[usage->rows_count++] = (struct usage_row){usage->hour, i, account->hour};
        else
            usage->since_hour = usage->hour + 1; /* no memory: this hour is in the file alone */
        account->hour = account->saved = (struct usage_counts){0};
    }
    usage->hour = hour;
}

void usage_add(struct usage_counts *to, const struct usage_counts *from)
{
#define X(name) to->name += from->name;
    USAGE_COUNTS(X)
#undef X
}

struct usage_counts usage_minus(const struct usage_counts *from, const struct usage_counts *what)
{
    struct usage_counts rest;
#define X(name)                                                                                                        \
    PEN_ASSERT(from->name >= what->name, "counts of an hour only grow");                                               \
    rest.name = from->name - what->name;
    USAGE_COUNTS(X)
#undef X
    return rest;
}

bool usage_none(const struct usage_counts *counts)
{
    static const struct usage_counts none;
    return memcmp(counts, &none, sizeof none) == 0;
}
