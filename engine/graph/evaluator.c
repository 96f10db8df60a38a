#include "graph/evaluator.h"

#include <stdatomic.h>

#include "assertion.h"

static _Atomic(const struct evaluator *) registered;

void evaluator_register(const struct evaluator *table)
{
    PEN_ASSERT(table != NULL && table->has != NULL && table->supports != NULL && table->run != NULL,
               "a table for folding has all its functions");
    atomic_store_explicit(&registered, table, memory_order_release);
}

const struct evaluator *evaluator_get(void)
{
    return atomic_load_explicit(&registered, memory_order_acquire);
}
