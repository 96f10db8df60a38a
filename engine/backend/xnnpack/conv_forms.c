/* 3 x 3 convolutions: the product, or tiles of 4 x 4 or 2 x 2 results, all from the same packed weights. */
#include "backend/xnnpack/choose.h"
#include "backend/xnnpack/conv.h"
#include "backend/xnnpack/isa.h"

#define HOPELESS 17 /* tenths of the cost of the rule's form: what costs more is not tried */

static enum pen_status run_tiles(struct step *s, struct run *r)
{
    const struct conv *c = s->state;
    const float *sum = c->sum != UINT32_MAX ? s->in[c->sum] : NULL;
    winograd_run(&c->tiles[c->form - CONV_TILES_LARGE], filter_group(&c->f, c->packed, 0), s, sum, r);
    return PEN_OK;
}

static void tell_tiles(struct step *s)
{
    const struct conv *c = s->state;
    const bool large = c->form == CONV_TILES_LARGE;
    s->kernel = c->sum == UINT32_MAX ? large ? "own Winograd F(4, 3)" : "own Winograd F(2, 3)"
                : large              ? "own Winograd F(4, 3) that adds"
                                     : "own Winograd F(2, 3) that adds";
    s->why = large ? "3 x 3 of stride 1 with enough channels and pixels: a quarter of the multiplications"
                   : "3 x 3 of stride 1, and larger tiles would waste more: four ninths of the multiplications";
}

/* A rivals.take callback. */
static void form_take(struct step *s, uint32_t form)
{
    struct conv *c = s->state;
    c->form = (enum conv_form)form;
    if (c->form == CONV_PRODUCT) {
        c->product(s);
    } else {
        s->run = run_tiles;
        tell_tiles(s);
    }
}

/* At least 1.3 times fewer rows than the product, or it is not worth the memory that goes by. */
static enum conv_form form_by_rule(const size_t costs[CONV_FORMS])
{
    const enum conv_form tiles =
        costs[CONV_TILES_SMALL] < costs[CONV_TILES_LARGE] ? CONV_TILES_SMALL : CONV_TILES_LARGE;
    return costs[tiles] * 13 <= costs[CONV_PRODUCT] * 10 ? tiles : CONV_PRODUCT;
}

static struct rivals_key key_of(const struct conv *c)
{
    const struct window *w = &c->w;
    struct rivals_key key = {.kind = RIVALS_CONV, .lanes = (uint32_t)isa_own()->lanes};
    const size_t numbers[] = {w->batch,    w->in[0],    w->in[1], w->out[0], w->out[1],
                              w->begin[0], w->begin[1], c->f.in,  c->f.out,  c->sum != UINT32_MAX};
    _Static_assert(sizeof numbers / sizeof numbers[0] <= RIVALS_NUMBERS, "a key has room for what tells a convolution");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        key.numbers[i] = (uint32_t)numbers[i];
    }
    return key;
}

enum pen_status conv_forms_build(struct build *b, struct conv *c)
{
    static const char *const names[CONV_FORMS] = {"product", "tiles of 4 x 4", "tiles of 2 x 2"};
    if (!winograd_takes(&c->w, &c->f) || !build_tiles(b)) {
        return PEN_OK;
    }
    struct rivals rivals = {.key = key_of(c), .count = CONV_FORMS, .names = names, .take = form_take};
    size_t costs[CONV_FORMS] = {winograd_cost_of_product(&c->w), winograd_cost(&c->w, &c->f, WINOGRAD_LARGE),
                                winograd_cost(&c->w, &c->f, WINOGRAD_SMALL)};
    for (uint32_t i = 0; i < CONV_FORMS; i++) {
        rivals.hopeless |= costs[i] > costs[form_by_rule(costs)] * HOPELESS / 10 ? 1u << i : 0;
    }
    for (uint32_t i = 0; i < 2; i++) {
        winograd_init(&c->tiles[i], &c->w, &c->f, i == 0 ? WINOGRAD_LARGE : WINOGRAD_SMALL, &c->act, build_threads(b));
        c->tiles[i].after = c->dense.after;
        const size_t bytes = winograd_scratch_bytes(&c->tiles[i], build_threads(b));
        const bool may = (rivals.hopeless & 1u << (CONV_TILES_LARGE + i)) == 0;
        b->step->scratch_bytes = may && bytes > b->step->scratch_bytes ? bytes : b->step->scratch_bytes;
    }
    rivals.rule = form_by_rule(costs);
    rivals.work = costs[CONV_PRODUCT] * c->f.in * c->f.out;
    const enum pen_status status = choose_offer(b, &rivals);
    if (rivals.settled && c->form != CONV_PRODUCT && c->sum != UINT32_MAX && c->dense.after == NULL) {
        b->inplace = 1u << c->sum; /* a tile reads what it adds where it writes */
        b->exclusive = true;
    }
    return status;
}
