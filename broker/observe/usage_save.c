#include "usage_save.h"

#include <stdlib.h>

#include "logline.h"
#include "usage_file.h"
#include "usage_merge.h"

#define HOUR_US 3600000000u

static void write_rest(const struct broker *broker, const struct usage_account *account, struct writer *writer)
{
    struct usage_counts rest = usage_minus(&account->hour, &account->saved);
    const struct model_tally *model = &broker->metrics->models[account->model];
    const struct usage_of of = {.hour = broker->usage->hour,
                                .broker = broker->uuid,
                                .tenant = broker->metrics->tenants[account->tenant].name,
                                .model = model->name,
                                .version = model->version};
    if (!usage_none(&rest))
        usage_line(writer, &of, &rest);
}

static void mark_saved(struct usage *usage)
{
    for (uint32_t i = 0; i < usage->accounts_count; i++)
        usage->accounts[i].saved = usage->accounts[i].hour;
}

void usage_save(struct broker *broker)
{
    struct usage *usage = broker->usage;
    struct writer writer = {.text = NULL};
    if (!broker->usage_file || usage->hour == 0)
        return;
    for (uint32_t i = 0; i < usage->accounts_count; i++)
        write_rest(broker, &usage->accounts[i], &writer);
    if (!writer.failed && writer.used == 0)
        return;
    if (!writer.failed && usage_file_give(broker->usage_file, usage->hour, writer.text, writer.used))
        mark_saved(usage);
    else
        writer_fini(&writer); /* it is told again with what comes next */
}

static bool all_saved(const struct usage *usage)
{
    for (uint32_t i = 0; i < usage->accounts_count; i++) {
        struct usage_counts rest = usage_minus(&usage->accounts[i].hour, &usage->accounts[i].saved);
        if (!usage_none(&rest))
            return false;
    }
    return true;
}

static void end_hour(struct broker *broker, uint32_t hour)
{
    usage_save(broker);
    if (broker->usage_file && broker->usage->hour && !all_saved(broker->usage))
        log_event(LOG_ERROR, "usage_lost", "reason=%s",
                  "an hour is over, and its last lines found no room: --usage-dir could not be written for long, or "
                  "there is no memory");
    usage_turn(broker->usage, hour);
}

void usage_beat(struct broker *broker)
{
    uint32_t hour = (uint32_t)(((int64_t)broker->now_us + broker->metrics->unix_offset_us) / HOUR_US);
    if (hour != broker->usage->hour)
        end_hour(broker, hour);
    if (!broker->usage_file || broker->now_us < broker->usage_us || !usage_file_idle(broker->usage_file))
        return;
    usage_save(broker);
    broker->usage_us = broker->now_us + (uint64_t)broker->options->usage_every_us;
}
