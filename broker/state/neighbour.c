#include "neighbour.h"

/* In thousandths of the setting; where the setting says nothing, of what is usual. */
static uint64_t thousandths(uint64_t count, uint64_t busy, uint64_t usual)
{
    uint64_t load = count * LOAD_BUSY / (busy ? busy : usual);
    return load < LOAD_MAX ? load : LOAD_MAX;
}

void neighbours_measure(struct neighbours *neighbours, uint64_t jobs, uint64_t clients, uint64_t busy_jobs,
                        uint64_t busy_clients)
{
    uint64_t by_jobs = thousandths(jobs, busy_jobs, LOAD_JOBS_USUAL);
    uint64_t by_clients = thousandths(clients, busy_clients, LOAD_CLIENTS_USUAL);
    uint64_t counts = busy_jobs ? by_jobs : 0;
    if (busy_clients && by_clients > counts)
        counts = by_clients;
    neighbours->load = (uint32_t)(by_jobs > by_clients ? by_jobs : by_clients);
    neighbours->busy = counts >= LOAD_BUSY || (neighbours->busy && counts >= LOAD_QUIET);
}

bool neighbour_here(const struct neighbour *neighbour, uint64_t now_us, uint64_t liveness_us)
{
    return neighbour->heard_us != 0 && now_us - neighbour->heard_us < liveness_us;
}

uint32_t neighbours_here(const struct neighbours *neighbours, uint64_t now_us, uint64_t liveness_us)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < neighbours->count; i++)
        count += neighbour_here(&neighbours->all[i], now_us, liveness_us);
    return count;
}

/* With the clients that were sent there since: each brings as much as one of ours has. */
static uint64_t load_of(const struct neighbours *neighbours, const struct neighbour *neighbour, uint64_t clients)
{
    uint64_t brought = (uint64_t)neighbour->sent * (neighbours->load ? neighbours->load : 1);
    return neighbour->load + brought / (clients ? clients : 1);
}

static struct neighbour *least(struct neighbours *neighbours, uint64_t clients, uint64_t now_us, uint64_t liveness_us)
{
    struct neighbour *best = NULL;
    for (uint32_t i = 0; i < neighbours->count; i++) {
        struct neighbour *next = &neighbours->all[i];
        if (!neighbour_here(next, now_us, liveness_us) || next->draining)
            continue;
        if (!best || load_of(neighbours, next, clients) < load_of(neighbours, best, clients))
            best = next;
    }
    return best;
}

struct neighbour *neighbours_for_client(struct neighbours *neighbours, uint64_t clients, uint64_t now_us,
                                        uint64_t liveness_us)
{
    struct neighbour *best = neighbours->busy ? least(neighbours, clients, now_us, liveness_us) : NULL;
    if (!best || best->busy || load_of(neighbours, best, clients) + LOAD_AHEAD > neighbours->load)
        return NULL;
    best->sent++;
    return best;
}

struct neighbour *neighbours_for_jobs(struct neighbours *neighbours, uint64_t now_us, uint64_t liveness_us)
{
    return least(neighbours, 1, now_us, liveness_us);
}

void neighbours_guest_add(struct neighbours *neighbours, uint32_t peer)
{
    if (!neighbours_guest(neighbours, peer))
        neighbours->guests[neighbours->guests_count++ % GUESTS_MAX] = peer;
}

bool neighbours_guest(const struct neighbours *neighbours, uint32_t peer)
{
    uint32_t count = neighbours->guests_count < GUESTS_MAX ? neighbours->guests_count : GUESTS_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (neighbours->guests[i] == peer)
            return true;
    }
    return false;
}
