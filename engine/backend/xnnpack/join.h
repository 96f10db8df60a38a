/*
 * join.h - which nodes of a partition run as one step: a product, a window or an element-wise node, and the element-wise nodes behind it.
 *
 * A node joins the one whose result it reads when nobody else reads that. The step stands where the last of them stood: its operands are computed by then.
 * Threads: one-at-a-time.
 */
#ifndef XNNPACK_JOIN_H
#define XNNPACK_JOIN_H

#include "backend/xnnpack/chain.h"
#include "backend/xnnpack/plan.h"

#define JOIN_NONE UINT32_MAX

struct join {
    uint32_t *next;   /* [part.node_count] index of the node that goes on with this one's result; JOIN_NONE */
    uint32_t *before; /* its inverse */
};

/* The fusion of the plan (fusion.h) that runs a node with these shapes; NULL: none does. Its nodes join no others. */
const struct fusion *join_fusion(const struct plan *plan, const struct shape_env *env, uint32_t index);
/* Where values of nodes are checked one by one (backend_config.check_numerics), nothing is joined. */
enum pen_status join_find(struct join *j, const struct plan *plan, const struct shape_env *env);
void join_fini(struct join *j);
/* The node that a step which ends with `index` begins with; itself when it is alone. */
uint32_t join_head(const struct join *j, uint32_t index);
/* What comes behind the head, or from the head on when the head itself is element-wise (*ret_whole). False: the node is alone. */
bool join_chain(const struct join *j, const struct plan *plan, const struct shape_env *env, uint32_t index,
                struct chain *c, bool *ret_whole);

#endif
