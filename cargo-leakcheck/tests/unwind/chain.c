// Stops in the midst of calls that go through the C library, and prints what an unwinder starts from,
// what it may read, and what the compiler's own unwinder makes of it. Built without frame pointers.
#define _GNU_SOURCE
#include <alloca.h>
#include <execinfo.h>
#include <pthread.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

extern void *__libc_malloc(size_t size);

static int armed;
static const uint64_t *stack_end;

NOINLINE static void look(void) {
    uint64_t pc, sp, fp;
    void *frames[64];
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2" : "=&r"(pc), "=&r"(sp), "=&r"(fp));
    armed = 0;
    printf("registers %lx %lx %lx\n", pc, sp, fp);
    int count = backtrace(frames, 64);
    // The first is this function.
    for (int i = 1; i < count; i++) printf("frame %lx\n", (uint64_t)frames[i]);
    for (const uint64_t *word = (uint64_t *)sp; word < stack_end; word++) printf("word %lx\n", *word);
    static char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) printf("map %s", line);
    fflush(stdout);
    _exit(0);
}

// As the preloaded library is called.
void *malloc(size_t size) {
    void *block = __libc_malloc(size);
    if (armed) look();
    return block;
}

NOINLINE static int compare(const void *left, const void *right) {
    if (armed) look();
    return *(const int *)left - *(const int *)right;
}

NOINLINE static void visit(const void *node, VISIT which, int depth) {
    if (armed && depth == 3) look();
}

NOINLINE static ssize_t give(void *cookie, char *buffer, size_t size) {
    if (armed) look();
    return 0;
}

NOINLINE static void sort(int count) {
    int *numbers = calloc(count, sizeof *numbers);
    for (int i = 0; i < count; i++) numbers[i] = (i * 7919) % 1009;
    armed = 1;
    qsort(numbers, count, sizeof *numbers, compare);
    __asm__ volatile("" ::"r"(numbers) : "memory");
}

// A frame whose size is known at run time only is found by rbp, which the C library uses for other things.
NOINLINE static void sort_below_a_frame_of_any_size(int count) {
    volatile char *room = alloca(count);
    room[0] = 1;
    sort(count);
    room[count - 1] = 1;
}

NOINLINE static void sort_below_a_large_frame(int count) {
    volatile char room[100000];
    room[0] = 1;
    sort(count);
    room[count] = 1;
}

NOINLINE static void sort_below_an_aligned_frame(int count) {
    _Alignas(256) volatile char room[512];
    room[0] = 1;
    sort_below_a_frame_of_any_size(count);
    room[1] = 1;
}

NOINLINE static void walk(int count) {
    static int numbers[32];
    void *root = NULL;
    for (int i = 0; i < 32; i++) {
        numbers[i] = i;
        tsearch(&numbers[i], &root, compare);
    }
    armed = 1;
    twalk(root, visit);
    __asm__ volatile("" ::"r"(count) : "memory");
}

NOINLINE static void duplicate(int count) {
    armed = 1;
    char *text = strdup("a text");
    __asm__ volatile("" ::"r"(text), "r"(count) : "memory");
}

NOINLINE static void print(int count) {
    char *text = NULL;
    armed = 1;
    int length = asprintf(&text, "%d of %s", count, "them");
    __asm__ volatile("" ::"r"(text), "r"(length) : "memory");
}

NOINLINE static void read_line(int count) {
    FILE *file = fopencookie(NULL, "r", (cookie_io_functions_t){.read = give});
    size_t size = count;
    char *line = malloc(size);
    armed = 1;
    ssize_t length = getline(&line, &size, file);
    __asm__ volatile("" ::"r"(line), "r"(length) : "memory");
}

// What `std::string` calls when it grows: it calls `operator new`, which calls `malloc`.
extern char *_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm(void *string, size_t *size, size_t old);

NOINLINE static void grow(int count) {
    size_t size = count;
    char string[32];
    armed = 1;
    char *text = _ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm(string, &size, 0);
    __asm__ volatile("" ::"r"(text) : "memory");
}

static const struct { const char *name; void (*body)(int); int count; } ways[] = {
    {"qsort", sort, 100},
    {"qsort of many", sort, 100000},
    {"any size", sort_below_a_frame_of_any_size, 200},
    {"large", sort_below_a_large_frame, 200},
    {"aligned", sort_below_an_aligned_frame, 200},
    {"twalk", walk, 1},
    {"strdup", duplicate, 1},
    {"asprintf", print, 1},
    {"getline", read_line, 100},
    {"string", grow, 100},
};

static void *in_thread(void *argument) {
    stack_end = (uint64_t *)__builtin_frame_address(0) + 64;
    sort_below_a_frame_of_any_size(200);
    return argument;
}

int main(int argc, char **argv) {
    // So that nothing is allocated for it later.
    static char buffer[1 << 16];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    void *none;
    backtrace(&none, 1);
    extern void *__libc_stack_end;
    stack_end = __libc_stack_end;
    if (argc > 1 && !strcmp(argv[1], "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, in_thread, NULL);
        pthread_join(thread, NULL);
    }
    for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(argv[1], ways[i].name)) ways[i].body(ways[i].count);
    return 1;
}
