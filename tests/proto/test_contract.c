/* contract.h: what a job demands of its numbers, as a text. */
#include "contract.h"

#include <criterion/criterion.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct contract parsed(const char *text)
{
    struct contract contract = {.exact = false};
    struct pen_error error = {.status = PEN_OK};
    cr_assert_eq(contract_parse(text, &contract, &error), PEN_OK, "%s", error.text);
    return contract;
}

Test(contract, a_class_an_exact_one_and_a_bound)
{
    cr_expect_eq(parsed("f32").precision, PEN_PRECISION_F32);
    cr_expect(parsed("f32-exact").exact);
    cr_expect_eq(parsed("max_relative_error=0.25").error_max, 0.25);
    cr_expect_eq(parsed("max_relative_error=1e-2").error_max, 0.01);
}

Test(contract, what_is_none_is_refused)
{
    static const char *const wrong[] = {"",
                                        "f33",
                                        "max_relative_error=",
                                        "max_relative_error=0",
                                        "max_relative_error=-1",
                                        "max_relative_error=nan",
                                        "max_relative_error=inf",
                                        "max_relative_error=0,5",
                                        "max_relative_error=1 "};
    struct contract contract;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect_eq(contract_parse(wrong[i], &contract, NULL), PEN_ERR_INVALID, "%s", wrong[i]);
}

/* As in a program with a German desktop: GTK and Qt call setlocale(). */
Test(contract, a_bound_has_a_point_in_every_locale)
{
    char folder[] = "/tmp/penstock-locale-XXXXXX", command[128];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>/dev/null", folder);
    bool made = system(command) == 0;
    setenv("LOCPATH", folder, 1);
    made = made && setlocale(LC_ALL, "de_DE.UTF-8") && *localeconv()->decimal_point == ',';
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_assert_eq(system(command), 0);
    if (!made)
        cr_skip_test("localedef makes no German locale here (package locales)");
    cr_expect_eq(parsed("max_relative_error=0.25").error_max, 0.25);
    cr_expect_eq(contract_parse("max_relative_error=0,25", &(struct contract){.exact = false}, NULL), PEN_ERR_INVALID);
}
