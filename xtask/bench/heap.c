/* Leaves a number of blocks of one size behind, which refer to each other in no order and are held by a table that a
 * static variable holds. Built with LeakSanitizer, it prints the microseconds of its leak check. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

__attribute__((weak)) int __lsan_do_recoverable_leak_check(void);

void ***volatile table;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

int main(int count, char **arguments) {
    if (count != 3) {
        return 2;
    }
    size_t blocks = strtoul(arguments[1], NULL, 10), size = strtoul(arguments[2], NULL, 10);
    void ***all = malloc(blocks * sizeof *all);
    for (size_t i = 0; i < blocks; i++) {
        all[i] = calloc(1, size);
        if (i > 0) {
            all[i][0] = all[(size_t)rand() % i];
        }
    }
    table = all;
    if (__lsan_do_recoverable_leak_check) {
        double start = now();
        int found = __lsan_do_recoverable_leak_check();
        printf("%.0f\n", now() - start);
        return found;
    }
    return 0;
}
