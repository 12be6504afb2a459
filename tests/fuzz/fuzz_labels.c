/* A launcher's template, "LABELS: OPTIONS", and labels by themselves. What is accepted is what workers can have, and
 * what a command line can be made of. */
#include "fuzz.h"

#include "launch/template.h"
#include "schema/form.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct template template;
    struct error error;
    size_t i;
    const json_t *label;
    char *text = malloc(size + 1);
    fuzz_require(text != NULL);
    memcpy(text, bytes, size);
    text[size] = '\0';
    const enum status status = template_parse(text, &template, &error);
    fuzz_require(status == STATUS_OK || (status == STATUS_INVALID && error.detail[0]));
    json_array_foreach(template.labels, i, label)
    {
        fuzz_require(form_label.fits(json_string_value(label)));
        fuzz_require(strncmp(json_string_value(label), "device=", 7) != 0);
    }
    if (status == STATUS_OK) {
        fuzz_require(strcmp(template.device, "cpu") == 0 || strcmp(template.device, "cuda") == 0);
        fuzz_require(template_meets(&template, template.device, template.device_memory, template.labels));
        fuzz_require(template.device_memory >= 0);
        for (i = 0; template.options[i] != NULL; i++)
            fuzz_require(i < TEMPLATE_OPTIONS && template.options[i][0] == '-' &&
                         strchr(template.options[i], ' ') == NULL);
    }
    template_reset(&template);
    free(text);
    return 0;
}
