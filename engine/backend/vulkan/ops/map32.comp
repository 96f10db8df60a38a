#version 450
#extension GL_GOOGLE_include_directive : require
#define ELEMENT uint
#include "map.glsl"
