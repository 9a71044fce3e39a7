/* Allocates and frees, 20 frames deep, and prints the nanoseconds of one pair. A block is freed 1024
 * allocations later, so that the allocator and a tracer's tables have some live blocks. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { DEPTH = 20, LIVE = 1024 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double measure(long pairs) {
    static void *live[LIVE];
    double start = now();
    for (long i = 0; i < pairs; i++) {
        char *volatile block = malloc(64 + (size_t)(i & 255));
        *block = 1;
        free(live[i % LIVE]);
        live[i % LIVE] = block;
    }
    double end = now();
    for (int i = 0; i < LIVE; i++) {
        free(live[i]);
    }
    return (end - start) / (double)pairs;
}

__attribute__((noinline)) static double descend(int depth, long pairs) {
    double result = depth == 0 ? measure(pairs) : descend(depth - 1, pairs);
    __asm__ volatile("" : : : "memory"); /* No tail call: each frame stays. */
    return result;
}

int main(int count, char **arguments) {
    if (count != 2) {
        return 2;
    }
    printf("%.1f\n", descend(DEPTH, atol(arguments[1])));
    return 0;
}
