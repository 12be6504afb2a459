/* weights_container.h: the interface between weights.c and a container format. To add a format, write a file with its
 * row, and add one line to the table of weights.c. */
#ifndef WEIGHTS_WEIGHTS_CONTAINER_H
#define WEIGHTS_WEIGHTS_CONTAINER_H

#include "weights/weights.h"

struct file;

struct weights_container {
    const char *name;   /* "safetensors" */
    const char *suffix; /* of its files: ".safetensors" */
    const char *single; /* the name of a file in a directory that holds all of a checkpoint; or NULL */
    const char *index;  /* the name of a file that lists shards; or NULL */

    /* Opens `name` in `directory`; *out is handed to the other functions. */
    enum status (*open)(int directory, const char *name, void **out, struct error *error);
    void (*close)(void *container); /* NULL is fine */
    int64_t (*count)(const void *container);
    /* In ascending byte order of names; `file` counts within the container. */
    void (*tensor)(const void *container, int64_t index, struct weights_tensor *out);
    enum status (*read_f32)(const void *container, int64_t index, int64_t first, int64_t count, float *out,
                            struct error *error);
    /* NULL: no tensor is `plain`. */
    enum status (*read_bytes)(const void *container, int64_t index, int64_t first, int64_t bytes, void *out,
                              struct error *error);
    void (*readahead)(const void *container, int64_t index);
    int (*files)(const void *container);                          /* NULL: one */
    const struct file *(*file)(const void *container, int index); /* NULL: not a file */
    /* The file's own configuration as the text of a config.json; lent. NULL: none. */
    const char *(*config)(const void *container);
    /* NULL: the format records no progress. */
    void (*progress)(const void *container, struct weights_progress *out);
    /* NULL: the check of the file itself. STATUS_INPUT_CHANGED. */
    enum status (*check_unchanged)(const void *container, struct error *error);
};

/* The functions that every format has, with the names they have in its file. */
#define WEIGHTS_CONTAINER_FUNCTIONS                                                                         \
    .open = container_open, .close = container_close, .count = container_count, .tensor = container_tensor, \
    .read_f32 = container_read_f32, .readahead = container_readahead, .file = container_file

extern const struct weights_container weights_safetensors, weights_torch_bin, weights_torch_pt, weights_torch_pth,
    weights_gguf;

/* Weights with `container` as their only part (taken, also on failure). The container is made by code instead of read
 * from a file, so its row has no `open`. weights_directory returns `directory`. The caller owns *out.
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status weights_of_container(const struct weights_container *row, void *container, const char *directory,
                                            struct weights **out, struct error *error);

#endif
