#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "qproduct.glsl"
#include "qconv_gemv.glsl"
