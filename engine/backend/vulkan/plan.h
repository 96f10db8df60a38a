/*
 * plan.h - the backend's objects: backend (device), plan (weights of a partition), exec (recorded work of one shape bucket).
 *
 * Plan and exec can be made anew on another device: that is how a lost one is survived. A plan's weights are shared by reference with its execs.
 * Threads: as backend.h says; `lock` of the backend guards the current device, that of a plan its current weights.
 */
#ifndef VULKAN_PLAN_H
#define VULKAN_PLAN_H

#include "backend/vulkan/import.h"
#include "backend/vulkan/kernels.h"
#include "backend/vulkan/memory.h"
#include "backend/vulkan/op.h"
#include "backend/vulkan/range.h"
#include "backend/vulkan/storage.h"

#define VK_VERDICTS_MAX 40
/* What the self-test of a family gave: "ok", or why it is not used. */
struct vk_verdict {
    char name[24], text[104];
};

#define VK_BESIDE_MAX 15 /* devices of one backend besides its first */

struct vk_seen;

struct backend {
    struct backend_config config;
    struct vk_instance *instance;
    pthread_mutex_t lock;
    struct vk_device *device;   /* current */
    char *wanted, *cache_dir;   /* copies of options */
    struct vk_kernels kernels;  /* which family runs which product */
    enum vk_range_policy range; /* weights that f16 cannot hold */
    bool f16_trial;             /* storage.h */
    bool cm_named;              /* family `cm` was asked for: plain loops stand in where there are no matrices */
    const char *tuned;          /* what reading the table of kernels gave: vk_tune_load */
    struct vk_seen *seen;       /* [VK_CLASSES] products of the execs made so far, for the tuner; under lock */
    atomic_uint families[VK_FAMILY_COUNT];       /* products of the execs made so far, by the family that runs them */
    atomic_uint bytes_products[2];               /* of bytes: by plain kernels, by those that multiply four at once */
    atomic_uint bytes_matrices;                  /* of bytes: by family `cm` */
    atomic_uint attention_matrices;              /* attentions by cooperative matrices */
    atomic_uint attention_pieces;                /* those whose keys are cut in pieces */
    atomic_uint winograds;                       /* convolutions of these execs that run by Winograd's method */
    struct vk_verdict verdicts[VK_VERDICTS_MAX]; /* verdicts.h: of each family that was tried when it was opened */
    uint32_t verdict_count;
    enum vk_family lost_in; /* the family in whose self-test the device was lost; AUTO: none */
    bool bytes_wrong;       /* no kernel of products of bytes, or of their rounding, is right here */
    uint32_t repeats;       /* while the tuner measures; else 0 */
    atomic_uint_least64_t losses, compiled_before; /* pipelines of devices that were lost */
    struct backend *beside[VK_BESIDE_MAX];         /* several.c: whole backends on further devices */
    uint32_t beside_count;
};

/* ---- weights.c ---- */

struct vk_packed {
    bool there;
    struct vk_slice slice;
    float *host; /* while packing */
    bool wide;   /* stays f32 whatever the storage */
    bool bf16;   /* of a product of precision bf16 */
    size_t count;
};

struct vk_weights {
    atomic_uint references;
    struct vk_device *device;
    struct vk_blocks blocks;
    struct vk_upload upload;
    struct vk_packed (*packed)[VK_PACKS_MAX]; /* [node_count of the partition] */
    bool winograd;                            /* vk_conv=winograd: convolutions of 3 x 3 are packed for it */
    bool *wide;                               /* [node_count of the graph]: storage.h */
    struct vk_range_note range;               /* layers with weights that f16 cannot hold */
    struct vk_slice *constants
        [2]; /* [value_count of the graph], stored as the device does and as f32; buffer NULL = not uploaded yet */
    pthread_mutex_t lock; /* guards constants and upload: execs are made by several slots */
};

struct plan {
    struct backend *backend;
    const struct graph *g;
    struct partition part; /* own copy; lists are one allocation with the plan */
    pthread_mutex_t lock;
    struct vk_weights *weights;
    uint64_t bytes;
    bool *wide; /* [g->node_count]: storage.h */
    struct vk_storage storage;
    bool trial;  /* made to try a storage: what it computes is nobody's */
    bool looked; /* a trial whose execs note the largest value of every node (debug.h) */
    struct plan *beside
        [VK_BESIDE_MAX]; /* several.c: the same partition on the backend's further devices; NULL = it has no room */
    uint32_t left_out;   /* devices without room */
    struct vk_joints *joints; /* joints.h: nodes that run as one */
    struct vk_spread *spread; /* with siblings; NULL: one device, or a plan of its own (vk_plan_shell) */
};

/* planning.c: with its trial, its weights and its siblings on the further devices. */
enum pen_status vk_plan_new(struct backend *backend, const struct graph *g, const struct partition *part,
                            struct plan **ret_plan, struct pen_error *reterr);
/* Without weights, which its first exec makes, without siblings, and without a trial: all its nodes store floats as the device does. */
enum pen_status vk_plan_shell(struct backend *backend, const struct graph *g, const struct partition *part,
                              struct plan **ret_plan, struct pen_error *reterr);
void vk_plan_free(struct plan *plan);
uint64_t vk_plan_bytes(const struct plan *plan);
void vk_plan_note(const struct plan *plan, char *text, size_t bytes);
/* The weights on the backend's current device, made anew when that has changed. Gives a reference. */
enum pen_status vk_plan_weights(struct plan *plan, struct vk_weights **ret_weights, struct pen_error *reterr);

/* kernels: what the backend was asked for. */
enum pen_status vk_weights_new(struct vk_device *d, enum vk_range_policy range, const struct vk_kernels *kernels,
                               const struct graph *g, const struct partition *part, const bool *wide,
                               struct vk_weights **ret_weights, struct pen_error *reterr);
void vk_weights_release(struct vk_weights *w); /* NULL is fine */
/* A constant of the graph, or other host data when value is VALUE_NONE (then it goes into `own`). */
enum pen_status vk_weights_constant(struct vk_weights *w, const struct graph *g, uint32_t value, const struct fact *f,
                                    bool wide, struct vk_blocks *own, struct vk_slice *ret_slice,
                                    struct pen_error *reterr);

/* Bytes as they are, into `own`. */
enum pen_status vk_weights_raw(struct vk_weights *w, const void *data, size_t bytes, struct vk_blocks *own,
                               struct vk_slice *ret_slice, struct pen_error *reterr);

/* ---- several.c: one backend over several devices ---- */

/* Opens the further devices that the config names; closed with the backend. */
enum pen_status vk_several_open(struct backend *b, const struct backend_ops *ops, const struct backend_config *config,
                                struct pen_error *reterr);
void vk_several_close(struct backend *b, const struct backend_ops *ops);
/* Room for the plan's siblings on them; nothing where the backend has one device. Freed with the plan. */
enum pen_status vk_several_spread(struct plan *plan, struct pen_error *reterr);
/* The plan that the next exec of these shapes belongs to: slots with the same shapes take the devices in turn. */
struct plan *vk_several_choose(struct plan *plan, const struct shape_env *env);

/* ---- cells.c, exec.c, schedule.c, record.c, run.c ---- */

enum vk_cell_kind { VK_CELL_ARENA, VK_CELL_FIXED };

struct vk_cell {
    enum vk_cell_kind kind;
    uint32_t parent;        /* union-find: views share */
    size_t bytes, offset;   /* ARENA; bytes: the largest of the set */
    struct vk_slice slice;  /* FIXED: constants, packed weights, staging */
    uint32_t first, last;   /* levels, inclusive */
    uint32_t written, read; /* while levels are found: 1 + the last level that wrote, that read */
    bool used, leaves;      /* leaves: read after the last level */
    bool wide;              /* f32 though floats are stored as f16 */
    bool bf16;              /* packed weights that are bf16, though floats are stored as f32 */
};

enum vk_work_kind { VK_WORK_DISPATCH, VK_WORK_COPY };

struct vk_work {
    enum vk_work_kind kind;
    struct vk_build *build; /* while it is being built: errors stick there */
    uint32_t node;          /* index in the partition; UINT32_MAX: upload or download */
    uint32_t level;
    uint32_t chunk; /* command buffer it is in */
    struct vk_pipeline_key key;
    uint32_t cells[VK_BINDINGS_MAX]; /* COPY: source, destination */
    uint8_t access[VK_BINDINGS_MAX];
    uint32_t push_words;
    uint32_t push[VK_PUSH_BYTES / 4];
    uint32_t groups[3];
    size_t copy_bytes;
};

/* A boundary value in its staging buffer. */
struct vk_port {
    size_t offset, bytes; /* bytes: of the value on the host */
    bool half;            /* f32 on the host, f16 in the staging buffer (halves.h) */
    bool imported;        /* it is in memory that the exec is bound to (bound.h), not in the staging buffer */
    size_t imported_at;   /* then: in e->import */
    uint32_t cell;        /* of its memory, where works read or write it there */
    const void *known;    /* outputs whose value is known for this bucket; NULL = computed */
};

#define VK_FLAG_BYTES                                                                                                  \
    64 /* at the start of the download buffer: word 0 = 1 + node, word 1 = detail; written by kernels that check indices */

/* One run's place in an exec: its regions of the staging buffers, its command buffers, and what became of it. */
struct vk_run {
    VkCommandBuffer *commands; /* [chunk_count]: bounded work per submit */
    uint32_t next;             /* chunk to be submitted next */
    uint64_t ferried;          /* the ferry's value behind its inputs; 0 = they are in no ferry */
    uint64_t last;             /* the semaphore's value behind its latest chunk; 0 = none was submitted */
    bool stopped;              /* a cancel was seen: what is left of it is not submitted */
    const struct buffer_view *out;
    const struct cancel *cancel;
    struct pen_error error; /* why it failed before anybody waited for it; PEN_OK = it did not */
};

struct vk_ferry {
    VkCommandPool pool;
    VkCommandBuffer commands[VK_WINDOW_MAX]; /* by place in the ring */
    VkSemaphore semaphore;
    uint64_t value;         /* of the semaphore: the last one submitted */
    struct vk_buffer inbox; /* [window] regions, in the device's memory */
};

struct exec {
    struct plan *plan;
    const struct shape_env *env;
    struct vk_weights *weights; /* a reference: the device it was built on */
    struct vk_cell *cells;
    uint32_t cell_count, cell_room;
    uint32_t *cell_of[2]; /* [g->value_count]: stored as the device stores floats; f32 all the same */
    uint32_t *users;      /* [g->value_count] readers within the exec */
    uint32_t *only_user;  /* [g->value_count] node id of the last reader seen */
    bool *deferred;       /* [part.node_count] */
    bool *joined;         /* [joints of the plan] those that this exec builds as one dispatch */
    uint8_t *chosen_by;   /* [part.node_count] enum vk_chosen_by: of products */
    struct vk_work *works;
    uint32_t work_count, work_room;
    struct vk_port *in, *out;
    struct vk_buffer arena;                   /* of all runs: the queue keeps them in order */
    struct vk_buffer staging_in, staging_out; /* [window] regions */
    void **bound;                 /* [inputs, then outputs] where the owner's values lie; NULL = wherever a run says */
    struct vk_import import;      /* the memory around them; no handle: all is staged */
    struct vk_ferry ferry;        /* ferry.h: how inputs come from there to the device; no inbox: as copies of a run */
    size_t stride_in, stride_out; /* bytes of a region */
    struct vk_blocks constants;   /* known only for this bucket */
    VkCommandPool pool;
    struct vk_run runs[VK_WINDOW_MAX]; /* a ring: [oldest] is waited for next */
    uint32_t window, oldest, in_flight;
    uint32_t region; /* while recording: of which run */
    uint32_t chunk_count, level_count;
    uint32_t moves,
        direct; /* inputs and outputs that a run moves between staging and device; that kernels work on in place */
    VkDescriptorPool descriptors;
    VkQueryPool queries; /* debug.c: NULL unless times are taken */
    uint64_t *stamps;    /* [query_count] */
    uint32_t query_count;
    struct vk_buffer numerics; /* debug.c: what was found at each node; no handle unless it is looked for */
    uint32_t numerics_cell;
    VkSemaphore semaphore;
    uint64_t value, done; /* of the semaphore: the last one submitted, the last one seen */
    uint32_t flag_cell;
    uint64_t bytes;
};

/* planning.c: of the plan or of one of its siblings, once it is settled which nodes keep f32. */
enum pen_status vk_exec_new(struct plan *plan, const struct shape_env *env, struct exec **ret_exec,
                            struct pen_error *reterr);
/* exec.c: of this very plan, as it is. */
enum pen_status vk_exec_make(struct plan *plan, const struct shape_env *env, struct exec **ret_exec,
                             struct pen_error *reterr);
void vk_exec_free(struct exec *exec);
uint64_t vk_exec_bytes(const struct exec *exec);
/* bound.c */
enum pen_status vk_exec_bind(struct exec *exec, const struct buffer_view *in, const struct buffer_view *out,
                             struct pen_error *reterr);
enum pen_status vk_exec_submit(struct exec *exec, const struct buffer_view *in, const struct buffer_view *out,
                               const struct cancel *cancel, struct pen_error *reterr);
enum pen_status vk_exec_wait(struct exec *exec, struct pen_error *reterr);
uint32_t vk_exec_window(const struct exec *exec);
bool vk_exec_done(struct exec *exec, uint64_t timeout_ns);

/* Everything device-side of an exec; again after a loss. */
enum pen_status vk_exec_build(struct exec *e, struct pen_error *reterr);
void vk_exec_wipe(struct exec *e);

/* ---- bytes.c ---- */

/* As b->kernels, for products of bytes: their matrices, what their tiles take. */
void vk_kernels_of_bytes(const struct backend *b, struct vk_kernels *ret_kernels);
/* What the tuner may try of a family besides the rules' own form, as vk_tuned_of numbers it: tiles, or 1 for plain kernels beside those that multiply four at once. */
uint32_t vk_bytes_forms(const struct backend *b, enum vk_family family);
/* The family that runs a product of bytes without a table. */
enum vk_family vk_bytes_by_rule(const struct backend *b, const struct vk_product_shape *shape);

/* ---- cells.c ---- */

uint32_t vk_cell_root(const struct exec *e, uint32_t cell);
uint32_t vk_cell_add(struct exec *e, const struct vk_cell *cell); /* VK_CELL_NONE without memory */
struct vk_slice vk_cell_slice(const struct exec *e, uint32_t cell);
bool vk_cell_staged(const struct exec *e, uint32_t cell); /* in a staging buffer: another place for each run */
struct vk_work *vk_work_add(struct exec *e);              /* NULL without memory */

/* schedule.c: levels from the hazards between works, works sorted by level, cells placed in the arena. */
enum pen_status vk_schedule(struct exec *e, struct pen_error *reterr);
/* record.c: pipelines, descriptor sets, command buffers. */
enum pen_status vk_record(struct exec *e, struct pen_error *reterr);
void vk_record_wipe(struct exec *e); /* of an exec that no run is on; zeroed is fine */

/* ---- current.c: the device that a backend works on now ---- */

/* What it computes floats in: f32 for ANY and INT8. */
enum pen_precision vk_backend_precision(const struct backend *b);
/* Lists the devices and chooses one. */
enum pen_status vk_backend_choose(struct vk_instance *in, const struct pen_vulkan_options *options,
                                  struct vk_device_info *ret_info, struct pen_error *reterr);
/* Opens the device that the options name. Gives a reference. */
enum pen_status vk_backend_device_open(struct backend *b, struct vk_device **ret_device, struct pen_error *reterr);
/* The current device, opened anew after a loss. Gives a reference. */
enum pen_status vk_backend_device(struct backend *b, struct vk_device **ret_device, struct pen_error *reterr);

#endif
