/* files/name.h (private) - what the folders and files of checkpoints are called, and which of them
 * can go.
 *
 * Layer: files. Threads: any; pure.
 */
#ifndef FILES_NAME_H
#define FILES_NAME_H

#include "files/store.h"

#define NAME_BYTES    64 /* of a checkpoint's folder */
#define HISTORY_FILE  "history.jsonl"
#define PROGRESS_FILE "progress.json"

/* A checkpoint that may be there: a folder of its name is. */
struct name {
    int64_t lineage;
    int64_t step;
    /* Set by name_choose(): */
    bool is_kept; /* as one of the newest ... */
    bool is_best; /* ... or because one of these names it as the best */
    bool goes;
};

struct name name_of(const struct resume_checkpoint *c);
/* "<lineage>-<step>" */
void name_print(struct name name, char out[static NAME_BYTES]);
/* False when it is not exactly the name of a checkpoint. */
bool name_parse(const char *text, struct name *out);
/* Of a stage's manifest: that of its shard, with ".json". */
void name_manifest(int stage, int n_stages, char out[static EXPORT_SHARD_BYTES]);
/* Is it the name of a stage's manifest? */
bool name_parse_manifest(const char *file, int *out_stage, int *out_n_stages);
/* For qsort(): the newest lineage first, and the newest step first in it. */
int name_compare(const void *a, const void *b);

/* Which checkpoints stay. */
struct name_rule {
    const struct resume *at;
    int keep;    /* at least 1 */
    bool is_own; /* as store_clean_own() has it: all up to step_max count as complete, and newer
                    ones must not take up more and more space */
    int64_t step_max; /* of an own store */
    /* Is the checkpoint there, complete in a store that is shared? Then the best that it names. */
    bool (*find)(void *ctx, struct name name, struct resume_origin *out_best);
    void *ctx;
};

/* Set `goes` of names in the order of name_compare(), as store_clean() has it. */
void name_choose(struct name *names, int n, const struct name_rule *rule);

#endif
