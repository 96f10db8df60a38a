#include "config_text.h"

#include <criterion/criterion.h>
#include <string.h>

enum pen_status config_text_parse(const char *text, struct config *config, struct pen_error *error)
{
    config_init(config);
    *error = (struct pen_error){0};
    return config_parse(text, strlen(text), config, error);
}

void config_text_refuses(const char *text, enum pen_status status, const char *part)
{
    struct config config;
    struct pen_error error;
    enum pen_status got = config_text_parse(text, &config, &error);
    cr_expect(got == status, "%s: status %s, wanted %s (%s)", text, pen_status_name(got), pen_status_name(status),
              error.text);
    cr_expect(strstr(error.text, part) != NULL, "%s: '%s' does not contain '%s'", text, error.text, part);
    config_fini(&config);
}
