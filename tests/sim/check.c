/* The invariants of the broker's state. Each job is in exactly one place, and every sum is the sum of its parts. */
#include <string.h>

#include "sim.h"
#include "transfer_internal.h"

#define BAD(...)                                                                                                       \
    do {                                                                                                               \
        sim_fail(sim, __VA_ARGS__);                                                                                    \
        return;                                                                                                        \
    } while (0)

/* What one walk over the live jobs finds; the places where they must be are counted against it. */
#define CENSUS_MODELS 16u

struct sums {
    const struct model *model;
    uint64_t waiting, running, bytes, users;
};

struct census {
    uint32_t queued, lookups, followers, dispatched, hedged, deadlines, wholes, steps, handed;
    uint64_t steps_bytes;        /* kept for ensembles that run in steps */
    uint64_t fresh, fresh_bytes; /* jobs that wait and never ran */
    struct sums models[CENSUS_MODELS];
    uint32_t models_count;
};

static struct sums *sums_of(struct census *census, const struct model *model)
{
    for (uint32_t i = 0; i < census->models_count; i++) {
        if (census->models[i].model == model)
            return &census->models[i];
    }
    struct sums *sums = &census->models[census->models_count < CENSUS_MODELS - 1 ? census->models_count++ : 0];
    *sums = (struct sums){.model = model};
    return sums;
}

static void check_followers(struct sim *sim, const struct single_flight *flight, struct census *census)
{
    const struct job *job;
    uint32_t count = 0;
    TAILQ_FOREACH(job, &flight->followers, in_group)
    {
        if (job->flight != flight || job->state != JOB_FOLLOWING)
            BAD("a flight has a follower that is %s", job_state_name((enum job_state)job->state));
        if ((flight->leader->state == JOB_QUEUED || flight->leader->state == JOB_STEPS) &&
            flight->leader->priority > job->priority)
            BAD("a leader that is %s has priority %u, a follower %u",
                job_state_name((enum job_state)flight->leader->state), flight->leader->priority, job->priority);
        count++;
    }
    if (count != flight->followers_count)
        BAD("a flight has %u followers and counts %u", count, flight->followers_count);
    if (flight->leader->state == JOB_FOLLOWING || flight->leader->state == JOB_DONE)
        BAD("a flight's leader is %s", job_state_name((enum job_state)flight->leader->state));
    census->followers += count;
}

/*
 * A job of a list or heap that says it is queued, and as many of them as there are queued jobs: each is in exactly one place, for a job has one
 * link and one place of each kind.
 */
static bool queued_in(const struct job *job, const struct lane *lane)
{
    return job->state == JOB_QUEUED && job->lane == lane;
}

static void check_lane(struct sim *sim, const struct lane *lane, uint32_t *queued)
{
    uint64_t rows = 0;
    size_t count = lane->front.count;
    bool ours = true;
    for (size_t i = 0; i < lane->front.count; i++) {
        const struct job *job = lane->front.items[i];
        rows += job->rows;
        ours &= queued_in(job, lane);
    }
    for (size_t i = 0; i < lane->turns.count; i++) {
        const struct turn *turn = lane->turns.items[i];
        const struct job *job;
        size_t own = turn->jobs.rest.count;
        for (size_t k = 0; k < turn->jobs.rest.count; k++) {
            job = turn->jobs.rest.items[k];
            rows += job->rows;
            ours &= queued_in(job, lane) && job->turn == turn;
        }
        TAILQ_FOREACH(job, &turn->jobs.run, in_group)
        {
            rows += job->rows;
            ours &= queued_in(job, lane) && job->turn == turn;
            own++;
        }
        if (turn->lane != lane || own == 0 || own != turn->jobs.count)
            BAD("a lane has an empty turn, one that miscounts, or one of another lane");
        count += own;
    }
    if (!ours)
        BAD("a lane of model %s holds a job that is elsewhere", lane->model->name);
    if (rows != lane->rows || count != lane->count || count == 0 || lane->users < count)
        BAD("a lane of %zu jobs, %lu rows counts %zu, %lu and %u users", count, (unsigned long)rows, lane->count,
            (unsigned long)lane->rows, lane->users);
    *queued += (uint32_t)count;
}

/* Of one job, and its entry in the census. */
static void check_live(struct sim *sim, const struct job *job, struct census *census)
{
    const struct broker *broker = &sim->side->broker;
    struct sums *sums = sums_of(census, job->lane->model);
    bool dispatched = job->state == JOB_DISPATCHED, runs = dispatched || job->state == JOB_STEPS;
    if (!job->request)
        BAD("a live job without a request");
    sums->users++;
    sums->running += runs;
    sums->waiting += !runs;
    sums->bytes += runs ? 0 : shared_message_bytes(job->request);
    bool fresh =
        !runs && job->attempts == 0 && !job->front; /* one that came back by its worker had not begun, perhaps */
    census->fresh += fresh;
    census->fresh_bytes += fresh ? shared_message_bytes(job->request) : 0;
    census->queued += job->state == JOB_QUEUED;
    census->lookups += job->state == JOB_LOOKUP;
    census->followers -= job->state == JOB_FOLLOWING;
    census->dispatched += dispatched;
    census->hedged += dispatched && job->hedge;
    census->deadlines +=
        job->deadline_us != DEADLINE_NONE && job->owner != OWNER_STEP; /* it is the whole that expires */
    census->wholes += job->state == JOB_STEPS;
    census->handed += job->state == JOB_HANDED;
    if (jobs_find(&broker->jobs, job->id) != job)
        BAD("a live job is not found by its id");
    if ((job->dispatch != NULL) != dispatched)
        BAD("a job that is %s and its dispatch disagree", job_state_name((enum job_state)job->state));
    if (dispatched && (job->slot >= job->dispatch->count || job->dispatch->slots[job->slot].job != job ||
                       job->dispatch->slots[job->slot].answered))
        BAD("a dispatched job is not in an unanswered slot");
    if (dispatched && job->hedge &&
        (job->hedge->slots[job->hedge_slot].job != job || job->hedge->slots[job->hedge_slot].answered ||
         job->hedge->worker == job->dispatch->worker))
        BAD("a twin is not in an unanswered slot of another worker");
    if (job->deaths > broker->options->max_attempts)
        BAD("a job survived %u deaths of workers", job->deaths);
    if (job->flight && job->flight->leader == job)
        check_followers(sim, job->flight, census);
    else if ((job->flight != NULL) != (job->state == JOB_FOLLOWING))
        BAD("a job that is %s and its flight disagree", job_state_name((enum job_state)job->state));
    if ((job->deadline_us != DEADLINE_NONE && job->owner != OWNER_STEP) != heap_holds(&broker->deadlines, job))
        BAD("a job's deadline and the heap of deadlines disagree");
    if (job->state == JOB_STEPS)
        census->steps_bytes += steps_check_whole(sim, job, &census->steps);
    if (job->owner == OWNER_STEP) {
        steps_check_step(sim, job);
        census->steps--;
    }
}

static void check_kept(struct sim *sim)
{
    const struct sessions *sessions = &sim->side->broker.sessions;
    const struct session *session;
    uint64_t kept = 0, kept_bytes = 0;
    TAILQ_FOREACH(session, &sessions->all, in_all)
    {
        const struct job *job;
        uint32_t unsent = 0;
        uint64_t sequence = 0;
        TAILQ_FOREACH(job, &session->kept, in_session)
        {
            if (job->state != JOB_DONE || !job->reply || job->lane || job->id.sequence <= sequence)
                BAD("a kept reply is not done, is empty, or is out of order");
            sequence = job->id.sequence;
            kept++;
            unsent += job->unsent;
            kept_bytes += shared_message_bytes(job->reply) + sizeof *job;
        }
        if (unsent != session->unsent)
            BAD("a session counts %u unsent replies and has %u", session->unsent, unsent);
    }
    if (kept != sessions->kept_count || kept_bytes != sessions->kept_bytes)
        BAD("kept replies: %lu of %lu bytes, counted %lu of %lu", (unsigned long)kept, (unsigned long)kept_bytes,
            (unsigned long)sessions->kept_count, (unsigned long)sessions->kept_bytes);
}

/* Only lanes with more jobs than a turn sees to may be left for the next one, and then that comes at once. */
static void check_effects(struct sim *sim)
{
    const struct broker *broker = &sim->side->broker;
    const struct effects *effects = &broker->effects;
    if (!effects_empty(effects) || effects->phase != EFFECTS_IDLE)
        BAD("what follows from an event was left undone");
    for (const struct effect *effect = effects->later.next; effect != &effects->later; effect = effect->next) {
        if (effect->kind != EFFECT_LANE_LOOK || effect_of(effect, const struct lane, look)->users == 0)
            BAD("what is left for the next turn is no lane in use");
    }
    sim->counts.left_for_next_turn += effects_left(effects);
    if (effects_left(effects) && broker_next_us(broker) > broker->now_us)
        BAD("a lane is left for the next turn, and that is not now");
}

static void check_sessions(struct sim *sim, struct census *census)
{
    const struct broker *broker = &sim->side->broker;
    const struct session *session;
    uint64_t live = 0, sessions = 0, unsent = 0;
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    {
        const struct job *job;
        uint32_t own = 0;
        TAILQ_FOREACH(job, &session->live, in_session)
        {
            own++;
            if (job->session != session || job->state == JOB_DONE)
                BAD("a done or foreign job among the live ones");
            check_live(sim, job, census);
        }
        if (own != session->live_count)
            BAD("a session counts %u live jobs and has %u", session->live_count, own);
        live += own;
        sessions++;
        unsent += session->unsent;
    }
    if (live != broker->live || sessions != broker->sessions.count)
        BAD("%lu jobs live, %lu counted; %lu sessions, %u counted", (unsigned long)live, (unsigned long)broker->live,
            (unsigned long)sessions, broker->sessions.count);
    check_effects(sim);
    if (census->wholes != steps_wholes(sim) || census->steps != 0)
        BAD("%u jobs run in steps, %u counted; %d of their steps are missing", census->wholes, steps_wholes(sim),
            (int)census->steps);
    if (live + broker->sessions.kept_count != broker->jobs.by_id.count)
        BAD("the table of jobs has %zu, sessions have %lu", broker->jobs.by_id.count,
            (unsigned long)(live + broker->sessions.kept_count));
    /* Kept replies only change together with these figures; looked at anyway now and then, should that not be so. */
    struct kept_seen now = {broker, broker->sessions.kept_count, broker->sessions.kept_bytes, unsent, sessions};
    if (memcmp(&now, &sim->side->kept_seen, sizeof now) != 0 || sim->checks % 8 == 0)
        check_kept(sim);
    sim->side->kept_seen = now;
}

static void check_places(struct sim *sim, const struct census *census)
{
    const struct broker *broker = &sim->side->broker;
    const struct lane *lane;
    const struct job *job;
    uint32_t queued = 0, lookups = 0;
    TAILQ_FOREACH(lane, &broker->models.active, in_active)
    check_lane(sim, lane, &queued);
    TAILQ_FOREACH(job, &broker->lookups, in_group)
    {
        if (job->state != JOB_LOOKUP)
            BAD("a job that is %s is among the lookups", job_state_name((enum job_state)job->state));
        lookups++;
    }
    if (handover_check(&broker->neighbours) != census->handed)
        BAD("%u jobs are handed over, and the list of them is another one", census->handed);
    if (queued != census->queued || lookups != census->lookups || census->followers != 0 ||
        broker->deadlines.count != census->deadlines)
        BAD("%u jobs are queued, lanes have %u; %u ask Redis, listed %u; followers are off by %d; %u deadlines, %zu in "
            "the heap",
            census->queued, queued, census->lookups, lookups, (int)census->followers, census->deadlines,
            broker->deadlines.count);
}

/* Credits: what a worker owes is what its dispatches say. */
static void check_worker(struct sim *sim, const struct worker *worker, struct census *found)
{
    const struct dispatch *dispatch;
    uint32_t messages = 0, jobs = 0;
    uint64_t expect_us = 0;
    size_t bytes = 0;
    TAILQ_FOREACH(dispatch, &worker->dispatches, in_worker)
    {
        uint32_t open = 0;
        for (uint32_t i = 0; i < dispatch->count; i++) {
            const struct job *job = dispatch->slots[i].job;
            open += !dispatch->slots[i].answered;
            if (job && (job->state != JOB_DISPATCHED || !(job->dispatch == dispatch && job->slot == i) ==
                                                            !(job->hedge == dispatch && job->hedge_slot == i)))
                BAD("a slot holds a job that is elsewhere");
            found->dispatched += job && job->dispatch == dispatch;
            found->hedged += job && job->dispatch != dispatch;
        }
        if (open != dispatch->open || open == 0 || dispatch->worker != worker)
            BAD("a dispatch has %u open slots and counts %u", open, dispatch->open);
        messages++;
        jobs += open;
        expect_us += dispatch->expect_us;
        bytes += dispatch->bytes;
    }
    if (messages != worker->messages || jobs != worker->jobs || expect_us != worker->expect_us ||
        bytes != worker->bytes)
        BAD("the credit of worker %s: %u messages, %u jobs; counted %u, %u", worker->hello->name, messages, jobs,
            worker->messages, worker->jobs);
    if (worker->isolated && (messages != 1 || jobs != 1))
        BAD("a suspect is not alone on worker %s", worker->hello->name);
    if (jobs > CREDIT_JOBS * worker->slots + FRAME_MAX_GROUPS)
        BAD("worker %s holds %u jobs", worker->hello->name, jobs);
}

static void check_models(struct sim *sim, struct census *census)
{
    const struct broker *broker = &sim->side->broker;
    const struct model *model;
    uint64_t bytes = broker->transfers.bytes + census->steps_bytes;
    TAILQ_FOREACH(model, &broker->models.all, in_all)
    {
        const struct sums *sums = sums_of(census, model);
        if (sums->running != model->running || sums->waiting != model->queue.waiting || sums->users != model->users ||
            sums->bytes != model->queue.bytes)
            BAD("model %s: %lu running, %lu waiting, %lu users; counted %lu, %lu, %u", model->name,
                (unsigned long)sums->running, (unsigned long)sums->waiting, (unsigned long)sums->users,
                (unsigned long)model->running, (unsigned long)model->queue.waiting, model->users);
        bytes += sums->bytes;
    }
    TAILQ_FOREACH(model, &broker->models.all, in_all)
    {
        uint64_t waiting = 0;
        for (size_t i = 0; i < 256; i++)
            waiting += model->queue.at_level[i];
        if (waiting != model->queue.waiting)
            BAD("model %s: %lu wait, %lu by level", model->name, (unsigned long)model->queue.waiting,
                (unsigned long)waiting);
    }
    if (bytes != broker->queued_bytes)
        BAD("%lu bytes wait, %lu counted", (unsigned long)bytes, (unsigned long)broker->queued_bytes);
    /* Work that comes back is taken whatever waits; what the broker adds to a job's meta is not judged. */
    if (!sim->has.steps && census->fresh_bytes + broker->transfers.bytes >
                               (uint64_t)sim->options.queue_bytes + census->fresh * SIM_META_ADDED)
        BAD("%lu bytes of new jobs wait, and %lu are announced; --queue-bytes is %ld",
            (unsigned long)census->fresh_bytes, (unsigned long)broker->transfers.bytes, (long)sim->options.queue_bytes);
}

/* Large payloads: what is announced counts, what is open has its memory, and nobody may send more than the window. */
static void check_transfers(struct sim *sim)
{
    const struct transfer_hub *hub = &sim->side->broker.transfers;
    const struct transfer_link *link;
    const struct transfer_in *in;
    uint64_t bytes = 0;
    uint32_t open = 0;
    TAILQ_FOREACH(link, &hub->links, in_hub)
    {
        const struct transfer_out *out;
        uint32_t ins = 0, ins_open = 0, ins_blocked = 0, outs = 0;
        TAILQ_FOREACH(in, &link->ins, in_link)
        {
            const struct bulk *run = &in->run;
            ins++;
            ins_open += in->open;
            ins_blocked += in->blocked;
            if (in->blocked && !transfer_in_find(link, (struct job_id){in->env.job.client, in->after}))
                BAD("job %lu waits for job %lu, which does not come any more", (unsigned long)in->env.job.sequence,
                    (unsigned long)in->after);
            bytes += link->end->session ? run->total : 0;
            if (run->moved > run->granted || run->granted > run->total ||
                run->granted - run->moved > BULK_WINDOW_BYTES || bulk_done(run) != in->blocked ||
                (run->granted > 0) != (in->open || in->blocked))
                BAD("a payload of %lu bytes: %lu came, %lu were granted, open: %d", (unsigned long)run->total,
                    (unsigned long)run->moved, (unsigned long)run->granted, in->open);
        }
        TAILQ_FOREACH(out, &link->outs, in_link)
        {
            outs++;
            if (out->run.moved > out->run.granted || out->run.granted > out->run.total)
                BAD("%lu bytes of a payload were sent, %lu granted", (unsigned long)out->run.moved,
                    (unsigned long)out->run.granted);
        }
        if (ins != link->ins_count || ins_open != link->ins_open || outs != link->outs_count ||
            ins_blocked != link->ins_blocked || ins_open > TRANSFER_OPEN_PEER || link->end->link != link)
            BAD("a peer has %u payloads coming, %u open, %u going; counted %u, %u, %u", ins, ins_open, outs,
                link->ins_count, link->ins_open, link->outs_count);
        open += link->end->session ? ins_open : 0;
    }
    if (bytes != hub->bytes || open != hub->open || open > TRANSFER_OPEN_MAX)
        BAD("%lu bytes are announced, %u payloads are open; counted %lu, %u", (unsigned long)bytes, open,
            (unsigned long)hub->bytes, hub->open);
}

/* Work is not left lying: when nothing can change any more by itself, no job waits while all who could run it are idle. */
static void check_idle(struct sim *sim)
{
    const struct broker *broker = &sim->side->broker;
    const struct lane *lane;
    if (broker->schedule)
        return; /* a pass is still to come */
    TAILQ_FOREACH(lane, &broker->models.active, in_active)
    {
        const struct offer *offer;
        bool idle = false, busy = false, loading = false, there = lane->demand.worker == 0;
        TAILQ_FOREACH(offer, &lane->model->offers, in_model)
        {
            const struct capability have = offer_capability(offer);
            if (lane->demand.worker && lane->demand.worker != offer->worker->uuid)
                continue;
            there |= offer->worker->state == WORKER_READY || offer->worker->ended_us != 0; /* it is read out first */
            idle |= offer->worker->state == WORKER_READY && offer->worker->messages == 0 && !offer->cold &&
                    match_capable(&lane->demand, &have);
            loading |= offer->worker->warming == offer;
            busy |= offer->worker->messages > 0 || offer->worker->paused;
        }
        steps_check_lane(sim, lane);
        if (idle && !busy && !loading && lane->wake_us == UINT64_MAX)
            BAD("jobs of model %s wait though every worker is idle", lane->model->name);
        if (!there)
            BAD("jobs of model %s wait for a state on a worker that gets no more work", lane->model->name);
    }
}

static void check_workers(struct sim *sim, const struct census *census)
{
    const struct worker *worker;
    struct census found = {.dispatched = 0};
    TAILQ_FOREACH(worker, &sim->side->broker.fleet.all, in_fleet)
    check_worker(sim, worker, &found);
    if (found.dispatched != census->dispatched || found.hedged != census->hedged)
        BAD("%u jobs are dispatched and %u have twins; living workers have %u and %u", census->dispatched,
            census->hedged, found.dispatched, found.hedged);
}

void check_given(struct sim *sim, const struct sim_side *side, uint32_t peer)
{
    const struct worker *worker = fleet_by_peer(&side->broker.fleet, peer);
    if (worker)
        scarce_given(sim, worker);
    if (worker && (worker->paused || worker->isolated))
        sim_fail(sim, "worker %s is given a job while it runs a suspect alone, of %s broker", worker->hello->name,
                 worker->paused ? "another" : "this");
}

static void check_side(struct sim *sim)
{
    struct census census = {.models_count = 0};
    check_sessions(sim, &census);
    if (sim->failure[0])
        return; /* what is wrong there makes the rest unreadable */
    check_places(sim, &census);
    check_workers(sim, &census);
    check_models(sim, &census);
    check_transfers(sim);
    check_idle(sim);
    fair_check(sim);
    suspects_check(sim);
    detached_check(sim);
    quotas_check(sim);
    tallies_check(sim);
}

void check_all(struct sim *sim)
{
    sim->checks++;
    for (uint32_t i = 0; i < sim->sides_count && !sim->failure[0]; i++) {
        sim->side = &sim->sides[i];
        if (sim->side->up)
            check_side(sim);
    }
}
