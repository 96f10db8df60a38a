#include "link.h"

#include "assertion.h"

static const uint32_t schedule_us[] = {0, 100, 300, 600, 1500, 4000, 13000, 40000, 121000, 400000, 1200000};
_Static_assert(sizeof schedule_us / sizeof schedule_us[0] == LINK_PROBES, "each probe has its time");

void link_init(struct link *link, uint32_t peer, int fd, uint64_t now_us)
{
    *link = (struct link){.peer = peer, .fd = fd, .heard_us = now_us, .sent_us = now_us, .probe_step = LINK_PROBES};
}

void link_sent(struct link *link, uint64_t bytes, uint64_t now_us)
{
    link->bytes_sent += bytes;
    link->sent_us = now_us;
}

bool link_wants_ping(const struct link *link, uint64_t cap_bytes)
{
    return link->bytes_marked == 0 && link->bytes_sent - link->bytes_taken > cap_bytes / 8;
}

void link_pinged(struct link *link, uint64_t now_us)
{
    link->pings++;
    link->sent_us = now_us;
    if (link->bytes_marked == 0) {
        link->bytes_marked = link->bytes_sent;
        link->ping_marked = link->pings;
    }
}

void link_ponged(struct link *link)
{
    if (link->pongs == link->pings)
        return; /* an answer to nothing */
    link->pongs++;
    PEN_ASSERT(link->bytes_marked <= link->bytes_sent, "what was marked has been sent");
    if (link->bytes_marked != 0 && link->pongs == link->ping_marked) {
        link->bytes_taken = link->bytes_marked;
        link->bytes_marked = 0;
    }
    PEN_ASSERT(link->bytes_taken <= link->bytes_sent, "no peer has taken more than it was sent");
}

bool link_full(const struct link *link, uint64_t cap_bytes)
{
    return link->bytes_sent - link->bytes_taken > cap_bytes;
}

void link_probe(struct link *link, uint64_t now_us)
{
    link->probe_start_us = now_us;
    link->probe_step = 0;
}

bool link_probing(const struct link *link)
{
    return link->probe_step < LINK_PROBES;
}

uint64_t link_probe_next_us(const struct link *link)
{
    return link_probing(link) ? link->probe_start_us + schedule_us[link->probe_step] : UINT64_MAX;
}

uint64_t link_probed_us(const struct link *link, uint64_t now_us)
{
    return link->probe_start_us != 0 && now_us - link->probe_start_us <= schedule_us[LINK_PROBES - 1]
               ? now_us - link->probe_start_us
               : 0;
}

bool link_probe_due(struct link *link, uint64_t now_us)
{
    if (now_us < link_probe_next_us(link) || !link_probing(link))
        return false;
    link->probe_step++;
    PEN_ASSERT(link->probe_step <= LINK_PROBES, "probes end");
    return true;
}
