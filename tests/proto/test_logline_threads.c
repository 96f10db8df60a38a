/* Four threads log into a pipe while the level changes: whole lines only, and nothing for ThreadSanitizer to say. A plain main() for its sake. */
#include "logline.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, LINES = 200 };

static void *talk(void *argument)
{
    const char *name = argument;
    for (int i = 0; i < LINES; i++) {
        log_event(LOG_INFO, name, "i=%d text=%s", i, "some words");
        log_level_set(i % 2 ? LOG_DEBUG : LOG_INFO);
    }
    return NULL;
}

/* Reads the pipe to its end; returns the number of lines, or -1 for a broken one. */
static int lines_count(int fd)
{
    char line[8192];
    int count = 0;
    FILE *in = fdopen(fd, "r");
    while (in && fgets(line, sizeof line, in)) {
        if (strncmp(line, "ts=", 3) != 0 || !strstr(line, " program=threads level=info evt=evt_"))
            return -1;
        count++;
    }
    if (in)
        fclose(in);
    return count;
}

int main(void)
{
    static char names[THREADS][8] = {"evt_a", "evt_b", "evt_c", "evt_d"};
    pthread_t threads[THREADS];
    int ends[2], saved = dup(STDERR_FILENO);
    if (pipe(ends) != 0 || saved < 0)
        return 1;
    dup2(ends[1], STDERR_FILENO);
    log_setup("threads", LOG_INFO, false);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, talk, names[i]) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    dup2(saved, STDERR_FILENO);
    close(ends[1]);
    int count = lines_count(ends[0]);
    printf("%d lines\n", count);
    return count >= THREADS * 20 && count < THREADS * LINES ? 0
                                                            : 1; /* at least 20 of each event, and the rest counted */
}
