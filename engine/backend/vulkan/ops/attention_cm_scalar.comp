#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common.glsl"
#include "math.glsl"
#include "attention.glsl"
#define SCALAR
#include "attention_cm.glsl"
