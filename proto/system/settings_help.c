/* settings_help.c - --help and the table of settings for deploy/SETTINGS.md, both from the program's table. */
#include "settings_internal.h"

#include <inttypes.h>
#include <string.h>

#define HELP_COLUMNS  80u
#define LABEL_COLUMNS 30u

static const char *value_word(const struct setting *setting)
{
    switch (setting->type) {
    case SETTING_INT:
        return " N";
    case SETTING_BYTES:
        return " SIZE";
    case SETTING_DURATION:
        return " TIME";
    case SETTING_NUMBER:
        return " X";
    case SETTING_TEXT:
        return " TEXT";
    case SETTING_LIST:
        return " TEXT ...";
    case SETTING_CHOICE:
    case SETTING_FLAG:
        break;
    }
    return "";
}

const char *setting_label(const struct setting *setting, char *text, size_t bytes)
{
    if (setting->type == SETTING_FLAG)
        snprintf(text, bytes, strncmp(setting->name, "no-", 3) == 0 ? "--%s" : "--[no-]%s", setting->name);
    else if (setting->type == SETTING_CHOICE)
        snprintf(text, bytes, "--%s %s", setting->name, setting->choices);
    else
        snprintf(text, bytes, "--%s%s", setting->name, value_word(setting));
    return text;
}

const char *setting_range_words(const struct setting *setting, char *text, size_t bytes)
{
    char low[40], high[40];
    int64_t min, max;
    bool whole = setting->type == SETTING_INT || setting->type == SETTING_BYTES || setting->type == SETTING_DURATION;
    text[0] = '\0';
    if ((!whole && setting->type != SETTING_NUMBER) || (setting->min == 0 && setting->max == 0))
        return text;
    setting_range(setting, &min, &max);
    setting_value_text(setting, min, low, sizeof low);
    setting_value_text(setting, max, high, sizeof high);
    if (max == INT64_MAX)
        snprintf(text, bytes, "at least %s", low);
    else
        snprintf(text, bytes, "%s to %s", low, high);
    return text;
}

/* The default with its unit, unless the text has one already. */
const char *setting_default(const struct setting *setting, char *text, size_t bytes)
{
    const char *value = setting->def && *setting->def ? setting->def : NULL;
    bool bare = value && value[strspn(value, "0123456789.")] == '\0';
    if (setting->type == SETTING_FLAG)
        snprintf(text, bytes, "%s", value ? value : "false");
    else if (setting->unit && setting->type != SETTING_TEXT && setting->type != SETTING_LIST && (bare || !value))
        snprintf(text, bytes, "%s %s", value ? value : "0", setting->unit);
    else
        snprintf(text, bytes, "%s",
                 value ? value
                 : setting->type == SETTING_TEXT || setting->type == SETTING_LIST || setting->type == SETTING_CHOICE
                     ? "none"
                     : "0");
    return text;
}

/* Prints words from column `at` on, continuing on new lines that start at column `indent`. */
static void wrap(FILE *out, const char *text, size_t at, size_t indent)
{
    bool first = true;
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (!first && at + 1 + word > HELP_COLUMNS) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", (int)word, text);
        at += word;
        text += word;
        first = false;
        if (*text == '\n') { /* a line break in the text is kept */
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
            first = true;
            text++;
        }
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void print_label(FILE *out, const char *label)
{
    size_t bytes = strlen(label) + 2;
    fprintf(out, "  %s", label);
    if (bytes + 2 > LABEL_COLUMNS)
        fprintf(out, "\n%*s", (int)LABEL_COLUMNS, "");
    else
        fprintf(out, "%*s", (int)(LABEL_COLUMNS - bytes), "");
}

static void print_setting(FILE *out, const struct settings_program *program, const struct setting *setting)
{
    char label[160], env[SETTINGS_ENV_BYTES], range[96], value[160], facts[512];
    print_label(out, setting_label(setting, label, sizeof label));
    wrap(out, setting->help ? setting->help : "", LABEL_COLUMNS, LABEL_COLUMNS);
    setting_range_words(setting, range, sizeof range);
    setting_env_name(program, setting->name, env);
    snprintf(facts, sizeof facts, "[default: %s%s%s%s%s]", setting_default(setting, value, sizeof value),
             *range ? "; " : "", range, *env ? "; " : "", env);
    fprintf(out, "%*s", (int)LABEL_COLUMNS, "");
    wrap(out, facts, LABEL_COLUMNS, LABEL_COLUMNS);
}

static void print_builtin(FILE *out, const char *label, const char *help)
{
    print_label(out, label);
    wrap(out, help, LABEL_COLUMNS, LABEL_COLUMNS);
}

void settings_help(const struct settings_program *program, FILE *out)
{
    char builtin[160], env[SETTINGS_ENV_BYTES];
    fprintf(out, "Usage: %s\n\n", program->usage);
    if (program->about) {
        wrap(out, program->about, 0, 0);
        fputc('\n', out);
    }
    fputs("Options:\n", out);
    for (const struct setting *setting = program->table; setting->name; setting++)
        print_setting(out, program, setting);
    snprintf(builtin, sizeof builtin, "Read 'name = value' lines from FILE (# starts a comment). [%s]",
             setting_env_name(program, "config", env));
    print_builtin(out, "--config FILE", builtin);
    print_builtin(out, "--help", "Print this and exit.");
    if (settings_version_builtin(program->table))
        print_builtin(out, "--version", "Print version and build, and exit.");
    fputs("\nAn option on the command line goes before its environment variable, that before\nthe config file, that "
          "before the default.\n",
          out);
    if (program->after)
        fprintf(out, "\n%s%s", program->after,
                program->after[0] && program->after[strlen(program->after) - 1] == '\n' ? "" : "\n");
}

/* A cell of a markdown table: '|' would end it. */
static void cell(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', out);
        fputc(*text == '\n' ? ' ' : *text, out);
    }
}

void settings_table_markdown(const struct settings_program *program, FILE *out)
{
    fputs("| option | default | range | environment | meaning |\n|---|---|---|---|---|\n", out);
    for (const struct setting *setting = program->table; setting->name; setting++) {
        char label[160], env[SETTINGS_ENV_BYTES], range[96], value[160];
        fputs("| `", out);
        cell(out, setting_label(setting, label, sizeof label));
        fputs("` | ", out);
        cell(out, setting_default(setting, value, sizeof value));
        setting_env_name(program, setting->name, env);
        fprintf(out, " | %s | %s%s%s | ", setting_range_words(setting, range, sizeof range), *env ? "`" : "", env,
                *env ? "`" : "");
        cell(out, setting->help ? setting->help : "");
        fputs(" |\n", out);
    }
}
