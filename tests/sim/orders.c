/* What administrators ask for: that a worker drains, that a job ends whoever's it is, that quarantine is emptied, that jobs are copied to another version. */
#include <stdio.h>

#include "sim.h"

static void ask(struct sim *sim, const struct sim_client *client, const char *verb, const char *argument)
{
    uint8_t meta[512];
    net_say(sim, client->conn, envelope_make(FRAME_CONTROL), meta, wire_control(meta, verb, argument, 1));
    sim->counts.orders++;
}

static void cancel_one(struct sim *sim, const struct sim_client *asker)
{
    struct sim_client *client = &sim->clients[sim_world_draw(sim, SIM_CLIENTS)];
    char text[JOB_ID_TEXT_BYTES];
    if (client->jobs_count == 0)
        return;
    struct sim_job *job = &client->jobs[sim_world_draw(sim, client->jobs_count)];
    if (job->role != ROLE_PLAIN)
        return; /* detached.c */
    job->ended_by_order = true;
    ask(sim, asker, "cancel", job_id_text((struct job_id){client->uuid, job->sequence}, text));
}

/* Where there are two versions: jobs of the older one are copied to the newer one, or no more. */
static void shadow_some(struct sim *sim, const struct sim_client *client)
{
    static const char *const orders[] = {"quick 7 500000", "twin 7 1000000", "quick 7 0", "quick 7 1000000"};
    if (sim->has.versions)
        ask(sim, client, "shadow", orders[sim_world_draw(sim, 4)]);
}

void orders_some(struct sim *sim)
{
    struct sim_client *client = &sim->clients[sim_world_draw(sim, SIM_CLIENTS)];
    if (!sim_world(sim, 3) || !client->ready)
        return;
    switch (sim_world_draw(sim, 5)) {
    case 0:
        ask(sim, client, "drain", sim->workers[sim_world_draw(sim, SIM_WORKERS)].name);
        break;
    case 1:
        ask(sim, client, "kick", "all");
        break;
    case 2:
        shadow_some(sim, client);
        break;
    default:
        cancel_one(sim, client);
    }
}
