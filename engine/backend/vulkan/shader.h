/*
 * shader.h - the compiled shaders, by id. ops/shaders.def lists them; CMake compiles ops/NAME.comp to SPIR-V and generates the table.
 *
 * Threads: any (constant tables).
 */
#ifndef VULKAN_SHADER_H
#define VULKAN_SHADER_H

#include <stddef.h>
#include <stdint.h>

enum shader {
#define SHADER(name) SHADER_##name,
#include "backend/vulkan/ops/shaders.def"
#undef SHADER
    SHADER_COUNT
};

struct shader_code {
    const char *name;
    const uint32_t *words[2]; /* floats stored as f32, as f16 */
    size_t bytes[2];
};
extern const struct shader_code vk_shader_table[SHADER_COUNT]; /* generated */

#endif
