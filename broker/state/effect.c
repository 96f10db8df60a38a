#include "effect.h"

#include "assertion.h"
#include "broker_state.h"

static void ring_init(struct effect *ring)
{
    ring->next = ring->before = ring;
}

void effects_init(struct effects *effects, const effect_row *rows)
{
    *effects = (struct effects){.rows = rows, .again_max = EFFECTS_AGAIN};
    ring_init(&effects->ends);
    ring_init(&effects->later);
}

bool effects_empty(const struct effects *effects)
{
    return effects->ends.next == &effects->ends;
}

bool effects_left(const struct effects *effects)
{
    return effects->later.next != &effects->later;
}

bool effect_posted(const struct effect *effect)
{
    return effect->next != NULL;
}

static void ring_add(struct effect *ring, struct effect *effect)
{
    PEN_ASSERT(!effect->next && !effect->before, "an effect is in one queue, once");
    effect->next = ring;
    effect->before = ring->before;
    effect->before->next = effect;
    ring->before = effect;
}

void effect_post(struct effects *effects, struct effect *effect, enum effect_kind kind)
{
    PEN_ASSERT(effects->phase != EFFECTS_IDLE, "what follows from an event is posted by its handler, which drains");
    PEN_ASSERT(!effect_posted(effect) || effect->kind == kind, "a link is of one kind");
    effect->kind = (uint8_t)kind;
    if (!effect_posted(effect))
        ring_add(&effects->ends, effect);
}

void effect_post_again(struct effects *effects, struct effect *effect)
{
    PEN_ASSERT(effects->phase == EFFECTS_DRAINING, "what is posted again is an effect that runs");
    ring_add(effects->again < effects->again_max ? &effects->ends : &effects->later, effect);
    effects->again++;
}

void effect_drop(struct effect *effect)
{
    if (!effect_posted(effect))
        return;
    PEN_ASSERT(effect->before->next == effect && effect->next->before == effect,
               "an effect in the queue is linked both ways");
    effect->before->next = effect->next;
    effect->next->before = effect->before;
    effect->next = effect->before = NULL;
}

void effects_begin(struct effects *effects)
{
    PEN_ASSERT(effects->phase == EFFECTS_IDLE, "a handler runs inside no other one, and inside no effect");
    PEN_ASSERT(effects_empty(effects), "what followed from the event before this one has been done");
    effects->phase = EFFECTS_HANDLING;
}

void effects_turn(struct effects *effects)
{
    struct effect *effect;
    effects->again = 0;
    while (effects_left(effects)) {
        effect = effects->later.next;
        effect_drop(effect);
        ring_add(&effects->ends, effect);
    }
}

/* The oldest, out of the queue; NULL: none. */
static struct effect *take(struct effects *effects)
{
    struct effect *oldest = effects->ends.next;
    if (effects_empty(effects))
        return NULL;
    effect_drop(oldest);
    return oldest;
}

static void run(struct broker *broker, struct effect *effect)
{
    const effect_subscriber *row = broker->effects.rows[effect->kind];
    broker->effects.ran[effect->kind]++;
    for (size_t i = 0; i < EFFECT_SUBSCRIBERS_MAX && row[i]; i++) {
        if (!row[i](broker, effect))
            return;
    }
}

bool effects_drain(struct broker *broker)
{
    struct effects *effects = &broker->effects;
    struct effect *effect;
    bool any = !effects_empty(effects);
    PEN_ASSERT(effects->phase == EFFECTS_HANDLING, "a handler drains once, when it is through, and no effect drains");
    effects->phase = EFFECTS_DRAINING;
    while ((effect = take(effects)) != NULL)
        run(broker, effect);
    effects->phase = EFFECTS_IDLE;
    return any;
}
