#version 450
#extension GL_GOOGLE_include_directive : require
#define CHAIN
#define FOURS
#include "elementwise.glsl"
