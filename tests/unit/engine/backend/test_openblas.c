/* That a process whose threads print numbers may load and unload OpenBLAS. */
#include "backend/cpu/blas_choice.h"
#include "backend/cpu/openblas.h"
#include "unit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* libquadmath registers what printf calls for numbers the first 16 times that it is loaded in a process, so a child
 * does that many. Without what openblas.c does about it a quarter of them crashed on two cores. */
enum { LOADS = 16, CHILDREN = 20, PATH_SIZE = 512 };

/* Writes the file of libquadmath, which OpenBLAS needs on x86-64, into memory that the test shares with this child. */
static int find_library(char *path)
{
    struct openblas blas;
    Dl_info found = {0};
    openblas_open(&blas);
    const void *function = blas.library != NULL ? dlsym(blas.library, "quadmath_snprintf") : NULL;
    if (function != NULL && dladdr(function, &found) != 0) (void)snprintf(path, PATH_SIZE, "%s", found.dli_fname);
    return 0;
}

static bool is_loaded(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (library != NULL) dlclose(library);
    return library != NULL;
}

/* The exit status of a process that executes `body`; -1: it crashed. This process never loads the library. */
static int child(int (*body)(char *path), char *path)
{
    int end = 0;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(body(path));
    assert_int_equal(waitpid(pid, &end, 0), pid);
    return WIFEXITED(end) ? WEXITSTATUS(end) : -1;
}

static atomic_bool ended;

static void *load_often(void *argument)
{
    for (int i = 0; i < LOADS; i++) {
        struct openblas blas;
        openblas_open(&blas);
        (void)usleep(300);
        openblas_close(&blas);
    }
    atomic_store(&ended, true);
    return argument;
}

static int print_beside(char *path)
{
    pthread_t thread;
    char text[64] = "";
    double number = 1.0 / 3;
    (void)path;
    openblas_prepare();
    if (pthread_create(&thread, NULL, load_often, NULL) != 0) return 1;
    while (!atomic_load(&ended)) {
        (void)snprintf(text, sizeof text, "%.17g", number);
        number *= 1.0000001;
    }
    return pthread_join(thread, NULL) == 0 && text[0] != '\0' ? 0 : 1;
}

static int choose_and_look(char *path)
{
    struct blas_choice choice;
    struct error error;
    if (blas_choice_make(BLAS_CHOICE_SECONDS, &choice, &error) != STATUS_OK) return 1;
    return choice.verdict == BLAS_OWN_PRODUCTS || is_loaded(path) ? 0 : 2;
}

static int open_and_close(char *path)
{
    struct openblas blas;
    openblas_open(&blas);
    if (blas.library == NULL) return 1;
    openblas_close(&blas);
    return is_loaded(path) ? 0 : 2;
}

static int find(void **state)
{
    *state = mmap(NULL, PATH_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *state == MAP_FAILED ? -1 : child(find_library, *state);
}

static int forget(void **state)
{
    return munmap(*state, PATH_SIZE);
}

static void need(const char *path)
{
    if (path[0] != '\0') return;
    print_message("there is no OpenBLAS here, or it needs no libquadmath\n");
    skip();
}

static void test_what_printf_calls_stays_loaded(void **state)
{
    need(*state);
    assert_int_equal(child(open_and_close, *state), 0);
}

/* Before the first thread, which may print as it is loaded for the first time. */
static void test_a_choice_has_loaded_it(void **state)
{
    need(*state);
    assert_int_equal(child(choose_and_look, *state), 0);
}

static void test_numbers_are_printed_while_it_comes_and_goes(void **state)
{
    need(*state);
    for (int i = 0; i < CHILDREN; i++) assert_int_equal(child(print_beside, *state), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_printf_calls_stays_loaded),
        cmocka_unit_test(test_a_choice_has_loaded_it),
        cmocka_unit_test(test_numbers_are_printed_while_it_comes_and_goes),
    };
    return cmocka_run_group_tests_name("OpenBLAS", tests, find, forget);
}
