/* The invariants of the broker's state. Each job is in exactly one place, and every sum is the sum of its parts. */
#include "sim.h"

#define BAD(...)                                                                                                       \
    do {                                                                                                               \
        sim_fail(sim, __VA_ARGS__);                                                                                    \
        return;                                                                                                        \
    } while (0)

static uint32_t count_in(const struct job_list *list, const struct job *wanted)
{
    uint32_t count = 0;
    const struct job *job;
    TAILQ_FOREACH(job, list, in_group)
    count += job == wanted;
    return count;
}

static bool worker_lives(const struct broker *broker, const struct worker *wanted)
{
    const struct worker *worker;
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    {
        if (worker == wanted)
            return true;
    }
    return false;
}

static void check_follower(struct sim *sim, const struct job *job)
{
    const struct flight *flight = job->flight;
    if (!flight || count_in(&flight->followers, job) != 1)
        BAD("a follower is not in its flight once");
    if (flight->leader == job || flight->leader->flight != flight)
        BAD("a flight's leader is not its leader");
    if (flight->leader->state == JOB_FOLLOWING || flight->leader->state == JOB_DONE)
        BAD("a flight's leader is %s", job_state_name((enum job_state)flight->leader->state));
}

static bool lane_holds(const struct lane *lane, const struct job *job)
{
    if (heap_holds(&lane->front, job))
        return true;
    for (size_t i = 0; i < lane->turns.count; i++) {
        const struct line *jobs = &((const struct turn *)lane->turns.items[i])->jobs;
        if (heap_holds(&jobs->rest, job) || count_in(&jobs->run, job) == 1)
            return true;
    }
    return false;
}

static uint64_t rows_of(const struct heap *jobs)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < jobs->count; i++)
        rows += ((const struct job *)jobs->items[i])->rows;
    return rows;
}

static uint64_t rows_of_line(const struct line *jobs, size_t *ret_count)
{
    const struct job *job;
    uint64_t rows = rows_of(&jobs->rest);
    *ret_count = jobs->rest.count;
    TAILQ_FOREACH(job, &jobs->run, in_group)
    {
        rows += job->rows;
        (*ret_count)++;
    }
    return rows;
}

static void check_lane(struct sim *sim, const struct lane *lane)
{
    uint64_t rows = rows_of(&lane->front);
    size_t count = lane->front.count;
    for (size_t i = 0; i < lane->turns.count; i++) {
        const struct turn *turn = lane->turns.items[i];
        size_t own;
        rows += rows_of_line(&turn->jobs, &own);
        if (turn->lane != lane || own == 0 || own != turn->jobs.count)
            BAD("a lane has an empty turn, one that miscounts, or one of another lane");
        count += own;
    }
    if (rows != lane->rows || count != lane->count || count == 0 || lane->users < count)
        BAD("a lane of %zu jobs, %lu rows counts %zu, %lu and %u users", count, (unsigned long)rows, lane->count,
            (unsigned long)lane->rows, lane->users);
}

static void check_live(struct sim *sim, const struct job *job)
{
    const struct broker *broker = &sim->broker;
    bool in_lane = lane_holds(job->lane, job), asked = count_in(&broker->lookups, job) == 1;
    if (jobs_find(&broker->jobs, job->id) != job)
        BAD("a live job is not found by its id");
    if (in_lane != (job->state == JOB_QUEUED) || asked != (job->state == JOB_LOOKUP))
        BAD("a job that is %s is in the lane: %d, in the lookups: %d", job_state_name((enum job_state)job->state),
            in_lane, asked);
    if ((job->dispatch != NULL) != (job->state == JOB_DISPATCHED))
        BAD("a job that is %s and its dispatch disagree", job_state_name((enum job_state)job->state));
    if (job->dispatch && (job->slot >= job->dispatch->count || job->dispatch->slots[job->slot].job != job ||
                          job->dispatch->slots[job->slot].answered || !worker_lives(broker, job->dispatch->worker)))
        BAD("a dispatched job is not in an unanswered slot of a living worker");
    if (job->state == JOB_DISPATCHED && job->hedge &&
        (job->hedge->slots[job->hedge_slot].job != job || job->hedge->slots[job->hedge_slot].answered ||
         !worker_lives(broker, job->hedge->worker) || job->hedge->worker == job->dispatch->worker))
        BAD("a twin is not in an unanswered slot of another living worker");
    if (job->deaths > broker->options->max_attempts)
        BAD("a job survived %u deaths of workers", job->deaths);
    if (job->state == JOB_FOLLOWING)
        check_follower(sim, job);
    else if (job->flight && job->flight->leader != job)
        BAD("a job that follows nobody is in a flight that it does not lead");
    if ((job->deadline_us != DEADLINE_NONE) != heap_holds(&broker->deadlines, job))
        BAD("a job's deadline and the heap of deadlines disagree");
    if (!job->request)
        BAD("a live job without a request");
}

static void check_sessions(struct sim *sim)
{
    const struct broker *broker = &sim->broker;
    const struct session *session;
    uint64_t live = 0, kept = 0, kept_bytes = 0, sessions = 0;
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    {
        const struct job *job;
        uint32_t own = 0, unsent = 0;
        uint64_t sequence = 0;
        TAILQ_FOREACH(job, &session->live, in_session)
        {
            own++;
            if (job->session != session || job->state == JOB_DONE)
                BAD("a done or foreign job among the live ones");
            check_live(sim, job);
        }
        TAILQ_FOREACH(job, &session->kept, in_session)
        {
            if (job->state != JOB_DONE || !job->reply || job->lane || job->id.sequence <= sequence)
                BAD("a kept reply is not done, is empty, or is out of order");
            sequence = job->id.sequence;
            kept++;
            unsent += job->unsent;
            kept_bytes += parcel_bytes(job->reply) + sizeof *job;
        }
        if (own != session->live_count || unsent != session->unsent)
            BAD("a session counts %u live jobs and has %u; %u unsent and has %u", session->live_count, own,
                session->unsent, unsent);
        live += own;
        sessions++;
    }
    if (live != broker->live || sessions != broker->sessions.count)
        BAD("%lu jobs live, %lu counted; %lu sessions, %u counted", (unsigned long)live, (unsigned long)broker->live,
            (unsigned long)sessions, broker->sessions.count);
    if (kept != broker->sessions.kept_count || kept_bytes != broker->sessions.kept_bytes)
        BAD("kept replies: %lu of %lu bytes, counted %lu of %lu", (unsigned long)kept, (unsigned long)kept_bytes,
            (unsigned long)broker->sessions.kept_count, (unsigned long)broker->sessions.kept_bytes);
    if (live + kept != broker->jobs.by_id.count)
        BAD("the table of jobs has %zu, sessions have %lu", broker->jobs.by_id.count, (unsigned long)(live + kept));
}

/* Credits: what a worker owes is what its dispatches say. */
static void check_worker(struct sim *sim, const struct worker *worker)
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

struct sums {
    uint64_t waiting, running, bytes, users;
};

/* What the model counts, from the jobs themselves. */
static struct sums sums_of(const struct broker *broker, const struct model *model)
{
    const struct session *session;
    const struct job *job;
    struct sums sums = {0};
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    {
        TAILQ_FOREACH(job, &session->live, in_session)
        {
            if (job->lane->model != model)
                continue;
            sums.users++;
            sums.running += job->state == JOB_DISPATCHED;
            sums.waiting += job->state != JOB_DISPATCHED;
            sums.bytes += job->state == JOB_DISPATCHED ? 0 : parcel_bytes(job->request);
        }
    }
    return sums;
}

static void check_models(struct sim *sim)
{
    const struct broker *broker = &sim->broker;
    const struct model *model;
    const struct lane *lane;
    uint64_t bytes = 0;
    TAILQ_FOREACH(model, &broker->models.all, in_all)
    {
        struct sums sums = sums_of(broker, model);
        if (sums.running != model->running || sums.waiting != model->queue.waiting || sums.users != model->users ||
            sums.bytes != model->queue.bytes)
            BAD("model %s: %lu running, %lu waiting, %lu users; counted %lu, %lu, %u", model->name,
                (unsigned long)sums.running, (unsigned long)sums.waiting, (unsigned long)sums.users,
                (unsigned long)model->running, (unsigned long)model->queue.waiting, model->users);
        bytes += sums.bytes;
    }
    if (bytes != broker->queued_bytes)
        BAD("%lu bytes wait, %lu counted", (unsigned long)bytes, (unsigned long)broker->queued_bytes);
    TAILQ_FOREACH(lane, &broker->models.active, in_active)
    check_lane(sim, lane);
}

/* Work is not left lying: when nothing can change any more by itself, no job waits while all who could run it are idle. */
static void check_idle(struct sim *sim)
{
    const struct broker *broker = &sim->broker;
    const struct lane *lane;
    if (broker->schedule)
        return; /* a pass is still to come */
    TAILQ_FOREACH(lane, &broker->models.active, in_active)
    {
        const struct offer *offer;
        bool idle = false, busy = false;
        TAILQ_FOREACH(offer, &lane->model->offers, in_model)
        {
            idle |= offer->worker->state == WORKER_READY && offer->worker->messages == 0 &&
                    match_capable(&lane->demand, offer->meta->backend, offer->precision, offer->worker->tags);
            busy |= offer->worker->messages > 0;
        }
        if (idle && !busy && lane->wake_us == UINT64_MAX)
            BAD("jobs of model %s wait though every worker is idle", lane->model->name);
    }
}

void check_all(struct sim *sim)
{
    const struct worker *worker;
    check_sessions(sim);
    TAILQ_FOREACH(worker, &sim->broker.fleet.all, in_fleet)
    check_worker(sim, worker);
    check_models(sim);
    check_idle(sim);
    fair_check(sim);
}
