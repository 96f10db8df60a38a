#include "control_internal.h"

#include <inttypes.h>
#include <stdio.h>

#define HOUR_S 3600u

/* argument: "SINCE UNTIL", seconds since 1970; empty: all. The hours that begin in between, the one SINCE lies in too. */
struct hours {
    uint64_t since_hour, until_hour;
};

static bool hours_read(const char *argument, struct hours *ret)
{
    uint64_t since = 0, until = UINT64_MAX;
    char more;
    int read = sscanf(argument, "%20" SCNu64 " %20" SCNu64 "%c", &since, &until, &more);
    *ret = (struct hours){since / HOUR_S, until / HOUR_S};
    return (read <= 0 && *argument == '\0') || read == 1 || read == 2;
}

static void fill_row(const struct broker *broker, const struct usage_account *account, uint32_t hour,
                     const struct usage_counts *counts, Penstock__UsageRow *to)
{
    const struct model_tally *model = &broker->metrics->models[account->model];
    penstock__usage_row__init(to);
    to->hour_unix_s = (uint64_t)hour * HOUR_S;
    to->tenant = (char *)(uintptr_t)broker->metrics->tenants[account->tenant].name;
    to->model = (char *)(uintptr_t)model->name;
    to->version = model->version;
#define X(name) to->name = counts->name;
    USAGE_COUNTS(X)
#undef X
}

static bool wanted(const struct hours *asked, uint32_t hour, const struct usage_counts *counts)
{
    return hour >= asked->since_hour && hour <= asked->until_hour && !usage_none(counts);
}

void control_usage(struct broker *broker, struct control_answer *answer, const char *argument)
{
    const struct usage *usage = broker->usage;
    struct hours asked;
    if (!hours_read(argument, &asked)) {
        control_fail(answer, PEN_ERR_INVALID, "usage takes two times in seconds since 1970: SINCE UNTIL");
        return;
    }
    Penstock__Usage *to = control_room(answer, sizeof *to);
    size_t most = usage->rows_count + usage->accounts_count;
    Penstock__UsageRow *rows = control_room(answer, most * sizeof *rows);
    Penstock__UsageRow **pointers = control_room(answer, most * sizeof *pointers);
    if (!to || !rows || !pointers)
        return;
    penstock__usage__init(to);
    to->broker = broker->uuid;
    to->since_unix_s = (uint64_t)usage->since_hour * HOUR_S;
    to->rows = pointers;
    for (uint32_t i = 0; i < usage->rows_count; i++) {
        const struct usage_row *row = &usage->rows[i];
        if (wanted(&asked, row->hour, &row->counts))
            fill_row(broker, &usage->accounts[row->account], row->hour, &row->counts, &rows[to->n_rows++]);
    }
    for (uint32_t i = 0; i < usage->accounts_count; i++) {
        const struct usage_account *account = &usage->accounts[i];
        if (wanted(&asked, usage->hour, &account->hour))
            fill_row(broker, account, usage->hour, &account->hour, &rows[to->n_rows++]);
    }
    for (size_t i = 0; i < to->n_rows; i++)
        pointers[i] = &rows[i];
    answer->reply.usage = to;
}
