#include "backend/vulkan/joints.h"

#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/shader.h"

static void joint_init(struct vk_joint *j, const struct finder *f)
{
    const struct attention_pattern *a = &j->found;
    const struct node *last = a->members[a->member_count - 1];
    const uint32_t sides[3] = {a->q.value, a->k.value, a->v.value};
    memcpy(j->in, sides, sizeof sides);
    memcpy(j->in + 3, a->term_values, a->term_count * sizeof a->term_values[0]);
    j->out = last->out[0];
    j->last = finder_index(f, last);
    j->node = *last;
    j->node.attrs = NULL;
    j->node.attr_count = 0;
    j->node.in = j->in;
    j->node.in_count = 3 + a->term_count;
    j->node.out = &j->out;
    j->node.out_count = 1;
}

static void joints_find(struct finder *f, struct vk_joints *js)
{
    for (uint32_t i = 0; i < f->part->node_count; i++) {
        const struct node *n = &f->g->nodes[f->part->nodes[i]];
        struct vk_joint *j = &js->all[js->count];
        if (n->op != OP_Softmax || !finder_free(f, n) || !attention_pattern_find(f, n, &j->found)) {
            continue;
        }
        joint_init(j, f);
        js->count++;
        for (uint32_t k = 0; k < j->found.member_count; k++) {
            uint32_t at = finder_index(f, j->found.members[k]);
            f->taken[at] = true;
            js->of[at] = js->count;
        }
    }
}

static uint32_t softmaxes(const struct graph *g, const struct partition *part)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < part->node_count; i++) {
        count += g->nodes[part->nodes[i]].op == OP_Softmax;
    }
    return count;
}

enum pen_status vk_joints_new(const struct graph *g, const struct partition *part, struct vk_joints **ret_joints)
{
    const uint32_t most = softmaxes(g, part);
    const struct shader_code *code = &vk_shader_table[SHADER_attention];
    const bool kept = code->words[SHADER_F32] != NULL || code->words[SHADER_F16] != NULL; /* small builds may lack it */
    struct vk_joints *js = calloc(1, sizeof *js);
    struct finder f;
    *ret_joints = js;
    if (js == NULL || most == 0 || !kept) {
        return js != NULL ? PEN_OK : PEN_ERR_NO_MEMORY;
    }
    js->all = calloc(most, sizeof *js->all);
    js->of = calloc((size_t)part->node_count + 1, sizeof *js->of);
    if (js->all == NULL || js->of == NULL || finder_init(&f, g, part) != PEN_OK) {
        vk_joints_free(js);
        *ret_joints = NULL;
        return PEN_ERR_NO_MEMORY;
    }
    joints_find(&f, js);
    finder_fini(&f);
    return PEN_OK;
}

void vk_joints_free(struct vk_joints *j)
{
    if (j != NULL) {
        free(j->all);
        free(j->of);
        free(j);
    }
}

/* All its nodes run, store floats alike and fit each other. */
static bool fits(const struct exec *e, const struct vk_joint *j)
{
    const struct attention_pattern *a = &j->found;
    const struct graph *g = e->plan->g;
    struct attention_sizes sizes;
    for (uint32_t i = 0; i < a->member_count; i++) {
        const struct node *n = a->members[i];
        if (n->dead || shape_env_folded(e->env, n) ||
            e->weights->wide[n - g->nodes] != e->weights->wide[a->members[0] - g->nodes]) {
            return false;
        }
    }
    return attention_pattern_sizes(a, e->env, &sizes) == NULL && sizes.batch * sizes.heads * sizes.queries > 0 &&
           sizes.value_size > 0;
}

enum pen_status vk_joints_settle(struct exec *e, bool apart)
{
    const struct vk_joints *js = e->plan->joints;
    e->joined = calloc((size_t)js->count + 1, sizeof *e->joined);
    if (e->joined == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < js->count; i++) {
        e->joined[i] = !apart && fits(e, &js->all[i]);
    }
    for (uint32_t i = 0; js->count > 0 && i < e->plan->part.node_count; i++) {
        const struct vk_joint *j = vk_joint_of(e, i);
        e->deferred[i] = j != NULL && i != j->last;
    }
    return PEN_OK;
}

const struct vk_joint *vk_joint_of(const struct exec *e, uint32_t index)
{
    const struct vk_joints *js = e->plan->joints;
    const uint32_t at = js->count > 0 ? js->of[index] : 0;
    return at > 0 && e->joined[at - 1] ? &js->all[at - 1] : NULL;
}
