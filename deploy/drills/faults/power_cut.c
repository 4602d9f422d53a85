/* What a power cut would take: remembers how to undo what a process wrote to files and did not sync.

   cc -O2 -shared -fPIC -pthread -o power_cut.so power_cut.c -ldl
   LD_PRELOAD=power_cut.so ZENIT_CUT_PREFIX=/cluster/broker- ZENIT_CUT_LOG=/log zenit broker ...

   Every write to and truncation of a regular file whose path begins with ZENIT_CUT_PREFIX first appends a record to
   LOG/DEV-INODE.undo: where, and the bytes and the file size that were there before. Before fsync or fdatasync of the file
   that log is set aside as DEV-INODE.old, and removed once the sync has succeeded: what is left is exactly what was written
   since the last sync began. Creations, renames and unlinks, of directories too, are lines of LOG/DEV-INODE.names of their
   directory, until that directory is synced; a file that lost its name keeps a second one in LOG until then. LOG must be on
   the same file system and must not begin so itself. The logs are files and survive the death of the process, as the page
   cache does; the next process goes on with them. power_cut.py undoes them.

   After a cut a process finds in LOG/boot_id, instead of in the kernel, the name of the boot that it runs under.

   Not seen: writes through a shared map (only the key index does that; it is rebuilt from the log), and dup'ed descriptors.
   A record:  u64 offset | u64 length written | u64 file size before | u64 old bytes that follow (0 where all were zero) */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FDS 65536
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define NAME_BYTES 4400 /* LOG, a slash and a file name; PATH_MAX for LOG */

static char prefix[PATH_MAX], log_dir[PATH_MAX];
static size_t prefix_bytes;
static char tracked[FDS];
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER; /* held while a record and its write are made */
static pthread_mutex_t syncing = PTHREAD_MUTEX_INITIALIZER; /* held by the one sync that is under way */
static unsigned long graves;

__attribute__((constructor)) static void begin(void) {
    const char *where = getenv("ZENIT_CUT_PREFIX"), *log = getenv("ZENIT_CUT_LOG");
    if (!where || !log || where[0] != '/' || !realpath(log, log_dir)) return;
    prefix_bytes = (size_t)snprintf(prefix, sizeof prefix, "%s", where);
}

/* A promise that cannot be kept must not pass for one that was. */
static void die(const char *what) {
    fprintf(stderr, "power_cut: %s: %s\n", what, strerror(errno));
    _exit(86);
}

static int raw_open(const char *path, int flags) { return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0644); }
static void raw_close(int fd) { syscall(SYS_close, fd); }
static int raw_unlink(const char *path) { return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0); }
static int raw_rename(const char *a, const char *b) { return (int)syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, 0); }

static void raw_append(const char *path, const void *data, size_t bytes) {
    int fd = raw_open(path, O_WRONLY | O_CREAT | O_APPEND);
    const char *at = data;
    if (fd < 0) die(path);
    while (bytes) {
        ssize_t done = syscall(SYS_write, fd, at, bytes);
        if (done <= 0) die(path);
        at += done;
        bytes -= (size_t)done;
    }
    raw_close(fd);
}

/* The absolute path of `path` without following its last part; 0 where it does not begin with the prefix. */
static int inside(int dir_fd, const char *path, char *out) {
    char joined[PATH_MAX], folder[PATH_MAX], link[64], *slash;
    ssize_t bytes;
    if (!prefix_bytes) return 0;
    if (path[0] == '/') {
        snprintf(joined, sizeof joined, "%s", path);
    } else {
        if (dir_fd == AT_FDCWD) {
            if (!getcwd(folder, sizeof folder)) return 0;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", dir_fd);
            if ((bytes = readlink(link, folder, sizeof folder - 1)) < 0) return 0;
            folder[bytes] = 0;
        }
        if (snprintf(joined, sizeof joined, "%s/%s", folder, path) >= (int)sizeof joined) return 0;
    }
    if (!(slash = strrchr(joined, '/'))) return 0;
    *slash = 0;
    if (!realpath(joined[0] ? joined : "/", folder)) return 0;
    if (snprintf(out, PATH_MAX, "%s/%s", folder, slash + 1) >= PATH_MAX) return 0;
    return !strncmp(out, prefix, prefix_bytes);
}

static void log_name(char *out, const struct stat *of, const char *kind) {
    snprintf(out, NAME_BYTES, "%s/%lu-%lu.%s", log_dir, (unsigned long)of->st_dev, (unsigned long)of->st_ino, kind);
}

/* ---- contents */

static int is_tracked(int fd, struct stat *facts) {
    return fd >= 0 && fd < FDS && tracked[fd] && !fstat(fd, facts) && S_ISREG(facts->st_mode);
}

/* Remembers [offset, offset + length) as it is, and the size. Under `writing`. */
static void remember(int fd, const struct stat *facts, uint64_t offset, uint64_t length) {
    uint64_t size = (uint64_t)facts->st_size, held = offset < size ? size - offset : 0, got = 0;
    char name[NAME_BYTES], link[64], *record;
    int reader;
    if (held > length) held = length;
    if (!(record = malloc(32 + held))) die("memory");
    if (held) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if ((reader = raw_open(link, O_RDONLY)) < 0) die("reading what is written over");
        while (got < held) {
            ssize_t part = pread(reader, record + 32 + got, held - got, (off_t)(offset + got));
            if (part <= 0) die("reading what is written over");
            got += (uint64_t)part;
        }
        raw_close(reader);
        if (!record[32] && !memcmp(record + 32, record + 33, held - 1)) got = 0; /* all zero */
    }
    memcpy(record, &(uint64_t[4]){offset, length, size, got}, 32);
    log_name(name, facts, "undo");
    raw_append(name, record, 32 + got);
    free(record);
}

#define REAL(result, name, ...)                                                     \
    static result (*real)(__VA_ARGS__);                                             \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, name)

#define PWRITE(NAME)                                                                \
    ssize_t NAME(int fd, const void *data, size_t bytes, off_t offset) {            \
        REAL(ssize_t, #NAME, int, const void *, size_t, off_t);                     \
        struct stat facts;                                                          \
        ssize_t done;                                                               \
        if (!is_tracked(fd, &facts)) return real(fd, data, bytes, offset);          \
        pthread_mutex_lock(&writing);                                               \
        fstat(fd, &facts);                                                          \
        remember(fd, &facts, (uint64_t)offset, bytes);                              \
        done = real(fd, data, bytes, offset);                                       \
        pthread_mutex_unlock(&writing);                                             \
        return done;                                                                \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

static uint64_t total(const struct iovec *parts, int count) {
    uint64_t bytes = 0;
    for (int k = 0; k < count; k++) bytes += parts[k].iov_len;
    return bytes;
}

#define PWRITEV(NAME, LAST, GIVEN)                                                  \
    ssize_t NAME(int fd, const struct iovec *parts, int count, off_t offset LAST) { \
        REAL(ssize_t, #NAME, int, const struct iovec *, int, off_t LAST);           \
        struct stat facts;                                                          \
        ssize_t done;                                                               \
        if (!is_tracked(fd, &facts)) return real(fd, parts, count, offset GIVEN);   \
        pthread_mutex_lock(&writing);                                               \
        fstat(fd, &facts);                                                          \
        remember(fd, &facts, (uint64_t)offset, total(parts, count));                \
        done = real(fd, parts, count, offset GIVEN);                                \
        pthread_mutex_unlock(&writing);                                             \
        return done;                                                                \
    }
#define NOTHING
#define COMMA_FLAGS_TYPE , int flags
#define COMMA_FLAGS , flags
PWRITEV(pwritev, NOTHING, NOTHING)
PWRITEV(pwritev64, NOTHING, NOTHING)
PWRITEV(pwritev2, COMMA_FLAGS_TYPE, COMMA_FLAGS)
PWRITEV(pwritev64v2, COMMA_FLAGS_TYPE, COMMA_FLAGS)

ssize_t write(int fd, const void *data, size_t bytes) {
    REAL(ssize_t, "write", int, const void *, size_t);
    struct stat facts;
    ssize_t done;
    if (!is_tracked(fd, &facts)) return real(fd, data, bytes);
    pthread_mutex_lock(&writing);
    fstat(fd, &facts);
    off_t at = fcntl(fd, F_GETFL) & O_APPEND ? facts.st_size : lseek(fd, 0, SEEK_CUR);
    remember(fd, &facts, (uint64_t)at, bytes);
    done = real(fd, data, bytes);
    pthread_mutex_unlock(&writing);
    return done;
}

/* A shorter file: what is cut off is remembered. A longer one is not: file systems with a journal (ext4, XFS) write growth
   without data there, before any later sync of the directory; only bytes can be lost from it. posix_fallocate is left alone
   for the same reason. */
static void remember_end(int fd, uint64_t size) {
    struct stat facts;
    fstat(fd, &facts);
    uint64_t old = (uint64_t)facts.st_size;
    if (size < old) remember(fd, &facts, size, old - size);
}

#define FTRUNCATE(NAME)                                                             \
    int NAME(int fd, off_t size) {                                                  \
        REAL(int, #NAME, int, off_t);                                               \
        struct stat facts;                                                          \
        int done;                                                                   \
        if (!is_tracked(fd, &facts)) return real(fd, size);                         \
        pthread_mutex_lock(&writing);                                               \
        remember_end(fd, (uint64_t)size);                                          \
        done = real(fd, size);                                                      \
        pthread_mutex_unlock(&writing);                                             \
        return done;                                                                \
    }
FTRUNCATE(ftruncate)
FTRUNCATE(ftruncate64)

#define TRUNCATE(NAME)                                                              \
    int NAME(const char *path, off_t size) {                                        \
        int fd = open(path, O_RDWR | O_CLOEXEC), done;                              \
        if (fd < 0) return -1;                                                      \
        done = ftruncate(fd, size);                                                 \
        close(fd);                                                                  \
        return done;                                                                \
    }
TRUNCATE(truncate)
TRUNCATE(truncate64)

/* ---- names */

/* One line: time, kind, one path or two, the second name a file was kept under or "-"; in the log of `path`'s directory. */
static void note(const char *path, const char *line_kind, const char *from, const char *grave) {
    char folder[PATH_MAX], name[NAME_BYTES], line[4 * PATH_MAX];
    struct stat facts;
    struct timespec now;
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    if (stat(folder, &facts)) return;
    log_name(name, &facts, "names");
    clock_gettime(CLOCK_MONOTONIC, &now);
    int bytes = snprintf(line, sizeof line, "%lld.%09ld\t%s\t%s\t%s\t%s\n", (long long)now.tv_sec, now.tv_nsec, line_kind,
                         from, path, grave);
    raw_append(name, line, (size_t)bytes);
}

/* A new file or directory has no history: what its number's last bearer left is not its own. */
static void forget(const struct stat *facts) {
    static const char *const kinds[] = {"undo", "old", "names", "names.old"};
    char name[NAME_BYTES];
    for (int k = 0; k < 4; k++) {
        log_name(name, facts, kinds[k]);
        raw_unlink(name);
    }
}

/* A second name in LOG for the file at `path`; "-" where there is no such file. */
static void keep(const char *path, char *grave) {
    struct stat facts;
    snprintf(grave, NAME_BYTES, "-");
    if (lstat(path, &facts) || !S_ISREG(facts.st_mode)) return;
    snprintf(grave, NAME_BYTES, "%s/%d-%lu.kept", log_dir, getpid(), ++graves);
    if (link(path, grave)) die("keeping a file that loses its name");
}

static int open_at(int dir_fd, const char *path, int flags, mode_t mode) {
    char whole[PATH_MAX];
    struct stat facts;
    int fd, ours = flags & (O_WRONLY | O_RDWR | O_CREAT) && inside(dir_fd, path, whole), is_new;
    if (!ours) {
        if (prefix_bytes && !strcmp(path, BOOT_ID) && snprintf(whole, sizeof whole, "%s/boot_id", log_dir) < PATH_MAX &&
            !access(whole, R_OK))
            path = whole;
        fd = (int)syscall(SYS_openat, dir_fd, path, flags, mode);
        if (fd >= 0 && fd < FDS) tracked[fd] = 0;
        return fd;
    }
    pthread_mutex_lock(&writing);
    is_new = flags & O_CREAT && lstat(whole, &facts);
    fd = (int)syscall(SYS_openat, dir_fd, path, flags & ~O_TRUNC, mode);
    int why = errno;
    if (fd >= 0 && fd < FDS) tracked[fd] = !fstat(fd, &facts) && S_ISREG(facts.st_mode);
    if (fd >= 0 && is_new) {
        forget(&facts);
        note(whole, "created", "-", "-");
    }
    pthread_mutex_unlock(&writing);
    if (fd >= 0 && flags & O_TRUNC && !is_new && facts.st_size) {
        if (ftruncate(fd, 0)) die("emptying a file");
    }
    errno = why;
    return fd;
}

static mode_t mode_of(int flags, va_list rest) { return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; }

#define OPEN(NAME)                                                                  \
    int NAME(const char *path, int flags, ...) {                                    \
        va_list rest;                                                               \
        va_start(rest, flags);                                                      \
        mode_t mode = mode_of(flags, rest);                                         \
        va_end(rest);                                                               \
        return open_at(AT_FDCWD, path, flags, mode);                                \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(NAME)                                                                \
    int NAME(int dir_fd, const char *path, int flags, ...) {                        \
        va_list rest;                                                               \
        va_start(rest, flags);                                                      \
        mode_t mode = mode_of(flags, rest);                                         \
        va_end(rest);                                                               \
        return open_at(dir_fd, path, flags, mode);                                  \
    }
OPENAT(openat)
OPENAT(openat64)

int close(int fd) {
    if (fd >= 0 && fd < FDS) tracked[fd] = 0;
    return (int)syscall(SYS_close, fd);
}

int rename(const char *from, const char *to) {
    char whole_from[PATH_MAX], whole_to[PATH_MAX], grave[NAME_BYTES];
    int done;
    if (!inside(AT_FDCWD, from, whole_from) || !inside(AT_FDCWD, to, whole_to)) return raw_rename(from, to);
    pthread_mutex_lock(&writing);
    keep(whole_to, grave);
    done = raw_rename(from, to);
    int why = errno;
    if (!done) note(whole_to, "renamed", whole_from, grave);
    else if (grave[0] == '/') raw_unlink(grave);
    pthread_mutex_unlock(&writing);
    errno = why;
    return done;
}

int unlink(const char *path) {
    char whole[PATH_MAX], grave[NAME_BYTES];
    int done;
    if (!inside(AT_FDCWD, path, whole)) return raw_unlink(path);
    pthread_mutex_lock(&writing);
    keep(whole, grave);
    done = raw_unlink(path);
    int why = errno;
    if (!done) note(whole, "unlinked", "-", grave);
    else if (grave[0] == '/') raw_unlink(grave);
    pthread_mutex_unlock(&writing);
    errno = why;
    return done;
}

int mkdir(const char *path, mode_t mode) {
    char whole[PATH_MAX];
    struct stat facts;
    int done, ours = inside(AT_FDCWD, path, whole);
    if (!ours) return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    pthread_mutex_lock(&writing);
    done = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    int why = errno;
    if (!done && !lstat(whole, &facts)) {
        forget(&facts);
        note(whole, "made", "-", "-");
    }
    pthread_mutex_unlock(&writing);
    errno = why;
    return done;
}

/* ---- syncs */

/* Sets aside what was written before a sync begins, after what an earlier one did not settle. Under `writing`. */
static void set_aside(const char *undo, const char *old) {
    char part[1 << 16];
    ssize_t got;
    int fd;
    if (access(old, F_OK)) {
        raw_rename(undo, old);
        return;
    }
    if ((fd = raw_open(undo, O_RDONLY)) < 0) return;
    while ((got = read(fd, part, sizeof part)) > 0) raw_append(old, part, (size_t)got);
    raw_close(fd);
    raw_unlink(undo);
}

/* The names of a directory are settled: files that lost theirs may go. The log goes first, in one step: killed in between,
   nothing is undone by halves. */
static void settle_names(const char *old) {
    char line[4 * PATH_MAX], *grave;
    FILE *file = fopen(old, "r");
    if (!file) return;
    raw_unlink(old);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        grave = strrchr(line, '\t');
        if (grave && grave[1] == '/') raw_unlink(grave + 1);
    }
    fclose(file);
}

/* What was in the directory is gone for good: it comes back empty, if at all. */
int rmdir(const char *path) {
    char whole[PATH_MAX], name[NAME_BYTES];
    struct stat facts;
    int done, ours = inside(AT_FDCWD, path, whole) && !lstat(whole, &facts);
    if (!ours) return (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
    pthread_mutex_lock(&writing);
    done = (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
    int why = errno;
    if (!done) {
        note(whole, "removed", "-", "-");
        log_name(name, &facts, "names");
        settle_names(name);
        log_name(name, &facts, "names.old");
        settle_names(name);
    }
    pthread_mutex_unlock(&writing);
    errno = why;
    return done;
}

static int sync_with(int (*real)(int), int fd) {
    struct stat facts;
    char undo[NAME_BYTES], old[NAME_BYTES];
    int done, folder;
    if (!prefix_bytes || fstat(fd, &facts)) return real(fd);
    folder = S_ISDIR(facts.st_mode);
    if (!folder && !S_ISREG(facts.st_mode)) return real(fd);
    log_name(undo, &facts, folder ? "names" : "undo");
    log_name(old, &facts, folder ? "names.old" : "old");
    pthread_mutex_lock(&syncing);
    pthread_mutex_lock(&writing);
    set_aside(undo, old);
    pthread_mutex_unlock(&writing);
    done = real(fd);
    int why = errno;
    if (!done) {
        if (folder) settle_names(old);
        else raw_unlink(old);
    }
    pthread_mutex_unlock(&syncing);
    errno = why;
    return done;
}

int fsync(int fd) {
    REAL(int, "fsync", int);
    return sync_with(real, fd);
}

int fdatasync(int fd) {
    REAL(int, "fdatasync", int);
    return sync_with(real, fd);
}
