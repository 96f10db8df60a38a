#include "arrival_log.h"

#include <stdlib.h>
#include <string.h>

void arrival_log_free(struct arrival_log *log)
{
    for (size_t i = 0; log && i < log->names_count; i++)
        free(log->names[i]);
    free(log);
}

/* The model's place among the names; ARRIVAL_LOG_MODELS: no room. */
static size_t name_place(struct arrival_log *log, const char *name)
{
    size_t i = 0;
    while (i < log->names_count && strcmp(log->names[i], name) != 0)
        i++;
    if (i == log->names_count && i < ARRIVAL_LOG_MODELS) {
        char *copy = strdup(name);
        if (!copy)
            return ARRIVAL_LOG_MODELS;
        log->names[log->names_count++] = copy;
    }
    return i;
}

static void note(struct broker *broker, const struct envelope *env, const struct admission *admission, uint64_t bytes)
{
    struct arrival_log *log = broker->arrival_log;
    size_t place = name_place(log, admission->model->name);
    if (place == ARRIVAL_LOG_MODELS) {
        log->unnamed++;
        return;
    }
    log->notes[log->next++ % ARRIVAL_LOG_COUNT] = (struct arrival_note){
        .at_us = broker->now_us,
        .bytes = bytes,
        .deadline_us = env->deadline_us & ((UINT64_C(1) << 48) - 1),
        .model = place & UINT16_MAX,
        .rows = admission->rows,
        .priority = admission->priority,
    };
}

void arrival_log_note(struct broker *broker, const struct envelope *env, const struct admission *admission,
                      uint64_t bytes)
{
    struct arrival_log *log = broker->arrival_log;
    if (!log || (env->flags & FRAME_FLAG_RESENT))
        return;
    if (broker->now_us - log->asked_us <= ARRIVAL_LOG_FORGET_US) {
        note(broker, env, admission, bytes);
        return;
    }
    arrival_log_free(log);
    broker->arrival_log = NULL;
}

const struct arrival_log *arrival_log_ask(struct broker *broker)
{
    if (!broker->arrival_log)
        broker->arrival_log = calloc(1, sizeof *broker->arrival_log);
    if (broker->arrival_log)
        broker->arrival_log->asked_us = broker->now_us;
    return broker->arrival_log;
}

uint64_t arrival_log_first(const struct arrival_log *log)
{
    return log->next > ARRIVAL_LOG_COUNT ? log->next - ARRIVAL_LOG_COUNT : 0;
}
