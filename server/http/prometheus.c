#include "http/prometheus.h"

#include <math.h>

enum { EXACT = 53 }; /* bits of a double: whole numbers below 2^EXACT are written in full */

void prometheus_head(const struct prometheus_row *row, struct buffer *out)
{
    buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name, row->type);
}

static void put_value(const char *text, struct buffer *out)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\n')
            buffer_puts(out, "\\n");
        else if (*c == '"' || *c == '\\')
            buffer_printf(out, "\\%c", *c);
        else
            buffer_append(out, c, 1);
    }
}

void prometheus_sample(const struct prometheus_row *row, const char *const *labels, double value, struct buffer *out)
{
    buffer_puts(out, row->name);
    for (int i = 0; i < PROMETHEUS_LABELS && row->labels[i] != NULL; i++) {
        buffer_printf(out, "%s%s=\"", i == 0 ? "{" : ",", row->labels[i]);
        put_value(labels[i], out);
        buffer_puts(out, "\"");
    }
    if (row->labels[0] != NULL) buffer_puts(out, "}");
    if (value == floor(value) && fabs(value) < ldexp(1, EXACT))
        buffer_printf(out, " %.0f\n", value);
    else
        buffer_printf(out, " %.9g\n", value);
}
