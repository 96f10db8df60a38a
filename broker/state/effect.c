#include "effect.h"

#include "assertion.h"
#include "broker_state.h"

void effects_init(struct effects *effects, const effect_subscriber *subscribers)
{
    *effects = (struct effects){.subscribers = subscribers};
    effects->ends.next = effects->ends.before = &effects->ends;
}

bool effects_empty(const struct effects *effects)
{
    return effects->ends.next == &effects->ends;
}

bool effect_posted(const struct effect *effect)
{
    return effect->next != NULL;
}

void effect_post(struct effects *effects, struct effect *effect, enum effect_kind kind)
{
    PEN_ASSERT(!effect_posted(effect) || effect->kind == kind, "a record posts one kind of effect");
    effect->kind = (uint8_t)kind;
    if (effect_posted(effect))
        return;
    effect->next = &effects->ends;
    effect->before = effects->ends.before;
    effect->before->next = effect;
    effects->ends.before = effect;
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

struct effect *effects_take(struct effects *effects)
{
    struct effect *oldest = effects->ends.next;
    if (effects_empty(effects))
        return NULL;
    effect_drop(oldest);
    return oldest;
}

bool effects_drain(struct broker *broker)
{
    struct effects *effects = &broker->effects;
    struct effect *effect;
    uint64_t before = effects->drained;
    PEN_ASSERT(!effects->draining, "an effect runs between handlers, never inside one that an effect has called");
    effects->draining = true;
    while ((effect = effects_take(effects)) != NULL) {
        effects->drained++;
        effects->subscribers[effect->kind](broker, effect);
    }
    effects->draining = false;
    return effects->drained != before;
}
