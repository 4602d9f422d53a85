/* A disk that hangs, or has no room: at will, for the files of one broker.

   cc -O2 -shared -fPIC -pthread -o disk_faults.so disk_faults.c -ldl
   LD_PRELOAD=disk_faults.so ZENIT_FAULT_PREFIX=/cluster/broker- ZENIT_FAULT_DIR=/faults zenit broker ...

   A file is broker NAME's where its path begins with ZENIT_FAULT_PREFIX and goes on as the last part of NAME says:
   /cluster/broker-a-1/commitlog/... is of "a-1". While ZENIT_FAULT_DIR/NAME.hang exists, fdatasync of such a file does not
   return; while NAME.full exists, posix_fallocate of one fails with ENOSPC. disk_faults.py makes and removes these files.
   All else is as ever: small files are synced by fsync, and written without allocating. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *prefix, *faults;
static size_t prefix_bytes;

__attribute__((constructor)) static void begin(void) {
    prefix = getenv("ZENIT_FAULT_PREFIX");
    faults = getenv("ZENIT_FAULT_DIR");
    prefix_bytes = prefix && faults ? strlen(prefix) : 0;
}

/* Whether the file is of a broker that has this fault just now. */
static int has(int fd, const char *fault) {
    char link[64], path[PATH_MAX], flag[2 * PATH_MAX];
    ssize_t bytes;
    size_t name_bytes;
    if (!prefix_bytes) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if ((bytes = readlink(link, path, sizeof path - 1)) < 0) return 0;
    path[bytes] = 0;
    if (strncmp(path, prefix, prefix_bytes)) return 0;
    name_bytes = strcspn(path + prefix_bytes, "/");
    snprintf(flag, sizeof flag, "%s/%.*s.%s", faults, (int)name_bytes, path + prefix_bytes, fault);
    return !access(flag, F_OK);
}

int fdatasync(int fd) {
    static int (*real)(int);
    struct timespec pause = {0, 20 * 1000 * 1000};
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fdatasync");
    while (has(fd, "hang")) nanosleep(&pause, NULL);
    return real(fd);
}

#define FALLOCATE(NAME)                                                             \
    int NAME(int fd, off_t offset, off_t bytes) {                                   \
        static int (*real)(int, off_t, off_t);                                      \
        if (has(fd, "full")) return ENOSPC;                                         \
        if (!real) *(void **)&real = dlsym(RTLD_NEXT, #NAME);                       \
        return real(fd, offset, bytes);                                             \
    }
FALLOCATE(posix_fallocate)
FALLOCATE(posix_fallocate64)
