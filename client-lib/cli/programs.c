#include "programs.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int program_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = -1;
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &size) == 0) {
        port = ntohs(address.sin_port);
    }
    if (fd >= 0) {
        close(fd);
    }
    return port;
}

bool program_listens(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool open = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return open;
}

static void path_make(const char *bin, const char *name, char path[PROGRAM_PATH_BYTES])
{
    char self[PROGRAM_PATH_BYTES];
    ssize_t used = readlink("/proc/self/exe", self, sizeof self - 1);
    self[used > 0 ? used : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash) {
        *slash = '\0';
    }
    snprintf(path, PROGRAM_PATH_BYTES, "%.400s/%s", *bin ? bin : self, name);
    if (access(path, X_OK) != 0) {
        snprintf(path, PROGRAM_PATH_BYTES, "%s", name); /* then PATH has it */
    }
}

pid_t program_start(const char *bin, const char *name, const char *log, const char *const args[])
{
    char path[PROGRAM_PATH_BYTES];
    path_make(bin, name, path);
    pid_t parent = getpid(), pid = fork();
    if (pid != 0) {
        return pid;
    }
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0); /* Ctrl-C is for us alone */
    if (getppid() == parent && fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0) {
        execvp(path, (char *const *)(uintptr_t)args);
    }
    _exit(127);
}

bool program_ended(pid_t *pid)
{
    if (*pid > 0 && waitpid(*pid, NULL, WNOHANG) != *pid) {
        return false;
    }
    *pid = 0;
    return true;
}

void program_stop(pid_t *pid, unsigned patience_ms)
{
    if (*pid <= 0) {
        return;
    }
    kill(*pid, SIGCONT); /* one that was stopped would not hear the rest */
    kill(*pid, SIGTERM);
    for (unsigned waited = 0; waited < patience_ms; waited += 10) {
        if (program_ended(pid)) {
            return;
        }
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    kill(*pid, SIGKILL);
    waitpid(*pid, NULL, 0);
    *pid = 0;
}
