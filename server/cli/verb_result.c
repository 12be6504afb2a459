#include "cli/verb_result.h"

#include <stdbool.h>
#include <string.h>

enum { NAME_WIDTH = 24 };

static bool is_interval(const json_t *value)
{
    return json_array_size(value) == 2 && json_is_number(json_array_get(value, 0)) &&
           json_is_number(json_array_get(value, 1));
}

static void print_scalar(const json_t *value, FILE *out)
{
    if (json_is_real(value))
        (void)fprintf(out, "%.6g", json_real_value(value));
    else if (json_is_integer(value))
        (void)fprintf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_string(value))
        (void)fputs(json_string_value(value), out);
    else
        (void)fputs(json_is_null(value) ? "-" : json_is_true(value) ? "true" : "false", out);
}

static void print_value(const json_t *value, FILE *out)
{
    if (is_interval(value)) {
        (void)fprintf(out, "%.6g to %.6g", json_number_value(json_array_get(value, 0)),
                      json_number_value(json_array_get(value, 1)));
    } else if (json_is_array(value)) {
        (void)fprintf(out, "[%zu]", json_array_size(value));
    } else if (json_is_object(value)) {
        (void)fprintf(out, "{%zu}", json_object_size(value));
    } else {
        print_scalar(value, out);
    }
}

static void print_line(const char *name, const json_t *value, FILE *out)
{
    (void)fprintf(out, "%-*s ", NAME_WIDTH, name);
    print_value(value, out);
    (void)fputc('\n', out);
}

void verb_result_print(const json_t *run, FILE *out)
{
    static const char *const head[] = {"id", "kind", "state"};
    const char *name;
    json_t *value;
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++) print_line(head[i], json_object_get(run, head[i]), out);
    json_object_foreach(json_object_get(run, "result"), name, value) print_line(name, value, out);
}
