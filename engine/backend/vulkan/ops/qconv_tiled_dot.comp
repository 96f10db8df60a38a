#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_spirv_intrinsics : require
#define DOT
#include "common.glsl"
#include "qproduct.glsl"
#include "qconv_tiled.glsl"
