/* The reference backend: the contract of backend.h over the plain kernels. Any host has it; it runs in the caller's thread. */
#include "backend/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/reference/kernel.h"
#include "backend/reference/reference_exec.h"

struct backend {
    struct backend_config config;
};

struct plan {
    const struct graph *g;
    struct partition part; /* copies, in one block behind the plan */
    struct backend_config config;
};

/* The processor's name as the kernel tells it, else "CPU". */
static void device_name(char *text, size_t bytes)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    snprintf(text, bytes, "CPU");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            snprintf(text, bytes, "%s", colon + 2);
            text[strcspn(text, "\n")] = '\0';
            break;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
}

static enum pen_status probe(const struct backend_config *config, struct backend_caps *ret_caps)
{
    (void)config;
    memset(ret_caps, 0, sizeof *ret_caps);
    ret_caps->available = true;
    device_name(ret_caps->device, sizeof ret_caps->device);
    snprintf(ret_caps->library, sizeof ret_caps->library, "reference-1");
    ret_caps->precisions = 1u << PEN_PRECISION_F32; /* integers stay integers under it */
    return PEN_OK;
}

static enum pen_status open_backend(const struct backend_config *config, struct backend **ret_backend,
                                    struct pen_error *reterr)
{
    if (config->precision != PEN_PRECISION_ANY && config->precision != PEN_PRECISION_F32) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "backend reference computes in the model's own precision only; ask for f32");
    }
    struct backend *b = malloc(sizeof *b);
    if (b == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to open backend reference");
    }
    b->config = *config;
    *ret_backend = b;
    return PEN_OK;
}

static void close_backend(struct backend *backend)
{
    free(backend);
}

static bool refuse(const char **ret_reason, const char *reason)
{
    if (ret_reason != NULL) {
        *ret_reason = reason;
    }
    return false;
}

static bool supports(const struct backend *backend, const struct graph *g, const struct node *n,
                     const char **ret_reason)
{
    (void)backend;
    if ((op_def(n->op)->traits & (OP_CONTROL | OP_SEQUENCE | OP_DYNAMIC)) != 0) {
        return refuse(ret_reason, "its shapes depend on data");
    }
    for (uint32_t i = 0; i < n->in_count; i++) {
        const struct value *v = node_in(g, n, i);
        if (v != NULL && (v->kind != VALUE_TENSOR || v->dtype == PEN_DTYPE_STRING)) {
            return refuse(ret_reason, "strings and sequences are the executor's");
        }
    }
    for (uint32_t i = 0; i < n->out_count; i++) {
        const struct value *v = node_out(g, n, i);
        if (v != NULL && (v->kind != VALUE_TENSOR || v->dtype == PEN_DTYPE_STRING)) {
            return refuse(ret_reason, "strings and sequences are the executor's");
        }
    }
    return kernel_supports(g, n, ret_reason);
}

static const uint32_t *ids_copy(uint32_t **at, const uint32_t *ids, uint32_t count)
{
    uint32_t *to = *at;
    if (count > 0) {
        memcpy(to, ids, count * sizeof *ids);
    }
    *at += count;
    return to;
}

static enum pen_status plan_new(struct backend *backend, const struct graph *g, const struct partition *part,
                                struct plan **ret_plan, struct pen_error *reterr)
{
    size_t ids = (size_t)part->node_count + part->in_count + part->out_count;
    struct plan *p = malloc(sizeof *p + ids * sizeof(uint32_t));
    if (p == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a plan of %u nodes", part->node_count);
    }
    uint32_t *at = (uint32_t *)(p + 1);
    *p = (struct plan){.g = g, .part = *part, .config = backend->config};
    p->part.nodes = ids_copy(&at, part->nodes, part->node_count);
    p->part.in = ids_copy(&at, part->in, part->in_count);
    p->part.out = ids_copy(&at, part->out, part->out_count);
    *ret_plan = p;
    return PEN_OK;
}

static void plan_free(struct plan *plan)
{
    free(plan);
}

static uint64_t plan_bytes(const struct plan *plan)
{
    (void)plan; /* weights are used where they lie */
    return 0;
}

static enum pen_status exec_new(struct plan *plan, const struct shape_env *env, struct exec **ret_exec,
                                struct pen_error *reterr)
{
    return reference_exec_new(plan->g, &plan->part, &plan->config, env, ret_exec, reterr);
}

/* Runs to the end: there is nothing left to wait for. */
static enum pen_status exec_wait(struct exec *exec, struct pen_error *reterr)
{
    (void)exec, (void)reterr;
    return PEN_OK;
}

static bool claims(enum op op)
{
    return kernel_find(op) != NULL;
}

extern const struct backend_ops backend_reference; /* named in the generated table of backends */
const struct backend_ops backend_reference = {
    .name = "reference",
    .is_reference = true,
    .priority = 10,
    .probe = probe,
    .open = open_backend,
    .close = close_backend,
    .claims = claims,
    .supports = supports,
    .plan_new = plan_new,
    .plan_free = plan_free,
    .plan_bytes = plan_bytes,
    .exec_new = exec_new,
    .exec_free = reference_exec_free,
    .exec_bytes = reference_exec_bytes,
    .exec_submit = reference_exec_run,
    .exec_wait = exec_wait,
    .exec_times = reference_exec_times,
    .exec_kernels = reference_exec_kernels,
};
