/* Any bytes, as what a failed run says, as a text of any other origin, and as a part of an address. What of it
 * may reach a column of the database is UTF-8 without NUL. */
#include "fuzz.h"

#include "base/utf8.h"
#include "http/problem.h"
#include "http/router.h"
#include "postgres/value.h"
#include "schema/faults.h"

#include <string.h>

static void check_text(const char *text)
{
    const size_t length = strlen(text);
    fuzz_require(utf8_check(text, length) == length);
}

static void check_error(const char *text)
{
    struct error error;
    struct faults faults = {0};
    char pointer[64], *said;
    const struct problem problem = problem_of_status(STATUS_CORRUPT);
    struct value_arguments *arguments = calloc(1, sizeof *arguments);
    fuzz_require(arguments != NULL);
    faults_pointer(pointer, sizeof pointer, "/params", text);
    faults_add(&faults, pointer, "found \"%.60s\"", text);
    (void)error_set_at(&error, STATUS_CORRUPT, pointer, "tensor %.40s: %s", text, text);
    check_text(error.pointer);
    check_text(error.detail);
    check_text(faults.items[0].pointer);
    check_text(faults.items[0].detail);
    said = problem_render(&problem, &error, NULL, "/v1/runs", "1");
    json_t *document = said != NULL ? json_loads(said, 0, NULL) : NULL;
    const json_t *detail = json_object_get(document, "detail");
    fuzz_require(json_string_length(detail) == strlen(json_string_value(detail)));
    fuzz_require(document != NULL &&
                 json_array_size(json_object_get(document, "errors")) == (error.pointer[0] != '\0'));
    fuzz_require(value_arguments_fill(arguments, VALUES(value_text(error.detail), value_json(document)), &error) ==
                 STATUS_OK);
    check_text(arguments->values[0]);
    check_text(arguments->values[1]);
    value_arguments_reset(arguments);
    json_decref(document);
    free(arguments);
    free(said);
}

/* A text of any other origin is refused before the database sees it. */
static void check_bound(const char *text)
{
    const size_t length = strlen(text);
    struct error error;
    struct value_arguments *arguments = calloc(1, sizeof *arguments);
    fuzz_require(arguments != NULL);
    const enum status status = value_arguments_fill(arguments, VALUES(value_text(text)), &error);
    fuzz_require(status == (utf8_check(text, length) == length ? STATUS_OK : STATUS_INVALID));
    value_arguments_reset(arguments);
    free(arguments);
}

static void check_address(char *text)
{
    struct error error;
    if (router_unescape(text, true, &error) != STATUS_OK) {
        check_text(error.detail);
        return;
    }
    check_text(text);
    for (; *text != '\0'; text++) fuzz_require((unsigned char)*text >= 0x20 && *text != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = malloc(size + 1);
    fuzz_require(text != NULL);
    memcpy(text, bytes, size);
    text[size] = '\0';
    check_error(text);
    check_bound(text);
    check_address(text);
    free(text);
    return 0;
}
