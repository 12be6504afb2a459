/* configuration_files.h: the files beside a checkpoint's weights that other tools need to load its directory: the
 * configuration, the tokenizer in each form that Transformers reads, and the chat template. A checkpoint may lack any
 * of them. */
#ifndef WEIGHTS_CONFIGURATION_FILES_H
#define WEIGHTS_CONFIGURATION_FILES_H

/* Their names, config.json first; NULL ends the list. */
extern const char *const configuration_files[];

#endif
