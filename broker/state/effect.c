#include "effect.h"

void effects_init(struct effects *effects)
{
    *effects = (struct effects){.drained = 0};
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
