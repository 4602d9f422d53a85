/* What stands in for `python` and `zenit` in tests: a fork does what they would do, where the server of forks takes it.

   It hands the server its three streams; the server reads the rest from /proc. It passes signals on to the fork, and ends as
   the fork ends. Whatever the server does not take, the real program does, in this very process. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile pid_t fork_pid;
static const int PASSED_ON[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
enum { SIGNALS = sizeof PASSED_ON / sizeof *PASSED_ON };

static void pass_on(int number) { kill(fork_pid, number); }

/* One int of the server's; 0 where it has ended. */
static int told(int server, int *value) {
    ssize_t got;
    while ((got = read(server, value, sizeof *value)) < 0 && errno == EINTR) {}
    return got == sizeof *value;
}

static int ask(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char kind = 'c', room[CMSG_SPACE(3 * sizeof(int))];
    int streams[] = {0, 1, 2}, server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct iovec data = {&kind, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (server < 0 || strlen(path) >= sizeof address.sun_path) return -1;
    strcpy(address.sun_path, path);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof streams);
    memcpy(CMSG_DATA(header), streams, sizeof streams);
    if (connect(server, (struct sockaddr *)&address, sizeof address) || sendmsg(server, &message, MSG_NOSIGNAL) != 1) return -1;
    return server;
}

static int end_as(int status) {
    if (WIFSIGNALED(status)) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    return WEXITSTATUS(status);
}

int main(int count, char **words) {
    char own[4096], real[4200];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    const char *path = getenv("TEST_FORKS");
    sigset_t all, before;
    int server, pid, status;
    if (length < 0) return 127;
    own[length] = 0;
    char *name = strrchr(own, '/');
    *name++ = 0;
    *strrchr(own, '/') = 0; /* .venv/forks/NAME: the real one is .venv/bin/NAME */
    snprintf(real, sizeof real, "%s/bin/%s", own, name);
    int is_ours = !strcmp(name, "zenit");
    for (int at = 1; !is_ours && at + 1 < count && words[at][0] == '-'; at++) {
        if (strcmp(words[at], "-P") == 0) continue;
        is_ours = !strcmp(words[at], "-m") && !strncmp(words[at + 1], "zenitmq", 7);
        break;
    }
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    if (is_ours && path && (server = ask(path)) >= 0) {
        if (told(server, &pid) && pid > 0) {
            fork_pid = pid;
            for (int each = 0; each < SIGNALS; each++) {
                struct sigaction passing = {.sa_handler = pass_on, .sa_flags = SA_RESTART}, had;
                sigaction(PASSED_ON[each], NULL, &had);
                if (had.sa_handler != SIG_IGN) sigaction(PASSED_ON[each], &passing, NULL);
            }
            for (int stream = 0; stream < 3; stream++) close(stream); /* whoever reads or writes there has to do with the fork */
            sigprocmask(SIG_SETMASK, &before, NULL);
            return told(server, &status) ? end_as(status) : 255;
        }
        close(server);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    words[0] = real;
    execv(real, words);
    perror(real);
    return 127;
}
