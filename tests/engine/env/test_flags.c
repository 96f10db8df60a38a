/* test_flags.c - each flag does something. A flag of flags.def without a sample fails. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

#include "samples.h"

static const struct sample {
    const char *flag;
    void (*run)(void);
} samples[] = {
#define SAMPLE(flag) {#flag, sample_##flag},
#include "samples.def"
#undef SAMPLE
};
#define SAMPLES (sizeof samples / sizeof samples[0])

Test(flags, each_has_a_sample)
{
    size_t count = 0;
    const struct pen_flag_row *rows = pen_flag_rows(&count);
    cr_expect_eq(count, SAMPLES);
    for (size_t i = 0; i < count; i++) {
        size_t s = 0;
        while (s < SAMPLES && strcmp(samples[s].flag, rows[i].name) != 0) {
            s++;
        }
        cr_expect_lt(s, SAMPLES, "the flag %s has no sample in samples.def that shows what it does", rows[i].name);
    }
}

ParameterizedTestParameters(flags, does_something)
{
    static size_t index[SAMPLES];
    for (size_t i = 0; i < SAMPLES; i++) {
        index[i] = i;
    }
    return cr_make_param_array(size_t, index, SAMPLES);
}

ParameterizedTest(const size_t *index, flags, does_something)
{
    samples[*index].run();
}
