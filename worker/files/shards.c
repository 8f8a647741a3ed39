#include "files/shards.h"

#include <stdlib.h>
#include <string.h>

#include "base/folder.h"
#include "base/json.h"
#include "files/safetensors.h"

#define SINGLE_FILE     "model.safetensors"
#define INDEX_FILE      "model.safetensors.index.json"
#define FILE_NAME_BYTES 255

struct shards {
    struct json *index; /* owns the names; NULL: one file */
    int n;
    const char *names[SHARDS_MAX];
    struct safetensors *files[SHARDS_MAX];
};

bool shards_in(const char *folder)
{
    return folder_has(folder, SINGLE_FILE) || folder_has(folder, INDEX_FILE);
}

static struct safetensors *find_file(const struct shards *s, const char *name)
{
    for (int i = 0; i < s->n; i++) {
        if (strcmp(s->names[i], name) == 0)
            return s->files[i];
    }
    return NULL;
}

static enum err_code add_file(struct shards *s, const char *folder, const char *name,
                              struct err *err)
{
    char path[PATH_MAX];
    enum err_code rc = folder_path(folder, name, path, err);

    if (rc == ERR_OK && s->n == SHARDS_MAX)
        rc = err_set(err, ERR_LIMIT, "%s/%s: more than %d shards", folder, INDEX_FILE, SHARDS_MAX);
    if (rc == ERR_OK)
        rc = safetensors_open(path, &s->files[s->n], err);
    if (rc == ERR_NOT_FOUND)
        rc = err_set(err, ERR_INVALID,
                     "%s: the index names this shard, but it is not there; copy "
                     "the whole folder",
                     path);
    if (rc == ERR_OK)
        s->names[s->n++] = name;
    return rc;
}

/* A file of this very folder and no other. */
static bool is_plain_name(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/') && strlen(name) <= FILE_NAME_BYTES;
}

static enum err_code add_entry(struct shards *s, const char *folder, const struct json *entry,
                               struct err *err)
{
    const char *tensor = json_key(entry);
    const char *file = json_string(entry, "");
    struct safetensors *in;
    enum err_code rc;

    if (!is_plain_name(file))
        return err_set(err, ERR_INVALID,
                       "%s/%s: tensor \"%.80s\": \"%.80s\" is no file of this folder; write the "
                       "index anew",
                       folder, INDEX_FILE, tensor, file);
    if (!find_file(s, file)) {
        rc = add_file(s, folder, file, err);
        if (rc != ERR_OK)
            return rc;
    }
    in = find_file(s, file);
    if (!in || !safetensors_find(in, tensor))
        return err_set(err, ERR_INVALID,
                       "%s/%s: tensor \"%.80s\" is not in %.80s; copy the whole folder again",
                       folder, INDEX_FILE, tensor, file);
    return ERR_OK;
}

static enum err_code open_index(struct shards *s, const char *folder, struct err *err)
{
    const struct json *map;
    enum err_code rc = folder_json(folder, INDEX_FILE, &s->index, err);

    if (rc != ERR_OK)
        return rc;
    map = json_get(s->index, "weight_map");
    if (json_kind_of(map) != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "%s/%s: no object \"weight_map\"; write the index anew",
                       folder, INDEX_FILE);
    for (const struct json *v = json_first(map); v && rc == ERR_OK; v = json_next(v))
        rc = add_entry(s, folder, v, err);
    return rc;
}

enum err_code shards_open(const char *folder, struct shards **out, struct err *err)
{
    struct shards *s = calloc(1, sizeof *s);
    enum err_code rc;

    if (!s)
        return err_set(err, ERR_NO_MEMORY, "no memory to read %s", folder);
    /* Where both are, transformers takes the one file. */
    if (folder_has(folder, SINGLE_FILE))
        rc = add_file(s, folder, SINGLE_FILE, err);
    else
        rc = open_index(s, folder, err);
    if (rc != ERR_OK) {
        shards_close(s);
        return rc;
    }
    *out = s;
    return ERR_OK;
}

const struct weight *shards_find(const struct shards *s, const char *name)
{
    const char *file = s->index
                           ? json_string(json_get(json_get(s->index, "weight_map"), name), NULL)
                           : SINGLE_FILE;
    const struct safetensors *in = file ? find_file(s, file) : NULL;

    return in ? safetensors_find(in, name) : NULL;
}

void shards_close(struct shards *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n; i++)
        safetensors_close(s->files[i]);
    json_free(s->index);
    free(s);
}
