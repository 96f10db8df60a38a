#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_8bit_storage : require
#define ELEMENT uint8_t
#include "gather.glsl"
