#include "control_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logline.h"
#include "trace_write.h"
#include "send.h"

enum pen_status control_trace(struct broker *broker, const char *question, char **ret_text, struct pen_error *reterr)
{
    struct writer writer = {.text = NULL};
    struct snapshot *snapshot = snapshot_take(broker);
    enum pen_status status = PEN_ERR_NO_MEMORY;
    if (snapshot)
        status = trace_answer(snapshot, question, &writer, reterr);
    snapshot_free(snapshot);
    if (status == PEN_OK && writer.used > FRAME_CONTROL_BYTES_MAX - 4096)
        status = pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                               "these traces together are larger than an answer may be; name one job");
    if (status != PEN_OK) {
        writer_fini(&writer);
        return status;
    }
    *ret_text = writer.text;
    return PEN_OK;
}

static void tell_worker(struct broker *broker, struct worker *worker, const char *level)
{
    uint8_t meta[64];
    struct envelope env = envelope_make(FRAME_HEARTBEAT);
    Penstock__Heartbeat beat = PENSTOCK__HEARTBEAT__INIT;
    beat.log_level = (char *)(uintptr_t)level;
    broker_send_worker(broker, worker, &env, meta, penstock__heartbeat__pack(&beat, meta));
}

static unsigned tell_workers(struct broker *broker, const char *name, const char *level)
{
    struct worker *worker;
    unsigned count = 0;
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    {
        if (name && strcmp(worker->hello->name, name) != 0)
            continue;
        tell_worker(broker, worker, level);
        count++;
    }
    return count;
}

static enum pen_status say(char **ret_text, const char *level, unsigned workers)
{
    char text[96];
    snprintf(text, sizeof text, "{\"broker\":\"%s\",\"workers_told\":%u}", level, workers);
    *ret_text = strdup(text);
    return *ret_text ? PEN_OK : PEN_ERR_NO_MEMORY;
}

enum pen_status control_log_level(struct broker *broker, const char *argument, char **ret_text,
                                  struct pen_error *reterr)
{
    char name[8];
    enum log_level level;
    size_t bytes = strcspn(argument, " ");
    const char *whom = argument[bytes] ? argument + bytes + 1 : "";
    if (!*argument)
        return say(ret_text, log_level_name(log_level_now()), 0);
    snprintf(name, sizeof name, "%.*s", (int)(bytes < sizeof name ? bytes : sizeof name - 1), argument);
    if (bytes >= sizeof name || log_level_parse(name, &level) != 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "'%.32s' is no level; there are debug, info, warn, error",
                             argument);
    bool all = !*whom, own = all || strcmp(whom, "broker") == 0, workers = all || strcmp(whom, "workers") == 0;
    unsigned told = workers ? tell_workers(broker, NULL, name) : own ? 0 : tell_workers(broker, whom, name);
    if (!own && !workers && told == 0)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                             "no worker named '%.64s' is connected; `penstock workers` lists them", whom);
    if (own)
        log_level_order(level, "control");
    return say(ret_text, log_level_name(log_level_now()), told);
}
