#include "headroom.h"

#include <inttypes.h>
#include <stdio.h>

#include "assertion.h"
#include "logline.h"

#define MIB         ((uint64_t)1024 * 1024)
#define RESERVE_MIN (8 * MIB)
#define RESERVE_MAX (256 * MIB)
#define LOOK_US     10000u    /* when a job comes, the last reading is at most this old */
#define DOUBT_US    2000u     /* the same when the job would have to be refused */
#define RELIEVE_US  1000000u  /* giving memory back takes time, so it is done at most this often */
#define ANSWERS_US  60000000u /* the largest result is remembered for this long, and once more */

static const struct {
    const char *name, *remedy;
} limits[MEMORY_LIMIT_COUNT] = {
    [MEMORY_SETTING] = {"--memory-limit", "raise it"},
    [MEMORY_DATA] = {"RLIMIT_DATA", "raise `ulimit -d` or LimitDATA="},
    [MEMORY_SPACE] = {"RLIMIT_AS", "raise `ulimit -v` or LimitAS="},
    [MEMORY_GROUP] = {"the control group's limit", "raise MemoryMax= or the container's memory"},
};

/* Small limits: at most a quarter. Large limits: RESERVE_MAX, because more is never under way at once. */
uint64_t headroom_reserve(uint64_t limit)
{
    uint64_t reserve = limit / 16;
    if (reserve < RESERVE_MIN)
        reserve = RESERVE_MIN;
    if (reserve > RESERVE_MAX)
        reserve = RESERVE_MAX;
    return reserve < limit / 4 ? reserve : limit / 4;
}

/* Counts half of the free memory inside the allocator: the other half may be in pieces that are too small. */
static uint64_t left_of(const struct memory_reading *reading, enum memory_limit which)
{
    uint64_t limit = reading->limit[which], used = reading->used[which];
    uint64_t reusable = which == MEMORY_DATA || which == MEMORY_SPACE ? reading->reusable / 2 : 0;
    uint64_t room = limit < UINT64_MAX - reusable ? limit + reusable : UINT64_MAX;
    return room > used ? room - used : 0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The reserve, with room for the largest result. */
static uint64_t reserve_of(const struct headroom *h, uint64_t limit)
{
    uint64_t plain = headroom_reserve(limit), answer = larger(h->answers[0], h->answers[1]);
    return answer < limit / 2 - plain ? plain + answer : limit / 2;
}

static void judge(struct headroom *h, const struct memory_reading *reading)
{
    h->slack = h->left = h->limit = UINT64_MAX;
    h->reserve = 0;
    for (enum memory_limit i = 0; i < MEMORY_LIMIT_COUNT; i++) {
        if (reading->limit[i] == UINT64_MAX)
            continue;
        uint64_t left = left_of(reading, i), reserve = reserve_of(h, reading->limit[i]);
        uint64_t slack = left > reserve ? left - reserve : 0;
        if (slack > h->slack || (slack == h->slack && left >= h->left))
            continue;
        h->slack = slack;
        h->left = left;
        h->limit = reading->limit[i];
        h->reserve = reserve;
        h->which = i;
    }
}

/* Once memory is short, it stays short until a quarter of the reserve more is free; otherwise each job would log a
   change. */
static bool is_short(const struct headroom *h)
{
    return h->slack <= (h->is_short ? h->reserve / 4 : 0);
}

static const char *left_text(const struct headroom *h, char text[24])
{
    snprintf(text, 24, "%" PRIu64, h->left);
    return h->left == UINT64_MAX ? "unlimited" : text;
}

static void tell(struct headroom *h, bool now_short)
{
    char text[24];
    if (now_short && !h->is_short)
        log_event(LOG_WARN, "memory_short", "left=%" PRIu64 " reserve=%" PRIu64 " limit=%" PRIu64 " of=%s", h->left,
                  h->reserve, h->limit, limits[h->which].name);
    if (!now_short && h->is_short)
        log_event(LOG_INFO, "memory_back", "left=%s refused=%" PRIu64, left_text(h, text), h->refused);
    if (now_short != h->is_short)
        h->source.spare(h->source.context, now_short);
    h->is_short = now_short;
}

bool headroom_relieve(struct headroom *headroom, uint64_t now_us)
{
    struct headroom *h = headroom;
    if (!h || (h->relieved_us != 0 && now_us - h->relieved_us < RELIEVE_US))
        return false;
    h->source.relieve(h->source.context);
    h->relieved_us = now_us;
    return true;
}

static void answers_age(struct headroom *h, uint64_t now_us)
{
    if (now_us - h->answers_us < ANSWERS_US)
        return;
    h->answers[1] = now_us - h->answers_us < 2 * ANSWERS_US ? h->answers[0] : 0;
    h->answers[0] = 0;
    h->answers_us = now_us;
}

void headroom_answer(struct headroom *headroom, uint64_t bytes, uint64_t now_us)
{
    struct headroom *h = headroom;
    if (!h)
        return;
    answers_age(h, now_us);
    h->answers[0] = larger(h->answers[0], bytes);
}

static void look(struct headroom *h, uint64_t now_us)
{
    struct memory_reading reading = {.reusable = 0};
    answers_age(h, now_us);
    h->source.read(h->source.context, false, &reading);
    judge(h, &reading);
    if (is_short(h)) {
        h->source.read(h->source.context, true, &reading);
        judge(h, &reading);
    }
    if (is_short(h) && headroom_relieve(h, now_us)) {
        h->source.read(h->source.context, true, &reading);
        judge(h, &reading);
    }
    bool now_short = is_short(h);
    tell(h, now_short);
    if (now_short)
        h->slack = 0;
    else if (h->source.missing() > 0)
        h->source.hold();
    h->missing = h->source.missing();
    h->taken = 0;
    h->read_us = now_us;
}

void headroom_init(struct headroom *headroom, const struct memory_source *source, uint64_t now_us)
{
    *headroom = (struct headroom){.source = *source};
    source->spare(source->context, false);
    look(headroom, now_us);
}

static bool fits(const struct headroom *h, uint64_t wanted)
{
    return h->taken <= h->slack && wanted <= h->slack - h->taken && h->source.missing() == h->missing;
}

enum pen_status headroom_take(struct headroom *headroom, uint64_t held, uint64_t wanted, uint64_t now_us,
                              struct pen_error *reterr)
{
    struct headroom *h = headroom;
    if (!h)
        return PEN_OK;
    uint64_t age_us = now_us - h->read_us;
    wanted += HEADROOM_JOB_BYTES;
    if (age_us >= LOOK_US || (age_us >= DOUBT_US && !fits(h, wanted)))
        look(h, now_us);
    if (fits(h, wanted)) {
        h->taken += held + wanted;
        PEN_ASSERT(h->taken >= wanted, "what was taken since the last look fits into its counter");
        return PEN_OK;
    }
    h->refused++;
    return pen_error_set(reterr, PEN_ERR_BUSY,
                         "the broker is near its memory limit: %" PRIu64 " of %" PRIu64
                         " MiB are left (%s), and %" PRIu64 " MiB are kept for answers; try again later, or %s",
                         h->left / MIB, h->limit / MIB, limits[h->which].name, h->reserve / MIB,
                         limits[h->which].remedy);
}

bool headroom_short(const struct headroom *headroom)
{
    return headroom && headroom->is_short;
}

enum pen_status headroom_check(const struct headroom *headroom, uint64_t needed, struct pen_error *reterr)
{
    const struct headroom *h = headroom;
    bool mapped = h->which == MEMORY_DATA || h->which == MEMORY_SPACE;
    bool lacks = h->is_short || (mapped && h->left < needed);
    if (!lacks || h->which == MEMORY_GROUP) /* other processes of the group may give some back */
        return PEN_OK;
    uint64_t used = h->limit > h->left ? h->limit - h->left : 0;
    uint64_t free_bytes = mapped && needed > h->reserve ? needed : h->reserve;
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY,
                         "the memory limit of %" PRIu64 " MiB (%s) is too small: %" PRIu64
                         " MiB are in use before the first job, and %" PRIu64 " MiB must be free; %s",
                         h->limit / MIB, limits[h->which].name, (used + MIB - 1) / MIB, free_bytes / MIB,
                         limits[h->which].remedy);
}
