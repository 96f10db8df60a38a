#include "env/rules.h"

const struct env_implied env_implied[] = {
    {"mode", "debug", "check_numerics", "fail"},
    {"mode", "debug", "profile", "op"},
};
const size_t env_implied_count = sizeof env_implied / sizeof env_implied[0];

const struct env_contradiction env_contradictions[] = {
    {"mode", "prod", "check_numerics", "!off", "prod leaves this check out; set check_numerics=off or another mode"},
    {"mode", "prod", "f16_range_check", "!off", "prod leaves this check out; set f16_range_check=off or another mode"},
    {"cpu_forward", "off", "cpu_forward_max_elems", "!", "the number counts only with cpu_forward=on; set that, too"},
    {"vk_layout", "graph", "placement", "strict",
     "convolutions that keep their layout go elsewhere, which strict forbids; set vk_layout=nhwc or "
     "placement=fallback"},
    {"vk_conv", "cm", "precision", "f32|f16_storage",
     "cooperative matrices multiply f16 or bf16; set precision=f16_mma, f16_math or bf16, or another vk_conv"},
    {"mode", "prod", "compare", "!none", "prod compares nothing; set compare=none or another mode"},
};
const size_t env_contradiction_count = sizeof env_contradictions / sizeof env_contradictions[0];
