/*
 * joints.h - nodes of a partition that run as one dispatch: an attention that a file spells out.
 *
 * A plan looks for them once; an exec whose shapes one does not fit builds its nodes one by one. None hides a value that somebody else reads.
 * Threads: made with the plan, constant then; what an exec joins is the exec's.
 */
#ifndef VULKAN_JOINTS_H
#define VULKAN_JOINTS_H

#include "backend/attention_pattern.h"
#include "backend/vulkan/plan.h"

struct vk_joint {
    struct attention_pattern found;
    struct node node; /* what the dispatch sees: queries, keys, values, terms; the result of the last member */
    uint32_t in[3 + FLASH_TERMS], out;
    uint32_t last; /* index in the partition of the last member: built in its place */
};

struct vk_joints {
    struct vk_joint *all;
    uint32_t count;
    uint32_t *of; /* [node_count of the partition] 1 + joint; 0 = of none */
};

enum pen_status vk_joints_new(const struct graph *g, const struct partition *part, struct vk_joints **ret_joints);
void vk_joints_free(struct vk_joints *j); /* NULL is fine */

/* Settles which of the plan's joints this exec builds, and marks their members. apart: none, as every node is looked at. */
enum pen_status vk_joints_settle(struct exec *e, bool apart);
/* The joint that the node is built in; NULL: it is built by itself. */
const struct vk_joint *vk_joint_of(const struct exec *e, uint32_t index);

/* ops/attention_joined.c: b->n is the joint's node. */
void vk_joint_build(struct vk_build *b, const struct vk_joint *j);

#endif
