/* file_fault.c - finds the file that the address belongs to, and logs the line. */
#include "file_fault.h"

#include "exit_codes.h"
#include "logline.h"

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 1024 /* as much as a line of the log takes */

/* Lines of /proc/self/maps: `from-to rights offset device inode   path`, hexadecimal. A line without a path, or with
   one in brackets, is no file. */
static bool file_at(uintptr_t address, char ret_path[PATH_BYTES])
{
    char line[PATH_BYTES + 128];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps)) {
        uintptr_t from = 0, to = 0;
        const char *path = strchr(line, '/');
        found = path && sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &to) == 2 && from <= address && address < to;
        if (found)
            snprintf(ret_path, PATH_BYTES, "%.*s", (int)strcspn(path, "\n"), path);
    }
    if (maps)
        fclose(maps);
    return found;
}

/*
 * May call any function, unlike other signal handlers: the signal comes from the instruction that read the file, which
 * is in no function of the C library that holds a lock. SIGBUS for other reasons is not handled.
 */
static void on_fault(int number, siginfo_t *info, void *context)
{
    char path[PATH_BYTES];
    (void)context;
    signal(number, SIG_DFL); /* a second one ends the process as ever */
    if (info->si_code != BUS_ADRERR || !file_at((uintptr_t)info->si_addr, path)) {
        raise(number);
        return;
    }
    log_event(LOG_ERROR, "file_fault", "file=%s error=%s", path,
              "it was cut short or cannot be read any more while it serves, so this worker ends: "
              "put new content in place by rename, never into a file that serves");
    _exit(WORKER_EXIT_FAILED);
}

void file_fault_install(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
