#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/verify.h"

/* Cases are gathered in memory, because the sums stand in front of them. */
struct junit {
    char *text;
    size_t bytes;
    FILE *cases;
    uint64_t counts[CASE_OUTCOMES];
    uint64_t took_us;
};

enum pen_status junit_new(const char *path, struct junit **ret_junit, struct pen_error *reterr)
{
    struct junit *j = calloc(1, sizeof *j);
    FILE *probe = fopen(path, "w"); /* a path that cannot be written is said before the cases run */
    if (j == NULL || probe == NULL) {
        int why = errno;
        free(j);
        return pen_error_set(reterr, PEN_ERR_IO, "cannot write %s: %s", path, strerror(why));
    }
    fclose(probe);
    j->cases = open_memstream(&j->text, &j->bytes);
    if (j->cases == NULL) {
        free(j);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for %s", path);
    }
    *ret_junit = j;
    return PEN_OK;
}

/* XML 1.0 attribute text; bytes that are no character of it become '?'. */
static void escaped(FILE *f, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        switch (c) {
        case '&':
            fputs("&amp;", f);
            break;
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '"':
            fputs("&quot;", f);
            break;
        default:
            fputc(c < ' ' || c > '~' ? '?' : c, f);
        }
    }
}

static void child(FILE *f, const char *element, const char *reason)
{
    fprintf(f, "><%s message=\"", element);
    escaped(f, reason);
    fputs("\"/></testcase>\n", f);
}

void junit_case(struct junit *j, const char *name, const char *backend, const struct verify_result *r)
{
    j->counts[r->outcome]++;
    j->took_us += r->took_us;
    fputs("  <testcase classname=\"", j->cases);
    escaped(j->cases, backend);
    fputs("\" name=\"", j->cases);
    escaped(j->cases, name);
    fprintf(j->cases, "\" time=\"%.6f\"", (double)r->took_us / 1e6);
    if (r->outcome == CASE_PASS) {
        fputs("/>\n", j->cases);
    } else {
        child(j->cases, r->outcome == CASE_FAIL ? "failure" : "skipped", r->reason);
    }
}

enum pen_status junit_finish(struct junit *j, const char *path, struct pen_error *reterr)
{
    bool done = fclose(j->cases) == 0;
    FILE *f = done ? fopen(path, "w") : NULL;
    if (f != NULL) {
        unsigned long long fails = j->counts[CASE_FAIL], skips = j->counts[CASE_SKIP];
        fprintf(f,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"penstock-engine verify\" tests=\"%llu\" "
                "failures=\"%llu\" errors=\"0\" skipped=\"%llu\" time=\"%.6f\">\n",
                (unsigned long long)j->counts[CASE_PASS] + fails + skips, fails, skips, (double)j->took_us / 1e6);
        done = fwrite(j->text, 1, j->bytes, f) == j->bytes && fputs("</testsuite>\n", f) >= 0;
        done = fclose(f) == 0 && done;
    }
    int why = errno;
    bool written = f != NULL && done;
    free(j->text);
    free(j);
    return written ? PEN_OK : pen_error_set(reterr, PEN_ERR_IO, "cannot write %s: %s", path, strerror(why));
}
