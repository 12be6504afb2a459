/* template.h: a kind of job that a launcher may submit: the device and labels of its workers, and the options of the
 * batch system. Written as "LABELS: OPTIONS": "device=cuda,device_memory=76G,gpu=h100: --partition=h100 --gres=gpu:1",
 * where device_memory is what a run may take of the device (device_state.memory_bytes of /v1/workers). */
#ifndef LAUNCH_TEMPLATE_H
#define LAUNCH_TEMPLATE_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { TEMPLATE_OPTIONS = 16, TEMPLATE_MOST = 16 };

struct template
{
    char *text;                                /* owned */
    char device[8];                            /* kind: "cpu", "cuda" */
    int64_t device_memory;                     /* bytes that a run may take of the device; 0: not known */
    json_t *labels;                            /* owned: the labels of its workers, without the device */
    const char *options[TEMPLATE_OPTIONS + 1]; /* into `text`; ends with NULL */
    uint32_t hash;                             /* hash of the text as given, part of its jobs' names */
};

/* STATUS_INVALID says what is wrong. The caller resets *out. */
MUST_CHECK enum status template_parse(const char *text, struct template *out, struct error *error);
void template_reset(struct template *template);

/* Whether its workers have that kind of device (NULL: any) with so much memory (bytes; 0: any) and all of the labels (a
 * list; NULL: none). */
bool template_meets(const struct template *template, const char *device, int64_t device_memory, const json_t *labels);
/* The first that does, NULL: none. */
const struct template *template_find(const struct template *templates, size_t count, const char *device,
                                     int64_t device_memory, const json_t *labels);
/* The one with the hash, NULL: none. */
const struct template *template_of_hash(const struct template *templates, size_t count, uint32_t hash);
/* Its worker's --device: a job has one device of its own, and the first that it sees is that. */
const char *template_device(const struct template *template);

#endif
