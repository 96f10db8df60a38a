#include "failure.h"

#include <stdio.h>
#include <string.h>

#include "tensor_codec.h"
#include "utf8.h"

#define NO_REASON "the worker gives no reason"

/* Keeps whole UTF-8 characters, at most `bytes` in all; invalid bytes become '?'. A text that a message does not have
   is a constant of protobuf-c: only a byte that is not the end may be written. */
static void tidy(char *text, size_t bytes)
{
    size_t at = 0, length;
    for (; text[at]; at += length) {
        length = utf8_sequence((const unsigned char *)text + at);
        if (length == 0)
            text[at] = '?';
        length = length ? length : 1;
        if (at + length > bytes)
            break;
    }
    if (text[at])
        text[at] = '\0';
    fleet_clean(text);
}

static bool is_known(Penstock__ModelFailure *const *list, uint32_t count, const Penstock__ModelFailure *failure)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i]->version == failure->version && strcmp(list[i]->name, failure->name) == 0)
            return true;
    return false;
}

/* Only one failure per name and version: two would be the same series for Prometheus, which then refuses all. */
void failures_take(struct worker *worker, Penstock__ModelFailure **list, size_t listed, uint32_t count)
{
    worker->failures = list;
    worker->failures_listed = 0;
    worker->failures_count = count > listed ? count : (uint32_t)listed;
    for (size_t i = 0; i < listed && i < FAILURES_MAX; i++) {
        Penstock__ModelFailure *failure = list[i];
        tidy(failure->name, FAILURE_NAME_BYTES);
        tidy(failure->error, FAILURE_TEXT_BYTES);
        if (is_known(list, worker->failures_listed, failure))
            continue;
        if (!failure->error[0])
            failure->error = meta_text(NO_REASON);
        if (failure->status == PEN_OK || failure->status >= PEN_STATUS_COUNT)
            failure->status = PEN_ERR_INTERNAL;
        list[worker->failures_listed++] = failure;
    }
}

static bool is_of(const Penstock__ModelFailure *failure, const char *name, uint64_t version)
{
    return strcmp(failure->name, name) == 0 && (version == 0 || failure->version == 0 || failure->version == version);
}

const Penstock__ModelFailure *failure_find(const struct fleet *fleet, const char *name, uint64_t version,
                                           const struct worker **ret_worker)
{
    const Penstock__ModelFailure *best = NULL;
    const struct worker *worker;
    TAILQ_FOREACH(worker, &fleet->all, in_fleet)
    {
        for (uint32_t i = 0; i < worker->failures_listed; i++) {
            const Penstock__ModelFailure *failure = worker->failures[i];
            if (!is_of(failure, name, version) || (best && (!best->serving || failure->serving)))
                continue;
            best = failure;
            *ret_worker = worker;
        }
    }
    return best;
}

const char *failure_text(const struct fleet *fleet, const char *name, uint64_t version, char *text, size_t bytes)
{
    const struct worker *worker = NULL;
    const Penstock__ModelFailure *failure = fleet ? failure_find(fleet, name, version, &worker) : NULL;
    text[0] = '\0';
    if (failure)
        snprintf(text, bytes, "; worker %.64s could not load it: %s", worker->hello->name, failure->error);
    return text;
}
