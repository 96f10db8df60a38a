#include "env/rules.h"

const struct env_implied env_implied[] = {
    {"mode", "debug", "check_numerics", "fail"},
    {"mode", "debug", "profile", "op"},
};
const size_t env_implied_count = sizeof env_implied / sizeof env_implied[0];

const struct env_contradiction env_contradictions[] = {
    {"mode", "prod", "check_numerics", "!off", "prod leaves this check out; set check_numerics=off or another mode"},
    {"mode", "prod", "f16_range_check", "!off", "prod leaves this check out; set f16_range_check=off or another mode"},
    {"mode", "prod", "compare", "!none", "prod compares nothing; set compare=none or another mode"},
};
const size_t env_contradiction_count = sizeof env_contradictions / sizeof env_contradictions[0];
