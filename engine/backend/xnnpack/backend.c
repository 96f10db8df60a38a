#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/kept_types.h"
#include "backend/options.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/limit.h"
#include "backend/xnnpack/plan.h"
#include "backend/xnnpack/xnn_compat.h"

extern const struct backend_ops backend_xnnpack; /* named in the generated table of backends */

static const char *why_not(enum xnn_status status)
{
    return status == xnn_status_unsupported_hardware
               ? "XNNPACK does not know this processor (it reads /proc: is it mounted?)"
               : "XNNPACK cannot start: no memory";
}

/* How products of bf16 come by their sums. */
static const char *bf16_text(enum pen_isa most)
{
    return isa_tiles_within(most) ? "+amx" : isa_pairs_within(most) ? "+bf16" : "";
}

/* Part of what an answer rests on: the limit of XNNPACK's own kernels, too, where it is another than that of ours. */
static void library_text(enum pen_isa most, bool bf16, char *text, size_t bytes)
{
    const char *xnn = limit_text();
    bool other = strcmp(xnn, "any") != 0 && strcmp(xnn, isa_name(most)) != 0;
    snprintf(text, bytes, XC_LIBRARY " %s%s%s%s", isa_name(most), bf16 ? bf16_text(most) : "",
             other ? ", its own kernels " : "", other ? xnn : "");
}

#define OFFERED (1u << PEN_PRECISION_F32 | 1u << PEN_PRECISION_BF16 | 1u << PEN_PRECISION_INT8)

static enum pen_status probe(const struct backend_config *config, struct backend_caps *ret_caps)
{
    struct backend_caps c = {0};
    enum xnn_status status = limit_start(config->isa_max);
    c.available = status == xnn_status_success;
    if (!c.available) {
        snprintf(c.reason, sizeof c.reason, "%s", why_not(status));
    }
    isa_device(config->isa_max, c.device, sizeof c.device);
    library_text(config->isa_max, config->precision == PEN_PRECISION_BF16, c.library, sizeof c.library);
    c.precisions = OFFERED;
    *ret_caps = c;
    return PEN_OK;
}

static void backend_close(struct backend *backend)
{
    if (backend == NULL) {
        return;
    }
    for (uint32_t i = 0; i < backend->idle_count; i++) {
        team_free(backend->idle[i]);
    }
    isa_release();
    pthread_mutex_destroy(&backend->lock);
    free(backend);
}

static enum pen_status backend_open(const struct backend_config *config, struct backend **ret_backend,
                                    struct pen_error *reterr)
{
    if (config->precision != PEN_PRECISION_ANY && (OFFERED & 1u << config->precision) == 0) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "the xnnpack backend computes in f32, bf16 and int8 only; ask for one of them or for "
                             "another backend");
    }
    enum xnn_status xnn = limit_start(config->isa_max);
    if (xnn != xnn_status_success) {
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "the xnnpack backend cannot start: %s", why_not(xnn));
    }
    double error = 0.0;
    enum pen_status status = limit_check(config->isa_max, reterr);
    if (status == PEN_OK) {
        status = selftest_f32(&error, reterr);
    }
    if (status == PEN_OK && config->precision == PEN_PRECISION_BF16) {
        status = selftest_bf16(config->isa_max, &error, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    struct backend *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the xnnpack backend");
    }
    status = isa_claim(config->isa_max, reterr);
    if (status == PEN_OK && config->precision == PEN_PRECISION_INT8) {
        status = selftest_int8(reterr);
        if (status != PEN_OK) {
            isa_release();
        }
    }
    if (status != PEN_OK) {
        free(b);
        return status;
    }
    b->config = *config;
    b->config.options = NULL; /* borrowed for this call */
    b->joins = backend_option(&backend_xnnpack, config, "joins") != 0;
    b->tiles = backend_option(&backend_xnnpack, config, "tiles") != 0;
    b->measure_ns = UINT64_C(1000000) * backend_option(&backend_xnnpack, config, "measure_ms");
    b->config.threads = config->threads > 0 ? config->threads : 1;
    pthread_mutex_init(&b->lock, NULL);
    *ret_backend = b;
    return PEN_OK;
}

static void describe(const struct backend *backend, void (*say)(void *context, const char *name, const char *value),
                     void *context)
{
    say(context, "xnnpack_generation", XC_LIBRARY);
    say(context, "xnnpack_isa", isa_name(backend->config.isa_max));
    say(context, "xnnpack_limit", limit_text());
}

/* Recurrent cells may be asked for their last state alone. */
static bool first_optional(enum op op)
{
    return op == OP_LSTM || op == OP_GRU || op == OP_RNN;
}

static bool claims(enum op op)
{
    return emitter_find(op) != NULL;
}

static bool supports(const struct backend *backend, const struct graph *g, const struct node *n,
                     const char **ret_reason)
{
    (void)backend;
    const struct emitter *e = emitter_find(n->op);
    if (e == NULL) {
        return refuse(ret_reason, "no kernel");
    }
    if (n->out_count == 0 || (node_out(g, n, 0) == NULL && !first_optional(n->op)) || !node_values_known(g, n)) {
        return refuse(ret_reason, "a type or rank is only known at run time");
    }
    if (!kept_takes(KEPT_XNNPACK, g, n)) {
        return refuse(ret_reason, "no kernel for this element type in this build");
    }
    return e->supports(g, n, ret_reason);
}

static bool wants_layout(const struct backend_config *config)
{
    (void)config;
    return true;
}

static const struct pen_backend_option options[] = {
    {.name = "joins",
     .choices = "off|on",
     .value = "on",
     .meaning = "element-wise nodes run with the node before them; off: every node by itself, to see what that costs"},
    {.name = "tiles",
     .choices = "off|on",
     .value = "on",
     .meaning = "3 x 3 convolutions may run as products over turned tiles (Winograd), which round a little more"},
    {.name = "measure_ms",
     .least = 1,
     .most = 60000,
     .value = "60",
     .meaning = "with cpu_kernels=measured: milliseconds that a session spends on kernels that compete for its shapes"},
    {.name = NULL}};

const struct backend_ops backend_xnnpack = {
    .name = "xnnpack",
    .priority = 20,
    .options = options,
    .takes_askew = true,
    .wants_layout = wants_layout,
    .probe = probe,
    .open = backend_open,
    .close = backend_close,
    .describe = describe,
    .claims = claims,
    .supports = supports,
    .plan_new = xnn_plan_new,
    .plan_free = xnn_plan_free,
    .plan_bytes = xnn_plan_bytes,
    .plan_copied = xnn_plan_copied,
    .exec_new = xnn_exec_new,
    .exec_free = xnn_exec_free,
    .exec_bytes = xnn_exec_bytes,
    .exec_submit = xnn_exec_submit,
    .exec_wait = xnn_exec_wait,
    .exec_times = xnn_exec_times,
    .exec_kernels = xnn_exec_kernels,
};
