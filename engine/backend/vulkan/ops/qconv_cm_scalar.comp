#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "qproduct.glsl"
#define SCALAR
#include "qconv_cm.glsl"
