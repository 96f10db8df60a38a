#include <string.h>

#include "backend/vulkan/joints.h"
#include "backend/vulkan/ops/attention.h"

/* Attention that a file spells out, as one dispatch. */

static void terms_set(struct vk_build *b, struct vk_attention *a, const struct attention_sizes *s)
{
    for (uint32_t i = 0; i < a->term_count; i++) {
        a->terms[i] = (struct vk_term){
            .cell = vk_in_cell(b, 3 + i), .kind = (uint32_t)s->terms[i].kind, .of = VK_TERM_BYTES, .at = s->terms[i]};
    }
}

void vk_joint_build(struct vk_build *b, const struct vk_joint *j)
{
    struct vk_attention a = vk_attention_none();
    struct attention_sizes s;
    const char *why = attention_pattern_sizes(&j->found, b->env, &s);
    if (why != NULL) {
        vk_build_fail(b, PEN_ERR_SHAPE, why);
        return;
    }
    a.batch = s.batch;
    a.heads = s.heads;
    a.kv_heads = s.kv_heads;
    a.queries = s.queries;
    a.keys = s.keys;
    a.size = s.size;
    a.value_size = s.value_size;
    a.q = s.q;
    a.k = s.k;
    a.v = s.v;
    a.y = s.y;
    a.q_cell = vk_in_cell(b, 0);
    a.k_cell = vk_in_cell(b, 1);
    a.v_cell = vk_in_cell(b, 2);
    a.y_cell = vk_out_cell(b, 0);
    a.scale = j->found.scale;
    a.hidden_zero = j->found.zero;
    a.term_count = j->found.term_count;
    terms_set(b, &a, &s);
    vk_attention_dispatch(b, &a);
}
