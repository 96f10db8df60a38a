/*
 * shader.h - the compiled shaders, by id. ops/shaders.def lists them; CMake compiles ops/NAME.comp to SPIR-V and generates the table.
 *
 * Threads: any (constant tables).
 */
#ifndef VULKAN_SHADER_H
#define VULKAN_SHADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum shader {
#define SHADER(name)              SHADER_##name,
#define SHADER_MATH(name)         SHADER_##name,
#define SHADER_HALF(name)         SHADER_##name,
#define SHADER_MATRICES(name)     SHADER_##name,
#define SHADER_INT(name)          SHADER_##name,
#define SHADER_INT_MATRICES(name) SHADER_##name,
#define SHADER_KEPT(name)         SHADER_##name,
#define SHADER_INT_KEPT(name)     SHADER_##name,
#include "backend/vulkan/ops/shaders.def"
#undef SHADER
#undef SHADER_MATH
#undef SHADER_HALF
#undef SHADER_MATRICES
#undef SHADER_KEPT
#undef SHADER_INT_KEPT
#undef SHADER_INT
#undef SHADER_INT_MATRICES
    SHADER_COUNT
};

enum shader_form { SHADER_F32, SHADER_F16, SHADER_F16_MATH, SHADER_FORMS };

struct shader_code {
    const char *name;
    const uint32_t
        *words[SHADER_FORMS]; /* NULL: not in this form. Without F16_MATH that of F16 serves, without that one F32. */
    size_t bytes[SHADER_FORMS];
    bool matrices; /* it has cooperative matrices: its subgroups must be full, and of the size that it is told */
};
extern const struct shader_code vk_shader_table[SHADER_COUNT]; /* generated */

#endif
