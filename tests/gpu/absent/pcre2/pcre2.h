/* pcre2.h: in place of the library's on a machine for `make check-gpu` that lacks it. No pattern compiles there, which
 * is the answer that callers pass on. */
#ifndef ABSENT_PCRE2_H
#define ABSENT_PCRE2_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef const uint8_t *PCRE2_SPTR;
typedef uint8_t PCRE2_UCHAR;
typedef size_t PCRE2_SIZE;
typedef struct pcre2_code pcre2_code;
typedef struct pcre2_match_data pcre2_match_data;
typedef struct pcre2_match_context pcre2_match_context;
typedef struct pcre2_compile_context pcre2_compile_context;
typedef struct pcre2_general_context pcre2_general_context;
typedef struct pcre2_jit_stack pcre2_jit_stack;
#define PCRE2_ZERO_TERMINATED (~(size_t)0)
enum {
    PCRE2_UTF = 1,
    PCRE2_UCP = 2,
    PCRE2_NO_AUTO_CAPTURE = 4,
    PCRE2_MULTILINE = 8,
    PCRE2_LITERAL = 16,
    PCRE2_NO_UTF_CHECK = 32,
    PCRE2_USE_OFFSET_LIMIT = 64,
    PCRE2_JIT_COMPLETE = 1,
    PCRE2_NEWLINE_LF = 2,
    PCRE2_ERROR_NOMATCH = -1,
    PCRE2_ERROR_HEAP_FAILED = -63
};

static inline pcre2_code *pcre2_compile(PCRE2_SPTR pattern, size_t size, uint32_t options, int *code, size_t *at,
                                        pcre2_compile_context *context)
{
    (void)pattern, (void)size, (void)options, (void)context;
    *code = 1;
    *at = 0;
    return NULL;
}

static inline int pcre2_get_error_message(int code, PCRE2_UCHAR *text, size_t size)
{
    (void)code;
    return snprintf((char *)text, size, "built without pcre2");
}

static char absent_thing; /* what contexts are */
#define ABSENT_SOME(type, name, ...)          \
    static inline type *name(__VA_ARGS__)     \
    {                                         \
        return (type *)(void *)&absent_thing; \
    }
#define ABSENT_NONE(type, name, ...)     \
    static inline type name(__VA_ARGS__) \
    {                                    \
        return 0;                        \
    }
#define ABSENT_VOID(name, type)      \
    static inline void name(type *p) \
    {                                \
        (void)p;                     \
    }
ABSENT_SOME(pcre2_compile_context, pcre2_compile_context_create, pcre2_general_context *a __attribute__((unused)))
ABSENT_SOME(pcre2_match_context, pcre2_match_context_create, pcre2_general_context *a __attribute__((unused)))
ABSENT_SOME(pcre2_match_data, pcre2_match_data_create, uint32_t a __attribute__((unused)),
            pcre2_general_context *b __attribute__((unused)))
ABSENT_SOME(pcre2_jit_stack, pcre2_jit_stack_create, size_t a __attribute__((unused)), size_t b __attribute__((unused)),
            pcre2_general_context *c __attribute__((unused)))
ABSENT_NONE(int, pcre2_set_newline, pcre2_compile_context *a __attribute__((unused)),
            uint32_t b __attribute__((unused)))
ABSENT_NONE(int, pcre2_jit_compile, pcre2_code *a __attribute__((unused)), uint32_t b __attribute__((unused)))
ABSENT_NONE(int, pcre2_set_match_limit, pcre2_match_context *a __attribute__((unused)),
            uint32_t b __attribute__((unused)))
ABSENT_NONE(int, pcre2_set_heap_limit, pcre2_match_context *a __attribute__((unused)),
            uint32_t b __attribute__((unused)))
ABSENT_NONE(int, pcre2_set_offset_limit, pcre2_match_context *a __attribute__((unused)),
            size_t b __attribute__((unused)))
ABSENT_NONE(size_t *, pcre2_get_ovector_pointer, pcre2_match_data *a __attribute__((unused)))
ABSENT_VOID(pcre2_code_free, pcre2_code)
ABSENT_VOID(pcre2_match_data_free, pcre2_match_data)
ABSENT_VOID(pcre2_match_context_free, pcre2_match_context)
ABSENT_VOID(pcre2_compile_context_free, pcre2_compile_context)
ABSENT_VOID(pcre2_jit_stack_free, pcre2_jit_stack)

static inline void pcre2_jit_stack_assign(pcre2_match_context *context, void *callback, void *stack)
{
    (void)context, (void)callback, (void)stack;
}

static inline int pcre2_match(const pcre2_code *code, PCRE2_SPTR text, size_t size, size_t start, uint32_t options,
                              pcre2_match_data *data, pcre2_match_context *context)
{
    (void)code, (void)text, (void)size, (void)start, (void)options, (void)data, (void)context;
    return PCRE2_ERROR_NOMATCH;
}

#define pcre2_jit_match pcre2_match

#endif
