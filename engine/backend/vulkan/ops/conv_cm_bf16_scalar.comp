#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"
#define MATRICES
#include "product.glsl"
#define BF16
#define SCALAR
#include "conv_cm.glsl"
