#include "choose.h"

#include "batch.h"
#include "warming.h"
#include "decision.h"

/* Workers weighed for one batch: ready_look gives READY_LOOK of them, or a few more when there are many classes. */
#define CANDIDATES_MAX (2 * READY_LOOK)

/* A suspect runs alone, and so does a job whose bits must not depend on others. */
static bool is_alone(const struct job *head)
{
    return head->alone || head->lane->demand.exact;
}

/* Rows of the batches that suit this offer best. */
static uint32_t target_rows(const struct job *head, const struct offer *offer)
{
    uint32_t target = is_alone(head) ? 1 : latency_target(&offer->latency, offer->rows_max);
    return target > head->rows ? target : head->rows;
}

bool choose_must_isolate(const struct broker *broker, const struct job *head)
{
    return head->deaths > 0 && head->deaths + 1 >= broker->options->max_attempts;
}

/* The facts that are gathered for one batch. */
struct gathering {
    const struct broker *broker;
    const struct lane *lane;
    const struct job *head;
    size_t bytes; /* of its request */
    struct offer **offers;
    struct match_candidate *candidates;
    size_t count;
};

/* Whether this worker has room for the head. A batch that may still grow is sent as late as the slot allows. */
static bool has_credit(const struct gathering *g, const struct offer *offer, const struct match_candidate *candidate,
                       uint64_t *ret_when_us)
{
    const struct worker *worker = offer->worker;
    bool grows = g->lane->rows < candidate->target;
    *ret_when_us = UINT64_MAX;
    if (worker->reserved_pass == g->broker->pass)
        return false;
    if (choose_must_isolate(g->broker, g->head))
        return worker->messages == 0 && !worker->paused;
    return worker_credit(worker, g->broker->now_us, candidate->expect_us, offer->prepare_us, g->bytes, grows,
                         ret_when_us);
}

/* A ready_look callback. */
static bool gather_one(void *context, struct offer *offer)
{
    struct gathering *g = context;
    struct worker *worker = offer->worker;
    if (g->count == CANDIDATES_MAX || !offer_serves(offer, &g->lane->demand))
        return false;
    latency_fade(&offer->latency, g->broker->now_us);
    uint32_t target = target_rows(g->head, offer);
    uint32_t rows = g->lane->rows < target ? (uint32_t)g->lane->rows : target;
    struct match_candidate *candidate = &g->candidates[g->count];
    g->offers[g->count++] = offer;
    *candidate = (struct match_candidate){
        .backlog_us = worker_backlog_us(worker, g->broker->now_us),
        .expect_us = latency_expect_us(&offer->latency, rows),
        .transfer_us = bandwidth_us(&worker->bandwidth, g->bytes, g->broker->now_us),
        .slots = worker->slots,
        .target = target,
        .rows = rows,
    };
    if (offer->cold)
        candidate->load_us = warming_us(offer, g->broker->now_us);
    candidate->credit = offer->cold ? warming_possible(offer, g->broker->now_us, &candidate->credit_us)
                                    : has_credit(g, offer, candidate, &candidate->credit_us);
    return true;
}

static size_t gather(const struct broker *broker, const struct lane *lane, const struct job *head,
                     struct offer *ret_offers[CANDIDATES_MAX], struct match_candidate ret_candidates[CANDIDATES_MAX])
{
    struct gathering gathering = {.broker = broker,
                                  .lane = lane,
                                  .head = head,
                                  .bytes = head ? shared_message_bytes(head->request) : 0,
                                  .offers = ret_offers,
                                  .candidates = ret_candidates};
    ready_look(lane->model, gather_one, &gathering);
    return gathering.count;
}

static struct batch_choice close_batch(struct broker *broker, const struct lane *lane, const struct job *head,
                                       struct offer *offer)
{
    struct batch_rules rules = {
        .rows_max = is_alone(head) ? 1 : offer->rows_max,
        .preferred = offer->meta->preferred_batch_size,
        .preferred_count = offer->meta->n_preferred_batch_size,
        .delay_us = offer->meta->max_queue_delay_us,
        .latency = &offer->latency,
    };
    struct batch_facts facts = {
        .now_us = broker->now_us,
        .rows_waiting = lane->rows,
        .oldest_us = head->admitted_us,
        .deadline_us = head->deadline_us,
        .solo_batches = lane->solo_batches,
    };
    if (rules.delay_us > 0)
        lane_urgency(lane, &facts.deadline_us, &facts.oldest_us);
    struct batch_choice choice = batch_close(&rules, &facts);
    uint32_t most = lane->rows < rules.rows_max ? (uint32_t)lane->rows : rules.rows_max, other = 0;
    if (choice.rows > 0 && batch_may_explore(&rules, &facts))
        other = latency_explore(&offer->latency, most, broker->now_us);
    return other ? (struct batch_choice){.rows = other, .reason = CLOSE_EXPLORE, .wake_us = UINT64_MAX} : choice;
}

/* A worker may be given its next message shortly before it is done with the last. */
static uint64_t first_credit_us(const struct match_candidate *candidates, size_t count)
{
    uint64_t first_us = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        if (!candidates[i].credit && candidates[i].credit_us < first_us)
            first_us = candidates[i].credit_us;
    }
    return first_us;
}

/*
 * Keeps less urgent jobs from filling up the worker that this lane waits for. Otherwise short jobs, for which there is
 * nearly always some credit, would keep a long job out for ever.
 */
static void reserve(const struct broker *broker, struct offer *const *offers, const struct match_candidate *candidates,
                    size_t count)
{
    int best = match_best(candidates, count);
    if (best >= 0 && !offers[best]->cold) /* a load runs beside other work */
        offers[best]->worker->reserved_pass = broker->pass;
}

/* The cost of a row on the quickest worker: a client pays for its work, not for the worker it was given. */
static uint64_t least_row_us(const struct match_candidate *candidates, size_t count)
{
    uint64_t least_us = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        uint64_t row_us = candidates[i].expect_us / candidates[i].rows;
        least_us = row_us < least_us ? row_us : least_us;
    }
    return least_us;
}

static uint64_t left_us(const struct broker *broker, const struct job *head)
{
    return head->deadline_us > broker->now_us ? head->deadline_us - broker->now_us : 0;
}

static void decide(const struct lane *lane, struct offer *const *offers, const struct match_candidate *candidates,
                   size_t count, int index, struct decision *decision)
{
    decision_fill(decision, offers, candidates, count, index);
    decision->rows_waiting = lane->rows > UINT32_MAX ? UINT32_MAX : (uint32_t)lane->rows;
}

/*
 * Any idle worker will do; better is one that no other broker uses, then one that can run a job alone when asked. While
 * all are busy, the least busy one is kept free of other work.
 */
static int choose_isolated(const struct broker *broker, struct offer *const *offers,
                           const struct match_candidate *candidates, size_t count)
{
    int shared = MATCH_WAIT, least = MATCH_WAIT;
    for (size_t i = 0; i < count; i++) {
        if (candidates[i].credit && !worker_has_others(offers[i]->worker))
            return (int)i;
        if (candidates[i].credit && (shared == MATCH_WAIT || offers[i]->worker->hello->runs_alone))
            shared = (int)i;
        if (!offers[i]->cold && (least == MATCH_WAIT || candidates[i].backlog_us < candidates[least].backlog_us))
            least = (int)i; /* a load runs beside other work */
    }
    if (shared == MATCH_WAIT && least != MATCH_WAIT)
        offers[least]->worker->reserved_pass = broker->pass;
    return shared;
}

/* For a model with batches: how many batches stay behind the one that starts with the head. For jobs that run one by
   one choose_aside is responsible. */
static uint64_t batches_behind(const struct lane *lane, struct offer *const *offers,
                               const struct match_candidate *candidates, size_t count)
{
    int best = match_best(candidates, count);
    if (best < 0 || offers[best]->rows_max <= 1)
        return 0;
    uint64_t rows = candidates[best].rows;
    return rows && lane->rows > rows ? (lane->rows - rows + rows - 1) / rows : 0;
}

/* The head waits for a busy worker; a job behind it may start on another worker. */
static int choose_aside(const struct lane *lane, struct offer *const *offers, const struct match_candidate *candidates,
                        size_t count, struct job **ret_job)
{
    uint64_t rank, cost_us = least_row_us(candidates, count);
    int index = match_aside(candidates, count, lane->count - 1, &rank);
    struct job *job = index >= 0 && offers[index]->rows_max <= 1 && rank > 0 ? lane_ranked(lane, rank, cost_us) : NULL;
    if (!job || job->alone)
        return MATCH_WAIT;
    *ret_job = job;
    return index;
}

enum plan_kind choose(struct broker *broker, struct lane *lane, struct plan *ret_plan)
{
    struct offer *offers[CANDIDATES_MAX];
    struct match_candidate candidates[CANDIDATES_MAX];
    struct job *head = lane_head(lane), *first = head;
    size_t count = gather(broker, lane, head, offers, candidates);
    int index =
        choose_must_isolate(broker, head)
            ? choose_isolated(broker, offers, candidates, count)
            : match_choose(candidates, count, batches_behind(lane, offers, candidates, count), left_us(broker, head));
    lane->wake_us = first_credit_us(candidates, count);
    if (index == MATCH_WAIT && !choose_must_isolate(broker, head)) {
        reserve(broker, offers, candidates, count);
        index = choose_aside(lane, offers, candidates, count, &first);
    }
    if (index == MATCH_WAIT)
        return PLAN_WAIT;
    if (offers[index]->cold) {
        *ret_plan = (struct plan){.offer = offers[index]};
        return PLAN_LOAD;
    }
    struct batch_choice choice = close_batch(broker, lane, head, offers[index]);
    lane->wake_us = choice.wake_us;
    if (choice.rows == 0)
        return PLAN_WAIT;
    *ret_plan = (struct plan){.offer = offers[index],
                              .first = first,
                              .rows = choice.rows,
                              .reason = choice.reason,
                              .expect_us = candidates[index].expect_us};
    ret_plan->row_us = least_row_us(candidates, count);
    ret_plan->own_row_us = candidates[index].expect_us / candidates[index].rows;
    decide(lane, offers, candidates, count, index, &ret_plan->decision);
    ret_plan->decision.rows_max = offers[index]->rows_max;
    ret_plan->decision.delay_us = offers[index]->meta->max_queue_delay_us;
    return PLAN_RUN;
}

void choose_weigh(struct broker *broker, struct lane *lane, struct decision *ret_decision)
{
    struct offer *offers[CANDIDATES_MAX];
    struct match_candidate candidates[CANDIDATES_MAX];
    const struct job *head = lane_head(lane);
    size_t count = head ? gather(broker, lane, head, offers, candidates) : 0;
    decide(lane, offers, candidates, count, MATCH_WAIT, ret_decision);
}
