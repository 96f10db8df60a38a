/* samples_vulkan.c - samples on the Vulkan device that is here; lavapipe will do. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/backend.h"
#include "backend/vulkan/kernels.h"
#include "backend/vulkan/plan.h"
#include "samples.h"

static void conv_world(struct world *w, const char *const *sets)
{
    world_open(w, sets);
    world_load(w, graph_conv(0.01f));
    if (w->loaded == PEN_OK) {
        world_run(w, 4, DIMS(1, 16, 12, 12), world_zeros);
        cr_assert_eq(w->ran, PEN_OK, "%s", w->error.text);
    }
}

static unsigned files_in(const char *folder)
{
    unsigned count = 0;
    DIR *d = opendir(folder);
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        count += e->d_name[0] != '.' && strcmp(e->d_name, "model.onnx") != 0;
    }
    closedir(d);
    return count;
}

#define VULKAN "backend=vulkan", "vk_allow_software=on", "vk_validate=on"

static struct backend *vulkan_of(const struct world *w)
{
    return w->engine->backends[0].self;
}

void sample_precision(void)
{
    struct world w;
    world_dense(&w, SETS(VULKAN, "precision=f16_storage"));
    cr_expect_eq(pen_model_precision(w.model), PEN_PRECISION_F16_STORAGE);
    world_close(&w);
    world_dense(&w, SETS(VULKAN, "precision=f32"));
    cr_expect_eq(pen_model_precision(w.model), PEN_PRECISION_F32);
    world_close(&w);
}

void sample_cpu_forward(void)
{
    struct world off, on;
    world_dense(&off, SETS(VULKAN));
    cr_expect(world_placed(&off, "vulkan 3/3 nodes"), "%s", pen_model_placement(off.model));
    world_dense(&on, SETS(VULKAN, "cpu_forward=on", "crossings=free"));
    cr_expect(world_placed(&on, "vulkan 2/3 nodes") && world_placed(&on, "1 crossing"), "%s",
              pen_model_placement(on.model));
    cr_expect_float_eq(on.y0, off.y0, 1e-5f);
    world_close(&off);
    world_close(&on);
}

/* What world_dense does, on an engine that has measured both backends already: the device starts in start_ns, and the CPU multiplies once in 1 ns. */
static void world_paced(struct world *w, const char *const *sets, double start_ns)
{
    world_open(w, sets);
    cr_assert_eq(w->opened, PEN_OK, "%s", w->error.text);
    w->engine->paces = (struct paces){
        .tried = {true, true}, .known = {true, true}, .of = {{.start_ns = start_ns}, {.byte_ns = 1.0, .mac_ns = 1.0}}};
    world_load(w, graph_dense());
    world_run(w, 2, DIMS(1, WIDTH), world_zeros);
    cr_assert_eq(w->ran, PEN_OK, "%s", w->error.text);
}

/* cpu_forward leaves the first node to the CPU; the way of the other two is weighed: both take some 50 us there. */
void sample_crossings(void)
{
    const double slow = 1e6, quick = 1e2;
    struct world w;
    world_paced(&w, SETS(VULKAN, "cpu_forward=on", "crossings=free"), slow);
    cr_expect(world_placed(&w, "vulkan 2/3 nodes"), "%s", pen_model_placement(w.model));
    const float y0 = w.y0;
    world_close(&w);
    world_paced(&w, SETS(VULKAN, "cpu_forward=on", "crossings=measured"), slow);
    cr_expect_not(world_placed(&w, "vulkan"), "%s", pen_model_placement(w.model));
    cr_expect_float_eq(w.y0, y0, 1e-5f);
    world_close(&w);
    world_paced(&w, SETS(VULKAN, "cpu_forward=on", "crossings=measured"), quick);
    cr_expect(world_placed(&w, "vulkan 2/3 nodes"), "%s", pen_model_placement(w.model));
    world_close(&w);
    world_paced(&w, SETS(VULKAN, "cpu_forward=on", "cpu_kernels=rules"), slow);
    cr_expect(world_placed(&w, "vulkan 2/3 nodes"), "where nothing is measured, every way is free");
    world_close(&w);
    world_paced(&w, SETS(VULKAN, "crossings=measured"), slow);
    cr_expect(world_placed(&w, "vulkan 3/3 nodes"), "a model that is all the device's is not weighed");
    world_close(&w);
}

void sample_cpu_forward_max_elems(void)
{
    struct world few, many;
    world_dense(&few, SETS(VULKAN, "cpu_forward=on", "cpu_forward_max_elems=63"));
    cr_expect(world_placed(&few, "vulkan 3/3 nodes"), "%s", pen_model_placement(few.model));
    world_dense(&many, SETS(VULKAN, "cpu_forward=on", "cpu_forward_max_elems=100000"));
    cr_expect_not(world_placed(&many, "vulkan"), "%s", pen_model_placement(many.model));
    world_close(&few);
    world_close(&many);
}

void sample_vk_upload_queue(void)
{
    struct world w;
    world_dense(&w, SETS(VULKAN, "vk_upload_queue=off"));
    const float y0 = w.y0;
    cr_expect_eq(vk_backend_traffic(vulkan_of(&w)).ferried, 0u);
    world_close(&w);
    world_dense(&w, SETS(VULKAN, "vk_upload_queue=always"));
    cr_expect_gt(vk_backend_traffic(vulkan_of(&w)).ferried, 0u);
    cr_expect_eq(w.y0, y0);
    world_close(&w);
}

void sample_vk_host_import(void)
{
    static const float x[512 * WIDTH]; /* 128 KiB */
    float y0[2];
    for (int on = 0; on < 2; on++) {
        struct world w;
        world_open(&w, SETS(VULKAN, "vk_in_flight=1", on ? "vk_host_import=auto" : "vk_host_import=off"));
        world_load(&w, graph_dense());
        world_run(&w, 2, DIMS(512, WIDTH), x);
        cr_assert_eq(w.ran, PEN_OK, "%s", w.error.text);
        y0[on] = w.y0;
        const struct vk_traffic traffic = vk_backend_traffic(vulkan_of(&w));
        const bool imports = on && vulkan_of(&w)->device->info.import_align != 0;
        cr_expect_eq(traffic.imported_in, imports ? sizeof x : 0u);
        cr_expect_eq(traffic.imported_out > 0, imports);
        world_close(&w);
    }
    cr_expect_eq(y0[0], y0[1]);
}

void sample_vk_device(void)
{
    struct world w;
    world_open(&w, SETS(VULKAN, "vk_device=no such device"));
    cr_expect_neq(w.opened, PEN_OK);
    cr_expect_not_null(strstr(w.error.text, "no such device"), "%s", w.error.text);
    world_close(&w);
    world_open(&w, SETS(VULKAN, "vk_device=0,0"));
    cr_assert_eq(w.opened, PEN_OK, "%s", w.error.text);
    cr_expect_not_null(vk_backend_beside(vulkan_of(&w), 0), "sessions are spread over both");
    world_close(&w);
}

void sample_vk_allow_software(void)
{
    struct world w;
    world_open(&w, SETS(VULKAN, "vk_device=llvmpipe"));
    bool here = w.opened == PEN_OK;
    world_close(&w);
    world_open(&w, SETS("backend=vulkan", "vk_allow_software=off", "vk_device=llvmpipe"));
    cr_expect(!here || w.opened != PEN_OK);
    world_close(&w);
}

void sample_vk_cache_dir(void)
{
    struct world w;
    char set[FOLDER_PATH_BYTES + 16], folder[FOLDER_PATH_BYTES];
    folder_new(folder);
    snprintf(set, sizeof set, "vk_cache_dir=%s", folder);
    world_dense(&w, SETS(VULKAN, set));
    world_close(&w);
    cr_expect_gt(files_in(folder), 0u);
    folder_free(folder);
}

void sample_vk_kernels(void)
{
    struct world w;
    world_dense(&w, SETS(VULKAN, "vk_kernels=gemv"));
    cr_expect_gt(vk_backend_products(vulkan_of(&w), VK_FAMILY_GEMV), 0u);
    cr_expect_eq(vk_backend_products(vulkan_of(&w), VK_FAMILY_SIMPLE), 0u);
    world_close(&w);
}

/* Convolutions that this family runs in the model alone: the self-test has products, too. */
static unsigned convs_of(enum vk_family family, const char *const *sets)
{
    struct world w;
    world_open(&w, sets);
    cr_assert_eq(w.opened, PEN_OK, "%s", w.error.text);
    unsigned before = vk_backend_products(vulkan_of(&w), family);
    world_load(&w, graph_conv(0.01f));
    world_run(&w, 4, DIMS(1, 16, 12, 12), world_zeros);
    unsigned after = vk_backend_products(vulkan_of(&w), family);
    world_close(&w);
    return after - before;
}

static unsigned winograds_of(const char *const *sets)
{
    struct world w;
    world_open(&w, sets);
    cr_assert_eq(w.opened, PEN_OK, "%s", w.error.text);
    unsigned before = vk_backend_winograds(vulkan_of(&w));
    world_load(&w, graph_conv(0.01f));
    world_run(&w, 4, DIMS(1, 16, 12, 12), world_zeros);
    unsigned after = vk_backend_winograds(vulkan_of(&w));
    world_close(&w);
    return after - before;
}

void sample_vk_conv(void)
{
    cr_expect_gt(convs_of(VK_FAMILY_SIMPLE, SETS(VULKAN, "vk_conv=direct", "vk_kernels=tiled")), 0u);
    cr_expect_gt(convs_of(VK_FAMILY_TILED, SETS(VULKAN, "vk_conv=gemm", "vk_kernels=simple")), 0u);
    cr_expect_eq(winograds_of(SETS(VULKAN)), 0u);
    cr_expect_eq(winograds_of(SETS(VULKAN, "vk_conv=winograd")), 1u);
    cr_expect_eq(winograds_of(SETS(VULKAN, "vk_conv=winograd", "precision=f16_storage", "vk_f16_trial=off")), 0u,
                 "it is for f32");
    cr_expect_gt(convs_of(VK_FAMILY_CM, SETS(VULKAN, "vk_conv=cm", "precision=f16_math", "vk_f16_trial=off")), 0u);
}

void sample_vk_layout(void)
{
    struct world w;
    conv_world(&w, SETS(VULKAN, "vk_layout=nhwc"));
    cr_expect(world_placed(&w, "vulkan") && world_placed(&w, "100.0 % of MACs"), "%s", pen_model_placement(w.model));
    world_close(&w);
    conv_world(&w, SETS(VULKAN, "vk_layout=graph"));
    cr_expect_not(world_placed(&w, "vulkan"), "%s", pen_model_placement(w.model));
    world_close(&w);
}

void sample_vk_nodes_per_submit(void)
{
    uint64_t submits[2];
    for (int one = 0; one < 2; one++) {
        struct world w;
        world_dense(&w, SETS(VULKAN, one ? "vk_nodes_per_submit=1" : "vk_nodes_per_submit=256"));
        uint64_t before = vk_backend_submits(vulkan_of(&w));
        world_run(&w, 2, DIMS(1, WIDTH), world_zeros);
        submits[one] = vk_backend_submits(vulkan_of(&w)) - before;
        world_close(&w);
    }
    cr_expect_eq(submits[0], 1u);
    cr_expect_geq(submits[1], 3u);
}

void sample_vk_pool_trim_bytes(void)
{
    for (int pool = 0; pool < 2; pool++) {
        struct world w;
        world_dense(&w, SETS(VULKAN, pool ? "vk_pool_trim_bytes=64MiB" : "vk_pool_trim_bytes=0"));
        float before = w.y0;
        uint64_t bytes = vk_backend_bytes(vulkan_of(&w));
        pen_session_free(w.session);
        cr_expect_eq(vk_backend_bytes(vulkan_of(&w)) == bytes, pool == 1, "what the pool holds is still allocated");
        cr_assert_eq(pen_session_new(w.model, &w.session, &w.error), PEN_OK, "%s", w.error.text);
        world_run(&w, 2, DIMS(1, WIDTH), world_zeros);
        cr_expect_eq(w.y0, before);
        cr_expect_eq(vk_backend_pooled(vulkan_of(&w)) > 0, pool == 1);
        cr_expect_eq(vk_backend_messages(vulkan_of(&w)), 0u);
        world_close(&w);
    }
}

void sample_vk_f16_range(void)
{
    for (int refuse = 0; refuse < 2; refuse++) {
        struct world w;
        world_open(&w, SETS(VULKAN, "placement=strict", "vk_f16_trial=off", "precision=f16_storage",
                            refuse ? "vk_f16_range=refuse" : "vk_f16_range=keep"));
        world_load(&w, graph_conv(1e6f));
        cr_expect_eq(w.loaded == PEN_OK, refuse == 0, "%s", w.error.text);
        world_close(&w);
    }
}

/* A trial runs in f32, too: those kernels are compiled. */
void sample_vk_f16_trial(void)
{
    uint64_t compiled[2];
    for (int on = 0; on < 2; on++) {
        struct world w;
        world_open(&w, SETS(VULKAN, "precision=f16_storage", on ? "vk_f16_trial=on" : "vk_f16_trial=off"));
        world_load(&w, graph_dense());
        compiled[on] = pen_engine_compiled(w.engine);
        world_close(&w);
    }
    cr_expect_gt(compiled[1], compiled[0]);
}

void sample_vk_in_flight(void)
{
    for (unsigned runs = 1; runs < 4; runs += 2) {
        struct world w;
        world_dense(&w, SETS(VULKAN, runs == 1 ? "vk_in_flight=1" : "vk_in_flight=3"));
        cr_expect_eq(pen_session_window(w.session), runs);
        world_close(&w);
    }
}

void sample_vk_validate(void)
{
    for (int on = 0; on < 2; on++) {
        struct world w;
        world_open(&w, SETS("backend=vulkan", "vk_allow_software=on", on ? "vk_validate=on" : "vk_validate=off"));
        cr_assert_eq(w.opened, PEN_OK, "%s", w.error.text);
        vk_backend_misuse(vulkan_of(&w));
        cr_expect_eq(vk_backend_messages(vulkan_of(&w)) > 0, on == 1);
        world_close(&w);
    }
}
