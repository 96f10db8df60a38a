/*
 * partition.h - cuts an assignment of nodes to classes into convex partitions, in execution order.
 *
 * Threads: any (pure).
 */
#ifndef PARTITION_H
#define PARTITION_H

#include "backend/backend.h"

#define PARTITION_SKIP UINT32_MAX

/*
 * classes[i] = class of node i, < class_count, or PARTITION_SKIP for nodes whose results are known without running them (they order nothing; dead nodes are passed
 * over too). Kahn's algorithm that stays in one class while it has ready nodes: each run of one class is
 * a partition, and no path leaves and re-enters it. Gives steps whose `backend` is the class and whose lists are one allocation each, freed by partition_free.
 * device: a class that may compute while others do, or PARTITION_SKIP. What another class can run without the results of the device's last partition is a partition of
 * its own before the rest, and the device's partitions come as early as what they read allows: so there is something to do while the device computes.
 */
enum pen_status partition_cut(const struct graph *g, const uint32_t *classes, uint32_t class_count, uint32_t device,
                              struct placed **ret_steps, uint32_t *ret_count);
void partition_free(struct placed *steps, uint32_t count);

/* Does `later` read what `earlier` makes? */
bool partition_reads(const struct partition *later, const struct partition *earlier);

/* The same with its lists in `lists`: room for the nodes, inputs and outputs, one behind the other. */
struct partition partition_copy(const struct partition *part, uint32_t *lists);

#endif
