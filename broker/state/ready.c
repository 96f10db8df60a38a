#include "ready.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "model.h"

#define SHARE_LEAST 8u

static struct ready_class *class_of(struct model *model, const struct offer *offer)
{
    struct ready_class *class;
    TAILQ_FOREACH(class, &model->classes, in_model)
    {
        if (class->precision == offer->precision && class->rows_max == offer->rows_max && class->cold == offer->cold &&
            strcmp(class->backend, offer->meta->backend) == 0)
            return class;
    }
    class = calloc(1, sizeof *class);
    if (!class)
        return NULL;
    class->model = model;
    class->precision = offer->precision;
    class->rows_max = offer->rows_max;
    class->cold = offer->cold;
    snprintf(class->backend, sizeof class->backend, "%s", offer->meta->backend);
    TAILQ_INIT(&class->idle);
    TAILQ_INIT(&class->busy);
    TAILQ_INSERT_TAIL(&model->classes, class, in_model);
    model->classes_count++;
    return class;
}

static void join(struct offer *offer, bool idle)
{
    struct ready_class *class = offer->class;
    offer->idle = idle;
    *(idle ? &class->idle_count : &class->busy_count) += 1;
    if (idle)
        TAILQ_INSERT_TAIL(&class->idle, offer, in_ready);
    else
        TAILQ_INSERT_TAIL(&class->busy, offer, in_ready);
}

static void leave(struct offer *offer)
{
    struct ready_class *class = offer->class;
    PEN_ASSERT((offer->idle ? class->idle_count : class->busy_count) > 0,
               "an offer that leaves its list was counted in it");
    *(offer->idle ? &class->idle_count : &class->busy_count) -= 1;
    if (offer->idle)
        TAILQ_REMOVE(&class->idle, offer, in_ready);
    else
        TAILQ_REMOVE(&class->busy, offer, in_ready);
    PEN_ASSERT((class->idle_count == 0) == TAILQ_EMPTY(&class->idle) &&
                   (class->busy_count == 0) == TAILQ_EMPTY(&class->busy),
               "idle and busy offers are counted");
}

bool ready_add(struct model *model, struct offer *offer, bool idle)
{
    offer->class = class_of(model, offer);
    if (offer->class)
        join(offer, idle);
    return offer->class != NULL;
}

void ready_remove(struct model *model, struct offer *offer)
{
    struct ready_class *class = offer->class;
    if (!class)
        return;
    leave(offer);
    offer->class = NULL;
    if (class->idle_count + class->busy_count > 0)
        return;
    PEN_ASSERT(model->classes_count > 0, "a class that goes has been counted");
    TAILQ_REMOVE(&model->classes, class, in_model);
    model->classes_count--;
    free(class);
}

void ready_idle(struct offer *offer)
{
    if (!offer->class || offer->idle)
        return;
    leave(offer);
    join(offer, true);
}

void ready_busy(struct offer *offer)
{
    if (!offer->class)
        return;
    leave(offer);
    join(offer, false);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

void ready_look(const struct model *model, bool (*take)(void *context, struct offer *offer), void *context)
{
    const struct ready_class *class;
    size_t share = model->classes_count ? READY_LOOK / model->classes_count : 0;
    share = share < SHARE_LEAST ? SHARE_LEAST : share;
    TAILQ_FOREACH(class, &model->classes, in_model)
    {
        struct offer *offer;
        size_t for_busy = least(class->busy_count, share / 4), left = share - for_busy;
        TAILQ_FOREACH(offer, &class->idle, in_ready)
        {
            if (left == 0)
                break;
            left -= take(context, offer);
        }
        left += for_busy;
        TAILQ_FOREACH(offer, &class->busy, in_ready)
        {
            if (left == 0)
                break;
            left -= take(context, offer);
        }
    }
}
