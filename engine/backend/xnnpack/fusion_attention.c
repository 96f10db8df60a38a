#include <string.h>

#include "backend/xnnpack/flash.h"
#include "backend/xnnpack/fusion.h"

/* Attention that a file spells out, as one step. */

enum { AT_Q, AT_K, AT_V, AT_TERMS };

static const struct fusion_kind attention_kind; /* below */

void fusion_attention_find(struct finder *f, const struct node *softmax)
{
    struct attention_pattern a;
    struct fusion_parts parts = {0};
    if (!attention_pattern_find(f, softmax, &a)) {
        return;
    }
    _Static_assert(sizeof parts.members == sizeof a.members, "a step takes as many nodes as a pattern has");
    memcpy(parts.members, a.members, sizeof a.members);
    parts.member_count = a.member_count;
    parts.in[AT_Q] = a.q.value;
    parts.in[AT_K] = a.k.value;
    parts.in[AT_V] = a.v.value;
    memcpy(parts.in + AT_TERMS, a.term_values, a.term_count * sizeof a.term_values[0]);
    parts.in_count = AT_TERMS + a.term_count;
    struct fusion *fusion = finder_fuse(f, &attention_kind, &parts, sizeof a);
    if (fusion != NULL) {
        memcpy(fusion->detail, &a, sizeof a);
    }
}

static const char *flash_read(const struct attention_pattern *a, const struct shape_env *env, struct flash *ret)
{
    struct attention_sizes s;
    const char *why = attention_pattern_sizes(a, env, &s);
    if (why != NULL) {
        return why;
    }
    *ret = (struct flash){.batch = s.batch,
                          .heads = s.heads,
                          .kv_heads = s.kv_heads,
                          .queries = s.queries,
                          .keys = s.keys,
                          .size = s.size,
                          .value_size = s.value_size,
                          .q = s.q,
                          .k = s.k,
                          .v = s.v,
                          .y = s.y,
                          .scale = a->scale,
                          .hidden_zero = a->zero,
                          .term_count = a->term_count};
    memcpy(ret->terms, s.terms, sizeof s.terms);
    return NULL;
}

static const char *attention_misfit(const struct fusion *f, const struct graph *g, const struct shape_env *env)
{
    struct flash ignored;
    (void)g;
    return flash_read(f->detail, env, &ignored);
}

static enum pen_status joined_run(struct step *s, struct run *r)
{
    const struct flash *f = s->state;
    struct flash_data d = {.q = s->in[AT_Q], .k = s->in[AT_K], .v = s->in[AT_V], .y = s->out[0]};
    for (uint32_t i = 0; i < f->term_count; i++) {
        d.terms[i] = s->in[AT_TERMS + i];
    }
    flash_run(f, &d, s->scratch, r);
    return PEN_OK;
}

static enum pen_status joined_build(struct build *b)
{
    struct flash *f = build_alloc(b, sizeof *f);
    if (f == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    const char *why = flash_read(b->fusion->detail, b->env, f);
    if (why != NULL) {
        return build_fail(b, PEN_ERR_SHAPE, why);
    }
    flash_init(f, build_config(b)->precision, build_threads(b));
    b->step->scratch_bytes = flash_scratch_bytes(f, build_threads(b));
    b->step->state = f;
    b->step->run = joined_run;
    return PEN_OK;
}

static const struct fusion_kind attention_kind = {
    .kernel = "own attention in blocks of queries and keys",
    .why = "joined from the nodes that spell it out: its scores stay in the cache",
    .misfit = attention_misfit,
    .build = joined_build};
