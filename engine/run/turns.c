#include "run/turns.h"

#include "assertion.h"
#include "backend/backend.h"

void turns_init(struct turns *t, struct rt_arena *run, uint64_t *total)
{
    *t = (struct turns){.run = run, .total = total};
    rt_arena_init_beside(&t->keep[0], run);
    rt_arena_init_beside(&t->keep[1], run);
    rt_arena_init_beside(&t->items, run);
}

void turns_fini(struct turns *t)
{
    rt_arena_fini(&t->keep[0]);
    rt_arena_fini(&t->keep[1]);
    rt_arena_fini(&t->items);
}

enum pen_status turns_next(struct turns *t, struct kernel_call *k)
{
    if (cancel_wanted(k->cancel)) {
        return PEN_ERR_CANCELLED;
    }
    if (++*t->total > TURNS_MAX) {
        return kernel_fail(k, PEN_ERR_TOO_LARGE, "the loops of this run have turned %llu times and are not done",
                           (unsigned long long)TURNS_MAX);
    }
    if (t->apart && !t->texts) {
        rt_arena_release(t->run, &t->mark);
        rt_arena_reset(&t->keep[t->count % 2]); /* of the turn before the last */
    } else if (t->count == TURNS_SMALL) {
        t->mark = rt_arena_mark(t->run);
        t->apart = true;
    }
    t->count++;
    PEN_ASSERT(t->count <= *t->total, "a loop's turns are among those of the run");
    return PEN_OK;
}

static bool separate(const struct turns *t)
{
    return t->apart && !t->texts;
}

/* turns_next has counted this turn already. */
struct rt_memory *turns_keep(struct turns *t)
{
    return separate(t) ? &t->keep[(t->count - 1) % 2].memory : &t->run->memory;
}

struct rt_memory *turns_items(struct turns *t)
{
    return separate(t) ? &t->items.memory : &t->run->memory;
}

void turns_see(struct turns *t, const struct rt_value *v)
{
    t->texts = t->texts || v->dtype == PEN_DTYPE_STRING;
    for (uint32_t i = 0; i < v->item_count && !t->texts; i++) {
        turns_see(t, &v->items[i]);
    }
}
