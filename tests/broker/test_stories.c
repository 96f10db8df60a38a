/*
 * The stories of stories/: what peers say to a broker, and each message that it sends, word by word. A line with `>` is said or done; the others are what
 * followed. PENSTOCK_ACCEPT=1 writes what follows now into the files: read the difference before it is committed.
 *
 *   > broker --busy-jobs 3                         its settings; the first line of a story, where they are not the defaults
 *   > use pool                                     the lines of stories/pool.let, which are `let`
 *   > let offer = name: "a" version: 1             $offer stands for that text from here on
 *   > client 1 SUBMIT job=17:1 deadline=50ms { model: "a" }      the envelope's fields, the meta, and raw=SIZE for each raw frame; `+` begins the next group
 *   > worker 901 RESULT job=17:1 { outputs { name: "y" } }
 *   > wait 50ms                                    who has said something says PONG now and then, so that nobody is given up
 *   > quiet worker 901                             it does so no more
 *   > lose worker 901                              its connection ends
 *   > user KEY                                     the key that clients come with
 *   > journal                                      detached jobs have a journal from here on
 *   > sync                                         what is to be written there is written
 *   > metrics                                      what /metrics says otherwise than the last time
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "detached.h"
#include "story.h"

#define FOLDER PENSTOCK_SOURCE "/tests/broker/stories/"

/* ---- a story ------------------------------------------------------------------------------------------------------------- */

static uint64_t wall(void)
{
    return story_wall_us;
}

static void let(struct story *story, const char *text)
{
    const char *equals = strstr(text, " = ");
    if (!equals || story->lets_count == STORY_LETS_MAX)
        story_bad("let NAME = TEXT", text);
    story->lets[story->lets_count][0] = strndup(text, (size_t)(equals - text));
    story->lets[story->lets_count++][1] = strdup(equals + 3);
}

static void open_broker(struct story *story, const char *arguments)
{
    char *words[64] = {"penstock-broker"}, *copy = strdup(arguments), *rest = copy;
    int count = 1;
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;)
        words[count++] = word;
    story->desk = desk_new();
    if (count > 1) {
        enum settings_outcome outcome;
        struct pen_error error = {.status = PEN_OK};
        if (options_load(count, words, &story->desk->options, &outcome, &story->settings, &error) != PEN_OK)
            story_bad(error.text, arguments);
        story->desk->options.cache.namespace = "test";
    }
    free(copy);
    desk_open(story->desk);
    story->desk->broker.uuid = 0xb0b; /* else it is drawn */
    story->own = 1;
}

/* The line with $NAME put in; free it. */
static char *filled(const struct story *story, const char *line)
{
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    while (*line) {
        size_t longest = 0, which = 0;
        for (size_t i = 0; *line == '$' && i < story->lets_count; i++) {
            size_t length = strlen(story->lets[i][0]);
            if (length > longest && strncmp(line + 1, story->lets[i][0], length) == 0) {
                longest = length;
                which = i;
            }
        }
        if (longest) {
            fputs(story->lets[which][1], to);
            line += 1 + longest;
        } else {
            fputc(*line++, to);
        }
    }
    fclose(to);
    return text;
}

static char *read_file(const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    ssize_t length = getdelim(&text, &bytes, '\0', file);
    fclose(file);
    cr_assert_gt(length, 0, "%s is empty", path);
    return text;
}

/* The file's lines are `let` without the word. */
static void use(struct story *story, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, FOLDER "%s.let", name);
    char *text = read_file(path), *rest = text;
    for (char *line; (line = strtok_r(rest, "\n", &rest)) != NULL;) {
        char *whole = filled(story, line);
        let(story, whole);
        free(whole);
    }
    free(text);
}

static void begin_journal(struct story *story)
{
    story->paper = paper_new();
    cr_assert_eq(journal_open_file(&story->paper->file, 0, 1 << 20, &story->journal), PEN_OK);
    cr_assert_eq(detached_open_journal(&story->desk->broker, story->journal, story->paper->bytes, 0), PEN_OK);
    detached_clock(story->desk->broker.detached, wall);
}

static void sync_journal(const struct story *story)
{
    journal_work(story->journal);
    desk_run(story->desk);
}

static void act(struct story *story, const char *line)
{
    if (!story->desk && strncmp(line, "let ", 4) != 0 && strncmp(line, "use ", 4) != 0)
        open_broker(story, strncmp(line, "broker ", 7) == 0 ? line + 7 : "");
    if (story->desk)
        story_wall_us = 1800000000000000u + story->desk->broker.clock();
    if (strncmp(line, "let ", 4) == 0)
        let(story, line + 4);
    else if (strncmp(line, "use ", 4) == 0)
        use(story, line + 4);
    else if (strncmp(line, "client ", 7) == 0)
        story_say(story, false, line + 7);
    else if (strncmp(line, "worker ", 7) == 0)
        story_say(story, true, line + 7);
    else if (strncmp(line, "wait ", 5) == 0)
        story_pass_time(story, story_read_time(line + 5));
    else if (strncmp(line, "quiet ", 6) == 0)
        story_set_alive(story, line[6] == 'w', (uint32_t)strtoul(strpbrk(line, "0123456789"), NULL, 10), false);
    else if (strncmp(line, "lose ", 5) == 0)
        story_lose(story, line + 5);
    else if (strncmp(line, "user ", 5) == 0)
        story->desk->user = strdup(line + 5);
    else if (strcmp(line, "json") == 0)
        story_tell_json(story);
    else if (strcmp(line, "journal") == 0)
        begin_journal(story);
    else if (strcmp(line, "sync") == 0)
        sync_journal(story);
    else if (strcmp(line, "metrics") == 0)
        story_tell_metrics(story);
    else if (strncmp(line, "broker ", 7) != 0)
        story_bad("nothing that a story knows", line);
    if (story->desk)
        story_write_news(story);
    story->long_wait = false;
}

/* What the story says now; free it. */
static char *play(const char *text)
{
    struct story story = {.desk = NULL};
    char *played = NULL;
    size_t bytes;
    story.out = open_memstream(&played, &bytes);
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        int length = (int)strcspn(line, "\n");
        if (*line != '>' && *line != '#' && length > 0)
            continue; /* what followed the last time */
        fprintf(story.out, "%.*s\n", length, line);
        if (*line == '>') {
            char *said = strndup(line + 2, (size_t)(length > 2 ? length - 2 : 0)), *whole = filled(&story, said);
            act(&story, whole);
            free(whole);
            free(said);
        }
    }
    if (story.desk) {
        free((char *)(uintptr_t)story.desk->user);
        desk_free(story.desk);
        settings_free(story.settings);
        free(story.paper);
    }
    fclose(story.out);
    for (size_t i = 0; i < story.lets_count; i++) {
        free(story.lets[i][0]);
        free(story.lets[i][1]);
    }
    free(story.metrics);
    return played;
}

/* ---- the test -------------------------------------------------------------------------------------------------------------- */

static int is_story(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 4 && strcmp(entry->d_name + length - 4, ".txt") == 0;
}

/* Where two texts part: the number of the line, and the lines. */
static void tell_difference(const char *name, const char *want, const char *got)
{
    size_t line = 1;
    while (*want && *got) {
        size_t a = strcspn(want, "\n"), b = strcspn(got, "\n");
        if (a != b || strncmp(want, got, a) != 0)
            break;
        line++;
        want += a + (want[a] == '\n');
        got += b + (got[b] == '\n');
    }
    cr_expect_fail("stories/%s:%zu is told otherwise (PENSTOCK_ACCEPT=1 takes it)\n- %.*s\n+ %.*s", name, line,
                   (int)strcspn(want, "\n"), want, (int)strcspn(got, "\n"), got);
}

static void check_story(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, FOLDER "%s", name);
    char *want = read_file(path), *got = play(want);
    if (getenv("PENSTOCK_ACCEPT")) {
        FILE *file = fopen(path, "w");
        cr_assert(file && fputs(got, file) >= 0 && fclose(file) == 0);
    } else if (strcmp(want, got) != 0) {
        tell_difference(name, want, got);
    }
    free(want);
    free(got);
}

Test(stories, each_is_told_word_by_word)
{
    struct dirent **entries;
    int count = scandir(FOLDER, &entries, is_story, alphasort);
    cr_assert_gt(count, 0, "%s has no stories", FOLDER);
    for (int i = 0; i < count; i++) {
        check_story(entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
}
