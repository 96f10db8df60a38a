/* states.c - a table of sequences under one lock. */
#include "states.h"

#include "assertion.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS  1024u
#define SWEEP_US 1000000u

struct state {
    struct state *next; /* in its bucket */
    uint64_t client, id;
    uint64_t first; /* number of the sequence's first job */
    uint64_t last;  /* number of the newest job that left its state here */
    uint64_t runs;  /* busy: number of the running job */
    struct digest model;
    char name[CONFIG_NAME_BYTES_MAX + 1];
    uint64_t used_us, idle_us;
    bool busy, over; /* over: dropped when its job ends */
    size_t bytes;
    size_t offsets[CONFIG_STATES_MAX], sizes[CONFIG_STATES_MAX];
    uint8_t data[];
};

struct states {
    pthread_mutex_t lock;
    struct state *buckets[BUCKETS];
    size_t count;
    uint64_t bytes, bytes_max, swept_us;
};

struct states *states_new(uint64_t bytes_max)
{
    struct states *states = calloc(1, sizeof *states);
    if (!states)
        return NULL;
    pthread_mutex_init(&states->lock, NULL);
    states->bytes_max = bytes_max;
    return states;
}

static struct state **bucket_of(struct states *states, uint64_t client, uint64_t id)
{
    return &states->buckets[((client ^ id) * 0x9E3779B97F4A7C15u) >> 54];
}

/* Takes *place out and frees it. */
static void drop(struct states *states, struct state **place)
{
    struct state *state = *place;
    PEN_ASSERT(states->count > 0 && states->bytes >= state->bytes, "a state that goes was counted, with its bytes");
    PEN_ASSERT(!state->busy, "the state of a job that runs stays");
    *place = state->next;
    states->count--;
    states->bytes -= state->bytes;
    PEN_ASSERT(states->count > 0 || states->bytes == 0, "without states there are no bytes of them");
    free(state);
}

void states_free(struct states *states)
{
    if (!states)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        while (states->buckets[i])
            drop(states, &states->buckets[i]);
    pthread_mutex_destroy(&states->lock);
    free(states);
}

static bool is_of(const struct state *state, const struct served *served, const struct envelope *env)
{
    return state->client == env->job.client && state->id == env->sequence_id && !state->over &&
           strcmp(state->name, served->name) == 0;
}

/* NULL: there is none. */
static struct state **find(struct states *states, const struct served *served, const struct envelope *env)
{
    struct state **place = bucket_of(states, env->job.client, env->sequence_id);
    while (*place && !is_of(*place, served, env))
        place = &(*place)->next;
    return *place ? place : NULL;
}

static size_t count_of(const struct states *states, const struct served *served)
{
    size_t count = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        for (const struct state *s = states->buckets[i]; s; s = s->next)
            count += digest_equal(s->model, served->digest);
    return count;
}

static void sweep(struct states *states, uint64_t now_us)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (struct state **place = &states->buckets[i]; *place;) {
            struct state *state = *place;
            if (!state->busy && now_us > state->used_us && now_us - state->used_us > 2 * state->idle_us)
                drop(states, place);
            else
                place = &state->next;
        }
    states->swept_us = now_us;
}

static void begin(struct state *state, const struct served *served)
{
    for (size_t i = 0; i < served->states_count; i++) {
        const struct pen_tensor *tensor = &served->states[i].tensor;
        if (tensor->data)
            memcpy(state->data + state->offsets[i], tensor->data, tensor->bytes);
        else
            memset(state->data + state->offsets[i], 0, tensor->bytes);
    }
}

static enum pen_status make(struct states *states, const struct served *served, const struct envelope *env,
                            struct state **ret_state, struct pen_error *reterr)
{
    uint32_t most = served->config.sequence.max_sequences;
    if (count_of(states, served) >= most)
        return pen_error_set(reterr, PEN_ERR_BUSY,
                             "%u sequences of model '%s' are open on this worker, its limit (max_candidate_sequences)",
                             most, served->name);
    if (served->states_bytes > states->bytes_max - states->bytes)
        return pen_error_set(reterr, PEN_ERR_BUSY,
                             "%" PRIu64 " bytes of state are kept on this worker, the limit is %" PRIu64
                             " (--sequence-memory)",
                             states->bytes, states->bytes_max);
    struct state *state = calloc(1, sizeof *state + served->states_bytes);
    if (!state)
        return pen_error_set(reterr, PEN_ERR_BUSY, "this worker has no memory for another sequence");
    state->client = env->job.client;
    state->id = env->sequence_id;
    state->first = env->job.sequence;
    state->model = served->digest;
    state->idle_us = served->config.sequence.idle_us;
    state->bytes = served->states_bytes;
    memcpy(state->name, served->name, sizeof state->name);
    for (size_t i = 0, offset = 0; i < served->states_count; offset += state->sizes[i++]) {
        PEN_ASSERT(offset <= state->bytes && served->states[i].tensor.bytes <= state->bytes - offset,
                   "the tensors of a state lie inside it");
        state->offsets[i] = offset;
        state->sizes[i] = served->states[i].tensor.bytes;
    }
    begin(state, served);
    struct state **bucket = bucket_of(states, state->client, state->id);
    state->next = *bucket;
    *bucket = state;
    states->count++;
    states->bytes += state->bytes;
    PEN_ASSERT(states->bytes <= states->bytes_max, "no more bytes of state are kept than may be");
    *ret_state = state;
    return PEN_OK;
}

/* A sequence begins anew under the same name: drops the old state. */
static void forget(struct states *states, struct state **place)
{
    if ((*place)->busy)
        (*place)->over = true;
    else
        drop(states, place);
}

static enum pen_status take(struct states *states, const struct served *served, const struct envelope *env,
                            uint64_t after, struct state **ret_state, struct pen_error *reterr)
{
    struct state **place = find(states, served, env);
    if (place && env->job.sequence < (*place)->first)
        return pen_error_set(reterr, PEN_ERR_CANCELLED, "sequence %" PRIu64 " was begun anew by a later job",
                             env->sequence_id);
    if (place && (env->flags & FRAME_FLAG_SEQUENCE_START || !digest_equal((*place)->model, served->digest))) {
        forget(states, place);
        place = NULL;
    }
    if (env->flags & FRAME_FLAG_SEQUENCE_START)
        return make(states, served, env, ret_state, reterr);
    if (!place)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                             "sequence %" PRIu64 " of model '%s' is not open on this worker; begin it again",
                             env->sequence_id, served->name);
    if ((*place)->busy)
        return pen_error_set(reterr, PEN_ERR_INVALID, "a job of sequence %" PRIu64 " still runs", env->sequence_id);
    if (after != 0 && after != (*place)->last)
        return pen_error_set(reterr, PEN_ERR_CANCELLED,
                             "the job follows job %" PRIu64 " of sequence %" PRIu64
                             ", and its state here is that after job %" PRIu64 "; begin it again",
                             after, env->sequence_id, (*place)->last);
    *ret_state = *place;
    return PEN_OK;
}

enum pen_status states_open(struct states *states, const struct served *served, const struct envelope *env,
                            uint64_t after, uint64_t now_us, struct state **ret_state, struct pen_error *reterr)
{
    struct state *state = NULL;
    pthread_mutex_lock(&states->lock);
    if (env->flags & FRAME_FLAG_SEQUENCE_START)
        sweep(states, now_us);
    enum pen_status status = take(states, served, env, after, &state, reterr);
    if (status == PEN_OK) {
        PEN_ASSERT(!state->busy && !state->over, "one job at a time has the state of a sequence");
        state->busy = true;
        state->runs = env->job.sequence;
    }
    pthread_mutex_unlock(&states->lock);
    if (status == PEN_OK)
        *ret_state = state;
    return status;
}

const void *state_data(const struct state *state, size_t index)
{
    return state->data + state->offsets[index];
}

void state_put(struct state *state, size_t index, const void *data)
{
    if (state->sizes[index])
        memcpy(state->data + state->offsets[index], data, state->sizes[index]);
}

static void give_back(struct states *states, struct state *state, bool keep, uint64_t now_us)
{
    pthread_mutex_lock(&states->lock);
    PEN_ASSERT(state->busy, "a state is closed by the job that has it");
    state->busy = false;
    state->used_us = now_us;
    state->last = state->runs;
    if (!keep || state->over) {
        struct state **place = bucket_of(states, state->client, state->id);
        while (*place != state)
            place = &(*place)->next;
        drop(states, place);
    }
    pthread_mutex_unlock(&states->lock);
}

void state_close(struct states *states, struct state *state, uint64_t now_us)
{
    give_back(states, state, true, now_us);
}

void state_close_last(struct states *states, struct state *state, uint64_t now_us)
{
    give_back(states, state, false, now_us);
}

void states_end(struct states *states, uint64_t client, uint64_t id, uint64_t job)
{
    if (!states)
        return;
    pthread_mutex_lock(&states->lock);
    for (struct state **place = bucket_of(states, client, id); *place;) {
        struct state *state = *place;
        bool meant = state->client == client && state->id == id && state->first <= job;
        if (meant && !state->busy) {
            drop(states, place);
            continue;
        }
        state->over |= meant;
        place = &state->next;
    }
    pthread_mutex_unlock(&states->lock);
}

void states_sweep(struct states *states, uint64_t now_us)
{
    if (!states)
        return;
    pthread_mutex_lock(&states->lock);
    if (now_us - states->swept_us >= SWEEP_US)
        sweep(states, now_us);
    pthread_mutex_unlock(&states->lock);
}

size_t states_count(struct states *states)
{
    pthread_mutex_lock(&states->lock);
    size_t count = states->count;
    pthread_mutex_unlock(&states->lock);
    return count;
}

uint32_t states_of(struct states *states, const struct served *served)
{
    pthread_mutex_lock(&states->lock);
    size_t count = count_of(states, served);
    pthread_mutex_unlock(&states->lock);
    return (uint32_t)count;
}
