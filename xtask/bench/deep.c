/* Allocates and frees, 20 frames deep, in one thread or in several at once, and prints the nanoseconds of one
 * pair. A block is freed 1024 allocations later, so that the allocator and a tracer's tables have some live
 * blocks. */
#include <pthread.h>
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
    void *live[LIVE] = {0};
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

static void *begin(void *argument) {
    double *value = argument;
    *value = descend(DEPTH, (long)*value);
    return NULL;
}

int main(int count, char **arguments) {
    if (count < 2 || count > 3) {
        return 2;
    }
    enum { MOST = 16 };
    int threads = count == 3 ? atoi(arguments[2]) : 1;
    if (threads < 1 || threads > MOST) {
        return 2;
    }
    pthread_t ids[MOST];
    double values[MOST], sum = 0;
    for (int i = 0; i < threads; i++) {
        values[i] = (double)atol(arguments[1]);
        /* One thread is the first one, as in most programs. */
        if (threads == 1) {
            begin(&values[i]);
        } else {
            pthread_create(&ids[i], NULL, begin, &values[i]);
        }
    }
    for (int i = 0; i < threads; i++) {
        if (threads > 1) {
            pthread_join(ids[i], NULL);
        }
        sum += values[i];
    }
    printf("%.1f\n", sum / threads);
    return 0;
}
