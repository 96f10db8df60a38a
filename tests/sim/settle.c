/* settle.c - the end of a schedule: all is mended, everybody who waits is answered, and nothing may be left. */
#include "sim.h"

#define SETTLE_TURNS 400u
#define SETTLE_US    20000u

static bool whole(const struct conn *conn, const struct sim_bulk *bulk)
{
    return conn && conn->state == CONN_OPEN && (!bulk->conn || bulk->conn->state == CONN_OPEN);
}

static void heal(struct sim *sim)
{
    scarce_heal(sim);
    quotas_heal(sim);
    for (uint32_t i = 0; i < sim->sides_count; i++) {
        struct sim_side *side = &sim->sides[i];
        if (side->up && side->broker.draining)
            side_down(sim, side);
        if (!side->up)
            side_up(sim, side);
    }
    for (uint32_t i = 0; i < SIM_WORKERS; i++) {
        struct sim_worker *worker = &sim->workers[i];
        worker->frozen = false;
        bool changes = models_mend(worker) || sim->has.steps;
        changes |= contracts_mend(worker);
        steps_mend(worker, i);
        if (changes && (worker->links[0].ready || worker->links[1].ready))
            worker_tell(sim, worker);
        if (worker->draining && !sim->has.gentle)
            worker_kill(sim, worker);
        steps_mend(worker, i); /* a new one, too */
        models_mend(worker);
        contracts_mend(worker);
        for (uint32_t k = 0; k < sim->sides_count; k++) {
            struct sim_link *link = &worker->links[k];
            bool anew = !whole(link->conn, &link->bulk) || (!sim->has.gentle && sim_chance(sim, 30));
            if (anew ||
                (changes && !link->ready)) /* a silent connection; or its hello is on its way, and offers less */
                worker_connect(sim, link);
        }
    }
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        struct sim_client *client = &sim->clients[i];
        if (!whole(client->conn, &client->bulk))
            client_connect(sim, client);
    }
}

/* In a gentle world who drains finishes what it holds: that is innocent of its end. */
static bool replace_drained(struct sim *sim, uint32_t index)
{
    struct sim_worker *worker = &sim->workers[index];
    if (!worker->draining || worker_holds_jobs(worker) > 0)
        return false;
    worker_goodbye(sim, worker);
    steps_mend(worker, index);
    worker->kind = 0;
    for (uint32_t k = 0; k < sim->sides_count; k++)
        worker_connect(sim, &worker->links[k]);
    return true;
}

static uint32_t unanswered(const struct sim *sim)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SIM_CLIENTS; i++)
        count += client_unanswered(&sim->clients[i]);
    return count;
}

/* A turn of the broker's loop takes what is there: replies first. */
static bool some_arrive(struct sim *sim)
{
    uint32_t count = 1 + sim_draw(sim, 6), arrived = 0;
    struct sim_side *side = sim_some_side(sim);
    for (uint32_t turn = 0; turn < sim->sides_count && arrived == 0; turn++) { /* something, if anything is there */
        while (arrived < count &&
               (net_deliver_up(sim, &side->workers_port) || net_deliver_up(sim, &side->clients_port)))
            arrived++;
        side = &sim->sides[1 - side->number];
    }
    return arrived > 0;
}

void sim_flow(struct sim *sim)
{
    bool moved = true;
    while (moved && !sim->failure[0]) {
        moved = some_arrive(sim);
        for (uint32_t i = 0; i < SIM_CLIENTS; i++)
            moved |= client_read(sim, &sim->clients[i]);
        for (uint32_t i = 0; i < SIM_WORKERS; i++) {
            for (uint32_t k = 0; k < sim->sides_count; k++) {
                moved |= worker_read(sim, &sim->workers[i].links[k]);
                worker_answer(sim, &sim->workers[i].links[k], 16, true);
            }
            moved |= replace_drained(sim, i);
        }
        while (redis_asked() > 0)
            redis_answer(sim);
        sides_redis(sim);
        detached_work(sim, true);
        sides_tick(sim);
        check_all(sim);
    }
}

static void check_answered(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        const struct sim_client *client = &sim->clients[i];
        for (uint32_t k = 0; k < client->jobs_count; k++) {
            if (client->jobs[k].results == 0)
                sim_fail(sim, "job %016lx-%u never had an answer; it was sent %u times", (unsigned long)client->uuid,
                         k + 1, client->jobs[k].sends);
        }
    }
}

/* A worker that has yet to answer something: behind a suspect it may be for a second, also what nobody wants any more. NULL: there is none. */
static const struct worker *owing(const struct broker *broker)
{
    const struct worker *worker;
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    {
        if (worker->messages != 0)
            return worker;
    }
    return NULL;
}

static void check_empty(struct sim *sim, const struct broker *broker)
{
    const struct worker *worker = owing(broker);
    if (broker->live != 0 || broker->queued_bytes != 0 || broker->flights.count != 0 || broker->deadlines.count != 0 ||
        !TAILQ_EMPTY(&broker->lookups) || !TAILQ_EMPTY(&broker->models.active) || broker->parked.count != 0)
        sim_fail(sim,
                 "nobody waits, and yet %lu jobs live, %lu bytes wait, %zu flights, %zu deadlines, %lu in the lobby",
                 (unsigned long)broker->live, (unsigned long)broker->queued_bytes, broker->flights.count,
                 broker->deadlines.count, (unsigned long)broker->parked.count);
    if (worker)
        sim_fail(sim, "worker %s still owes %u messages", worker->hello->name, worker->messages);
}

void sim_settle(struct sim *sim)
{
    heal(sim);
    for (uint32_t turn = 0; turn < SETTLE_TURNS && !sim->failure[0]; turn++) {
        sim_flow(sim);
        sim->clock_us += SETTLE_US;
        sim_signs_of_life(sim);
        sides_tick(sim);
        bool idle = true;
        for (uint32_t i = 0; i < sim->sides_count; i++) {
            struct sim_side *side = &sim->sides[i];
            while (net_tell_end(sim, &side->workers_port) || net_tell_end(sim, &side->clients_port))
                ;
            idle &= side->broker.live == 0 && side->broker.parked.count == 0 && side->broker.queued_bytes == 0 &&
                    owing(&side->broker) == NULL;
        }
        if (unanswered(sim) == 0 && idle && turn > 1 && !sim_detached_open(sim))
            break;
    }
    check_answered(sim);
    detached_check_end(sim);
    for (uint32_t i = 0; i < sim->sides_count; i++) {
        check_empty(sim, &sim->sides[i].broker);
        quotas_check_end(sim, &sim->sides[i].broker);
    }
    if (!sim->has.scarce || sim->failure[0])
        return;
    for (uint32_t i = 0; i < SIM_CLIENTS; i++)
        client_acknowledge(sim, &sim->clients[i]);
    sim_flow(sim);
    scarce_check_end(sim);
}
