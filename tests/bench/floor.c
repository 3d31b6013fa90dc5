/*
 * floor - what a server takes that does nothing but read, write, sync and answer.
 *
 * floor sync SIZE SECONDS SERVER_CORE CLIENT_CORE DIRECTORY
 *   A client sends a message over loopback, the server writes it to a file with its blocks
 *   allocated, syncs the file and answers; the client waits for each answer. The server syncs
 *   in its loop, or on a thread woken through an eventfd as a broker must. No protocol, no
 *   queue. Syncs one right after the other (bare) are measured in turns with it; they are
 *   faster than the same ones with pauses between.
 *   Prints {"echo": us, "loop": us, "thread": us, "bare": us}, medians.
 *
 * floor pace SIZE SECONDS SERVER_CORE CLIENT_CORE RATE
 *   A client sends so many messages a second, whether or not those before were answered, and
 *   the server sends each back. Each counts from the time when it was due.
 *   Prints {"p50": us, "p99": us, "p999": us}.
 *
 * Build: cc -std=gnu11 -O2 -Wall -Wextra -pthread -o floor floor.c
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FILE_SIZE (16 << 20)
#define SIZE_MAX_ (256 << 10)
#define ANSWER 21 /* octets, as basic.ack */
#define TURN 100  /* measurements in a row of one kind */
#define SAMPLES_MAX (1 << 18)

/* WHOLE is paced, and answered with as much as was sent. */
enum how { ECHO, LOOP, THREAD, BARE, KINDS, WHOLE = KINDS };
static const char *const names[] = {"echo", "loop", "thread", "bare"};

static char data[SIZE_MAX_];
static size_t size;
static int file, to_thread, from_thread;
static off_t offset;

static void must(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(2);
    }
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* A core that is not there pins nothing. */
static void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((unsigned)core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void write_and_sync(void)
{
    must(pwrite(file, data, size, offset) == (ssize_t)size, "pwrite");
    must(fdatasync(file) == 0, "fdatasync");
    offset = offset + 2 * (off_t)size > FILE_SIZE ? 0 : offset + (off_t)size;
}

static void tell(int event)
{
    uint64_t one = 1;
    must(write(event, &one, sizeof one) == sizeof one, "eventfd");
}

static void hear(int event)
{
    uint64_t count;
    must(read(event, &count, sizeof count) == sizeof count, "eventfd");
}

static void *sync_for_ever(void *unused)
{
    for (;;) {
        hear(to_thread);
        write_and_sync();
        tell(from_thread);
    }
    return unused;
}

static void watch(int poller, int descriptor)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
    must(epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event) == 0, "epoll_ctl");
}

/* The first octet of a message says how it is to be answered. */
static void serve(int listener)
{
    static char message[SIZE_MAX_];
    int one = 1, client = accept(listener, NULL, NULL), poller = epoll_create1(0);
    must(client >= 0 && poller >= 0, "accept");
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    to_thread = eventfd(0, 0);
    from_thread = eventfd(0, EFD_NONBLOCK);
    pthread_t thread;
    must(pthread_create(&thread, NULL, sync_for_ever, NULL) == 0, "pthread_create");
    watch(poller, client);
    watch(poller, from_thread);
    for (;;) {
        struct epoll_event events[2];
        int n = epoll_wait(poller, events, 2, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == from_thread) {
                hear(from_thread);
            } else {
                ssize_t got = recv(client, message, size, MSG_WAITALL);
                if (got <= 0)
                    exit(0);
                if (message[0] == THREAD) {
                    tell(to_thread);
                    continue;
                }
                if (message[0] == LOOP)
                    write_and_sync();
            }
            size_t answer = message[0] == WHOLE ? size : ANSWER;
            must(send(client, data, answer, MSG_NOSIGNAL) == (ssize_t)answer, "send");
        }
    }
}

static double ask(int server, int poller, enum how how)
{
    static char message[SIZE_MAX_];
    struct epoll_event event;
    double started = now_us();
    message[0] = (char)how;
    must(send(server, message, size, MSG_NOSIGNAL) == (ssize_t)size, "send");
    must(epoll_wait(poller, &event, 1, -1) == 1, "epoll_wait");
    must(recv(server, message, ANSWER, MSG_WAITALL) == ANSWER, "recv");
    return now_us() - started;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double samples[KINDS + 1][SAMPLES_MAX];
static size_t counts[KINDS + 1];

static void measure(int server, double seconds, int server_core, int client_core)
{
    int poller = epoll_create1(0);
    must(poller >= 0, "epoll_create1");
    watch(poller, server);
    for (double end = now_us() + seconds * 1e6; now_us() < end && counts[BARE] + TURN < SAMPLES_MAX;)
        for (int how = ECHO; how < KINDS; how++) {
            pin(how == BARE ? server_core : client_core);
            for (int i = 0; i < TURN; i++) {
                double started = now_us();
                if (how == BARE)
                    write_and_sync();
                else
                    started = now_us() - ask(server, poller, (enum how)how);
                samples[how][counts[how]++] = now_us() - started;
            }
        }
}

/* Sends what is due and takes what has come, without waiting for one to do the other. */
static void measure_paced(int server, double seconds, double rate)
{
    static char message[SIZE_MAX_], answers[SIZE_MAX_];
    struct pollfd poller = {.fd = server, .events = POLLIN};
    size_t count = (size_t)(seconds * rate), sent = 0, octets = 0;
    if (count > SAMPLES_MAX)
        count = SAMPLES_MAX;
    message[0] = WHOLE;
    /* Else a sleep may last 50 us longer than it is to. */
    must(prctl(PR_SET_TIMERSLACK, 1UL) == 0, "prctl");
    double start = now_us(), period = 1e6 / rate;
    while (counts[WHOLE] < count) {
        double early = start + (double)sent * period - now_us();
        if (sent < count && early <= 0) {
            must(send(server, message, size, MSG_NOSIGNAL) == (ssize_t)size, "send");
            sent++;
            continue;
        }
        if (sent == count || early > 1e5)
            early = 1e5;
        struct timespec pause = {.tv_nsec = (long)(early * 1e3)};
        if (ppoll(&poller, 1, &pause, NULL) <= 0)
            continue;
        ssize_t got = recv(server, answers, sizeof answers, 0);
        must(got > 0, "recv");
        double now = now_us();
        for (octets += (size_t)got; octets >= size; octets -= size) {
            size_t at = counts[WHOLE]++;
            samples[WHOLE][at] = now - (start + (double)at * period);
        }
    }
}

static double percentile(enum how how, double share)
{
    qsort(samples[how], counts[how], sizeof(double), by_value);
    return samples[how][(size_t)((double)counts[how] * share)];
}

static void open_file(const char *directory)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/floor-XXXXXX", directory);
    must((file = mkstemp(path)) >= 0, directory);
    unlink(path);
    must(posix_fallocate(file, 0, FILE_SIZE) == 0 && fsync(file) == 0, "posix_fallocate");
}

int main(int argc, char **argv)
{
    int is_paced = argc == 7 && strcmp(argv[1], "pace") == 0;
    if (argc != 7 || (!is_paced && strcmp(argv[1], "sync") != 0)) {
        fprintf(stderr, "usage: floor sync|pace SIZE SECONDS SERVER_CORE CLIENT_CORE DIRECTORY|RATE\n");
        return 2;
    }
    size = (size_t)atol(argv[2]);
    must(size >= ANSWER && size <= SIZE_MAX_, "SIZE");
    double seconds = atof(argv[3]);
    int server_core = atoi(argv[4]), client_core = atoi(argv[5]);
    if (!is_paced)
        open_file(argv[6]);
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    must(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 1) == 0, "listen");
    getsockname(listener, (struct sockaddr *)&address, &length);
    if (fork() == 0) {
        pin(server_core);
        serve(listener);
    }
    int server = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(server, (struct sockaddr *)&address, length) == 0, "connect");
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (is_paced) {
        pin(client_core);
        measure_paced(server, seconds, atof(argv[6]));
    } else {
        measure(server, seconds, server_core, client_core);
    }
    close(server);
    wait(NULL);
    if (is_paced)
        printf("{\"p50\": %.1f, \"p99\": %.1f, \"p999\": %.1f}\n", percentile(WHOLE, 0.5),
               percentile(WHOLE, 0.99), percentile(WHOLE, 0.999));
    else
        for (int how = 0; how < KINDS; how++)
            printf("%s\"%s\": %.1f%s", how ? ", " : "{", names[how], percentile((enum how)how, 0.5),
                   how + 1 < KINDS ? "" : "}\n");
    return 0;
}
