#include "launch/template.h"

#include "base/checksum.h"
#include "base/size.h"
#include "schema/form.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t hash_of(const char *text)
{
    struct checksum sum;
    checksum_init(&sum);
    checksum_add(&sum, text, strlen(text));
    return (uint32_t)checksum_value(&sum);
}

static enum status add_label(struct template *template, const char *label, struct error *error)
{
    static const char device[] = "device=", memory[] = "device_memory=";
    if (strncmp(label, memory, sizeof memory - 1) == 0) {
        const char *size = label + sizeof memory - 1;
        if (size_read(size, &template->device_memory) && template->device_memory > 0) return STATUS_OK;
        return error_set(error, STATUS_INVALID, "--template: device_memory must be a size like 76G, found \"%.60s\"",
                         size);
    }
    if (strncmp(label, device, sizeof device - 1) == 0) {
        const char *kind = label + sizeof device - 1;
        if (strcmp(kind, "cpu") != 0 && strcmp(kind, "cuda") != 0)
            return error_set(error, STATUS_INVALID, "--template: device must be cpu or cuda, found \"%.60s\"", kind);
        (void)snprintf(template->device, sizeof template->device, "%s", kind);
        return STATUS_OK;
    }
    if (!form_label.fits(label))
        return error_set(error, STATUS_INVALID, "--template: the label \"%.100s\" %s", label, form_label.wanted);
    return json_array_append_new(template->labels, json_string(label)) == 0
               ? STATUS_OK
               : error_set(error, STATUS_NO_MEMORY, "no memory for a template");
}

enum status template_parse(const char *text, struct template *out, struct error *error)
{
    enum status status = STATUS_OK;
    size_t count = 0;
    char *kept = NULL;
    *out = (struct template){.text = strdup(text), .device = "cpu", .labels = json_array(), .hash = hash_of(text)};
    if (out->text == NULL || out->labels == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a template");
    char *options = strchr(out->text, ':');
    if (options == NULL)
        return error_set(error, STATUS_INVALID, "--template \"%.100s\": expected LABELS: OPTIONS", text);
    *options++ = '\0';
    for (char *word = strtok_r(out->text, ", ", &kept); word != NULL && status == STATUS_OK;
         word = strtok_r(NULL, ", ", &kept))
        status = add_label(out, word, error);
    if (status == STATUS_OK && out->device_memory > 0 && strcmp(out->device, "cpu") == 0)
        return error_set(error, STATUS_INVALID, "--template: device_memory is that of a device: add device=cuda");
    for (char *word = strtok_r(options, " ", &kept); word != NULL && status == STATUS_OK;
         word = strtok_r(NULL, " ", &kept)) {
        if (count == TEMPLATE_OPTIONS)
            return error_set(error, STATUS_INVALID, "--template: more than %d options", TEMPLATE_OPTIONS);
        if (word[0] != '-')
            return error_set(error, STATUS_INVALID, "--template: \"%.60s\" is no option: write --name=value", word);
        out->options[count++] = word;
    }
    return status;
}

void template_reset(struct template *template)
{
    free(template->text);
    json_decref(template->labels);
    *template = (struct template){0};
}

static bool holds(const json_t *labels, const json_t *label)
{
    size_t i;
    const json_t *item;
    json_array_foreach(labels, i, item) if (json_equal(item, label)) return true;
    return false;
}

bool template_meets(const struct template *template, const char *device, int64_t device_memory, const json_t *labels)
{
    size_t i;
    const json_t *label;
    if (device != NULL && strcmp(device, template->device) != 0) return false;
    if (device_memory > template->device_memory) return false;
    json_array_foreach(labels, i, label) if (!holds(template->labels, label)) return false;
    return true;
}

const struct template *template_find(const struct template *templates, size_t count, const char *device,
                                     int64_t device_memory, const json_t *labels)
{
    for (size_t i = 0; i < count; i++)
        if (template_meets(&templates[i], device, device_memory, labels)) return &templates[i];
    return NULL;
}

const struct template *template_of_hash(const struct template *templates, size_t count, uint32_t hash)
{
    for (size_t i = 0; i < count; i++)
        if (templates[i].hash == hash) return &templates[i];
    return NULL;
}

const char *template_device(const struct template *template)
{
    return strcmp(template->device, "cuda") == 0 ? "cuda:0" : "cpu";
}
