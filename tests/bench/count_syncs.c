/*
 * Counts fsync and fdatasync of the process that it is preloaded into.
 *
 * The counter is the first eight octets of the file that SYNC_COUNTER names, mapped, so
 * that another process reads it at any moment: tracing would slow down what is counted.
 *
 * Build: cc -std=gnu11 -O2 -Wall -Wextra -shared -fPIC -o count_syncs.so count_syncs.c
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t nowhere, *counter = &nowhere;
static int (*real_fsync)(int), (*real_fdatasync)(int);

__attribute__((constructor)) static void map_counter(void)
{
    real_fsync = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    const char *path = getenv("SYNC_COUNTER");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED)
        counter = mapped;
}

int fsync(int fd)
{
    atomic_fetch_add(counter, 1);
    return real_fsync(fd);
}

int fdatasync(int fd)
{
    atomic_fetch_add(counter, 1);
    return real_fdatasync(fd);
}
