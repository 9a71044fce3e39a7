// Nanoseconds for one open and close, or one pipe, 20 frames deep. `open COUNT`, `pipe COUNT`; `wait` says that
// it has begun and waits to be ended.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int once(int is_pipe) {
    int ends[2];
    if (is_pipe) {
        return pipe(ends) != 0 || close(ends[0]) != 0 || close(ends[1]) != 0;
    }
    int file = open("/dev/null", O_RDONLY);
    return file < 0 || close(file) != 0;
}

static __attribute__((noinline)) int deep(int depth, long count, int is_pipe) {
    int failed = 0;
    if (depth > 0) {
        failed = deep(depth - 1, count, is_pipe);
    } else {
        for (long made = 0; made < count && !failed; made++) {
            failed = once(is_pipe);
        }
    }
    __asm__ volatile("" ::: "memory");
    return failed;
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "wait") == 0) {
        puts("begun");
        fflush(stdout);
        pause();
    }
    if (count != 3) {
        return 2;
    }
    long times = atol(arguments[2]);
    int is_pipe = strcmp(arguments[1], "pipe") == 0;
    struct timespec start, end;
    if (deep(20, times / 10, is_pipe) != 0) {
        return 3;
    }
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (deep(20, times, is_pipe) != 0) {
        return 3;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.1f\n", ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / times);
    return 0;
}
