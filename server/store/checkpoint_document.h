/* checkpoint_document.h: the columns of a checkpoint as the API shows them: a row `c` of checkpoints with its
 * trajectory `t`. */
#ifndef STORE_CHECKPOINT_DOCUMENT_H
#define STORE_CHECKPOINT_DOCUMENT_H

#define CHECKPOINT_DOCUMENT                                                                                    \
    "json_build_object('id', c.id, 'name', c.name, 'trajectory', t.name, 'step', c.step, 'tokens', c.tokens,"  \
    " 'learning_rate', c.learning_rate, 'source', c.source, 'architecture', c.architecture, 'parameters',"     \
    " c.parameters,"                                                                                           \
    " 'dtype', c.dtype, 'bytes', c.bytes, 'sha256', c.sha256, 'derived_from', c.derived_from, 'tags', c.tags," \
    " 'created_at', rfc3339(c.created_at))"

/* The source of a checkpoint that is fetched: its repository, or the directory of a bucket (then it has a path and a
 * commit). Empty for a checkpoint on disk. */
#define CHECKPOINT_REMOTE \
    "coalesce(c.source ->> 'repo', case when c.source ->> 'commit' is not null then c.source ->> 'path' end)"

#endif
