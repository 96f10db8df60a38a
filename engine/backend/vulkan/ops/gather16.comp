#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#define ELEMENT uint16_t
#include "gather.glsl"
