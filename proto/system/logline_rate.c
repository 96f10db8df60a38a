/* logline_rate.c - an open-addressed table of event names, never emptied: a program has a few dozen. */
#include "logline_rate.h"

#include <string.h>

static uint32_t name_hash(const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

static struct log_rate_slot *slot_find(struct log_rate *rate, const char *evt)
{
    size_t length = strlen(evt);
    if (length == 0 || length >= LOG_RATE_NAME_BYTES)
        return NULL;
    uint32_t start = name_hash(evt);
    for (uint32_t i = 0; i < LOG_RATE_EVENTS; i++) {
        struct log_rate_slot *slot = &rate->slots[(start + i) % LOG_RATE_EVENTS];
        if (slot->evt[0] == '\0')
            memcpy(slot->evt, evt, length + 1);
        if (strcmp(slot->evt, evt) == 0)
            return slot;
    }
    return NULL;
}

bool log_rate_admit(struct log_rate *rate, const char *evt, int level, uint64_t now_us)
{
    struct log_rate_slot *slot = slot_find(rate, evt);
    if (!slot)
        return true;
    if (slot->suppressed == 0 && now_us - slot->window_us >= LOG_RATE_WINDOW_US) {
        slot->window_us = now_us;
        slot->lines = 0;
    }
    if (slot->lines < LOG_RATE_LINES) {
        slot->lines++;
        return true;
    }
    rate->suppressing += slot->suppressed == 0;
    slot->suppressed++;
    slot->level = level;
    return false;
}

bool log_rate_report(struct log_rate *rate, uint64_t now_us, bool all, struct log_rate_slot *ret_slot)
{
    if (rate->suppressing == 0)
        return false;
    for (uint32_t i = 0; i < LOG_RATE_EVENTS; i++) {
        struct log_rate_slot *slot = &rate->slots[i];
        if (slot->suppressed == 0 || (!all && now_us - slot->window_us < LOG_RATE_WINDOW_US))
            continue;
        *ret_slot = *slot;
        slot->suppressed = 0;
        slot->lines = 0;
        slot->window_us = now_us;
        rate->suppressing--;
        return true;
    }
    return false;
}
