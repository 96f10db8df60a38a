/*
 * common.glsl - what every shader includes: the storage type of floats, the index of an invocation, activations. Sums and functions are always f32.
 */
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_control_flow_attributes : require

/* To nearest, ties to even, in f32 first: Vulkan leaves the rounding of a conversion open, and one that cuts adds up over layers. */
vec4 rounded(vec4 x)
{
    uvec4 u = floatBitsToUint(x);
    uvec4 near = (u + 0xFFFu + ((u >> 13) & 1u)) & 0xFFFFE000u;
    return mix(uintBitsToFloat(near), x, greaterThanEqual(u & 0x7FFFFFFFu, uvec4(0x7F800000u)));
}

#ifdef STORAGE_F16
#define REAL  float16_t
#define REAL4 f16vec4

#define TO_REAL(value)  float16_t(rounded(vec4(value)).r)
#define TO_REAL4(value) f16vec4(rounded(value))
#else
#define REAL        float
#define REAL4       vec4
#define TO_REAL(value)  (value)
#define TO_REAL4(value) (value)
#endif

/* A number times a four, and a number times a number, in the precision of products. What they are added to is f32 always. */
#ifdef MATH_F16
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define TIMES(number, four) vec4(float16_t(number) * f16vec4(four))
#define TIMES_FOURS(a, b)   vec4(f16vec4(a) * f16vec4(b))
#define TIMES_ONE(a, b)     float(float16_t(a) * float16_t(b))
#else
#define TIMES(number, four) ((number) * (four))
#define TIMES_FOURS(a, b)   ((a) * (b))
#define TIMES_ONE(a, b)     ((a) * (b))
#endif

#define INFINITY uintBitsToFloat(0x7F800000u)
#define NOT_A_NUMBER uintBitsToFloat(0x7FC00000u)

#define LOCAL 64u /* invocations of a workgroup of every kernel that uses linear_id() */

/* vk_items() starts a grid of x and y, because one dimension has 65535 workgroups only. */
uint linear_id()
{
    return (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * LOCAL + gl_LocalInvocationID.x;
}

/* By its bits: compilers may assume that there are no NaN. */
bool is_nan(float x)
{
    return (floatBitsToUint(x) & 0x7FFFFFFFu) > 0x7F800000u;
}
