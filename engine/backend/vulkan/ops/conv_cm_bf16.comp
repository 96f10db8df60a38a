#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_EXT_bfloat16 : require
#extension GL_KHR_shader_subgroup_basic : require
#include "common.glsl"
#include "math.glsl"
#define MATRICES
#include "product.glsl"
#define BF16
#include "conv_cm.glsl"
