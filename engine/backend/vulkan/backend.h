/*
 * vulkan/backend.h - what tests and tools ask of an open vulkan backend besides the contract.
 *
 * Threads: any.
 */
#ifndef VULKAN_BACKEND_H
#define VULKAN_BACKEND_H

#include "backend/backend.h"

struct vk_functions;
struct vk_kernels;

uint64_t vk_backend_pipelines(const struct backend *b);               /* made since the device was opened */
uint64_t vk_backend_bytes(const struct backend *b);                   /* of device memory allocated now */
uint64_t vk_backend_losses(const struct backend *b);                  /* devices lost and opened again */
unsigned vk_backend_in_flight_most(const struct backend *b);          /* runs on its current device at once, so far */
unsigned vk_backend_messages(const struct backend *b);                /* of the validation layer */
struct backend *vk_backend_beside(struct backend *b, uint32_t index); /* on a further device; NULL beyond the last */
uint64_t vk_backend_submits(const struct backend *b);                 /* to the current device's queue */
/* What runs on the current device cost so far beside their kernels. */
struct vk_traffic {
    uint64_t submits;
    uint64_t ferried;                   /* of them inputs that a queue of its own brought (ferry.h) */
    uint64_t staged_in, staged_out;     /* bytes that the host copied into staging memory, and out of it */
    uint64_t imported_in, imported_out; /* that the device took from the host's memory, and left there (bound.h) */
    uint64_t moves,
        direct; /* inputs and outputs that the device moved out of staging memory or into it; that kernels worked on in place */
};
struct vk_traffic vk_backend_traffic(const struct backend *b);
uint64_t vk_backend_pooled(const struct backend *b); /* buffers of the current device that found a second user */
/* Products of the execs made so far that a family runs (enum vk_family). */
unsigned vk_backend_products(const struct backend *b, unsigned family);
unsigned vk_backend_winograds(const struct backend *b); /* convolutions of them that run by Winograd's method */
unsigned vk_backend_attention_matrices(const struct backend *b); /* attentions of them by cooperative matrices */
unsigned vk_backend_attention_pieces(const struct backend *b);   /* those whose keys are cut in pieces */
/* Products of bytes of the execs made so far, by plain kernels or by those that multiply four at once. */
unsigned vk_backend_bytes_products(const struct backend *b, bool dot);
unsigned vk_backend_bytes_matrices(const struct backend *b); /* those by family `cm`, which are in neither number */
/* For execs made from now on: leaves out the kernels that multiply four bytes at once, or not. Gives whether they are used then. */
bool vk_backend_bytes_dot(struct backend *b, bool dot);
/* The fault seam: a test replaces members to make the current device fail. Not while anything runs. */
struct vk_functions *vk_backend_functions(struct backend *b);

/* Calls Vulkan wrongly, once: how a test sees that the validation layer is heard. Nothing without validation. */
void vk_backend_misuse(struct backend *b);

#endif
