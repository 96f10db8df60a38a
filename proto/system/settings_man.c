/* settings_man.c - a manual page (section 1) from a program's table of settings. */
#include "settings_internal.h"

#include <string.h>

#include "version.h"

/* roff: a backslash is written as \e, a minus of an option as \-, a leading dot or quote must not begin a line. */
static void put(FILE *out, const char *text, bool option)
{
    bool start = true;
    for (; *text; text++) {
        if (start && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-' && option)
            fputs("\\-", out);
        else
            fputc(*text, out);
        start = *text == '\n';
    }
}

/* "penstock submit" is the page penstock-submit. */
static void put_name(FILE *out, const char *name)
{
    for (; *name; name++)
        fputs(*name == ' ' || *name == '-' ? "\\-" : (const char[]){*name, '\0'}, out);
}

/* The first sentence, without its full stop: what whatis(1) shows. */
static void put_summary(FILE *out, const char *about)
{
    const char *end = about;
    while (*end && !(end[0] == '.' && (end[1] == ' ' || end[1] == '\n' || end[1] == '\0')))
        end++;
    for (; about < end; about++)
        fputc(*about == '\n' ? ' ' : *about, out);
}

static void put_setting(FILE *out, const struct settings_program *program, const struct setting *setting)
{
    char label[160], env[SETTINGS_ENV_BYTES], range[96], value[160];
    fputs(".TP\n.B ", out);
    put(out, setting_label(setting, label, sizeof label), true);
    fputc('\n', out);
    put(out, setting->help ? setting->help : "", false);
    fputs(".\nDefault: ", out);
    put(out, setting_default(setting, value, sizeof value), false);
    if (*setting_range_words(setting, range, sizeof range)) {
        fputs("; ", out);
        put(out, range, false);
    }
    if (*setting_env_name(program, setting->name, env))
        fprintf(out, ". Environment: \\fB%s\\fP", env);
    fputs(".\n", out);
}

void settings_man(const struct settings_program *program, FILE *out)
{
    char env[SETTINGS_ENV_BYTES];
    fputs(".\\\" Written by the program itself: --settings-man.\n.TH \"", out);
    put_name(out, program->name);
    fprintf(out, "\" 1 \"\" \"penstock %s\" \"Penstock\"\n.SH NAME\n", PENSTOCK_VERSION);
    put_name(out, program->name);
    fputs(" \\- ", out);
    put_summary(out, program->about ? program->about : "");
    fputs("\n.SH SYNOPSIS\n.B ", out);
    put(out, program->usage, true);
    fputs("\n.SH DESCRIPTION\n", out);
    put(out, program->about ? program->about : "", false);
    fputs("\n.SH OPTIONS\nAn option on the command line goes before its environment variable, that before the config "
          "file, that before the\ndefault.\n",
          out);
    for (const struct setting *setting = program->table; setting->name; setting++)
        put_setting(out, program, setting);
    fprintf(out,
            ".TP\n.B \\-\\-config FILE\nRead \\(dqname = value\\(dq lines from FILE; # starts a comment. Environment: "
            "\\fB%s\\fP.\n.TP\n.B \\-\\-help\nPrint a summary of all this and exit.\n",
            setting_env_name(program, "config", env));
    if (settings_version_builtin(program->table))
        fputs(".TP\n.B \\-\\-version\nPrint version and build, and exit.\n", out);
    if (program->after) {
        fputs(".SH NOTES\n.nf\n", out);
        put(out, program->after, false);
        fputs("\n.fi\n", out);
    }
    fputs(".SH SEE ALSO\n.BR penstock (1),\n.BR penstock\\-broker (1),\n.BR penstock\\-worker (1)\n", out);
}
