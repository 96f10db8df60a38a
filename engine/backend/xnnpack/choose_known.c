#include "backend/xnnpack/choose_known.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/isa.h"
#include "graph/memo.h"

#define ROWS_MAX 1024

_Static_assert(sizeof(struct outcome) == sizeof(struct rivals_key) + RIVALS_MAX * sizeof(uint64_t) + 8, "no holes");
_Static_assert(ROWS_MAX * sizeof(struct outcome) <= MEMO_VALUE_MAX, "all that a process knows can be kept");

static struct {
    pthread_mutex_t lock;
    struct outcome rows[ROWS_MAX];
    size_t count;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

void known_lock(void)
{
    pthread_mutex_lock(&known.lock);
}

void known_unlock(void)
{
    pthread_mutex_unlock(&known.lock);
}

static const struct outcome *known_find(const struct rivals_key *key)
{
    for (size_t i = 0; i < known.count; i++) {
        if (memcmp(&known.rows[i].key, key, sizeof *key) == 0) {
            return &known.rows[i];
        }
    }
    return NULL;
}

bool known_add(const struct outcome *o)
{
    if (known.count < ROWS_MAX && known_find(&o->key) == NULL) {
        known.rows[known.count++] = *o;
    }
    return known_find(&o->key) != NULL;
}

/* ---- what is kept ---- */

static const struct memo *memo_of(const struct graph *g)
{
    while (g->parent != NULL) {
        g = g->parent;
    }
    return g->memo;
}

static bool key_make(const struct memo *memo, struct digest *ret_key)
{
    char device[160];
    struct digest_stream *key = memo != NULL ? memo_key(memo, MEMO_KERNELS) : NULL;
    if (key == NULL) {
        return false;
    }
    digest_update_text(key, isa_device(PEN_ISA_ANY, device, sizeof device));
    *ret_key = digest_final(key);
    digest_free(key);
    return true;
}

static bool sound(const struct outcome *o)
{
    return o->count >= 2 && o->count <= RIVALS_MAX && o->taken < o->count && o->ns[o->taken] > 0;
}

void choose_recall(const struct graph *g)
{
    const struct memo *memo = memo_of(g);
    struct digest key;
    size_t bytes = 0;
    struct outcome *rows = memo != NULL ? malloc(ROWS_MAX * sizeof *rows) : NULL;
    if (rows != NULL && key_make(memo, &key) &&
        memo_find(memo, &key, MEMO_KERNELS, rows, ROWS_MAX * sizeof *rows, &bytes)) {
        pthread_mutex_lock(&known.lock);
        for (size_t i = 0; i < bytes / sizeof *rows; i++) {
            if (sound(&rows[i])) {
                (void)known_add(&rows[i]);
            }
        }
        pthread_mutex_unlock(&known.lock);
    }
    free(rows);
}

/* What is kept of the model already stays. */
void known_keep(const struct graph *g, const struct step *steps, size_t count)
{
    const struct memo *memo = memo_of(g);
    struct digest key;
    size_t bytes = 0;
    struct outcome *rows = memo != NULL ? calloc(ROWS_MAX, sizeof *rows) : NULL;
    if (rows == NULL || !key_make(memo, &key)) {
        free(rows);
        return;
    }
    size_t kept = memo_find(memo, &key, MEMO_KERNELS, rows, ROWS_MAX * sizeof *rows, &bytes) ? bytes / sizeof *rows : 0;
    for (size_t i = 0; i < count && kept < ROWS_MAX; i++) {
        const struct outcome *o = steps[i].rivals != NULL ? known_find(&steps[i].rivals->key) : NULL;
        bool there = o == NULL;
        for (size_t k = 0; k < kept && !there; k++) {
            there = memcmp(&rows[k].key, &o->key, sizeof o->key) == 0;
        }
        if (!there) {
            rows[kept++] = *o;
        }
    }
    (void)memo_put(memo, &key, MEMO_KERNELS, rows, kept * sizeof *rows);
    free(rows);
}

/* ---- a step ---- */

static void why_write(struct rivals *v, const struct outcome *o)
{
    size_t at = (size_t)snprintf(v->why, sizeof v->why, "measured:");
    for (uint32_t i = 0; i < v->count && at < sizeof v->why; i++) {
        if (o->ns[i] > 0) {
            at += (size_t)snprintf(v->why + at, sizeof v->why - at, "%s %s %" PRIu64 " us", at > 9 ? "," : "",
                                   v->names[i], (o->ns[i] + 999) / 1000);
        }
    }
}

bool known_settle(struct step *s, struct rivals *v)
{
    const struct outcome *o = known_find(&v->key);
    if (o == NULL || o->count != v->count) {
        return false;
    }
    v->take(s, o->taken);
    why_write(v, o);
    s->why = v->why;
    v->settled = true;
    return true;
}
