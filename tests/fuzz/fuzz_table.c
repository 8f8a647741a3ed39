/* Rows of TSV, CSV and JSONL files: what a pass over a file accepts is in range, and is found
 * again.
 *
 * The first byte chooses the task and the split, the rest is the file.
 */
#include "data/table.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "memory_file.h"
#include "text/chars.h"

#define ROWS_MAX 4096 /* an input has no more bytes */

static const char *const specs[] = {
    "{\"data\": {\"task\": \"MNLI\", \"source\": {\"sample\": \"MNLI\"}}}",
    "{\"data\": {\"task\": \"QQP\", \"source\": {\"configMap\": {\"name\": \"a\"}}}}",
    "{\"data\": {\"task\": \"CoLA\", \"source\": {\"configMap\": {\"name\": \"a\"}}}}",
    "{\"data\": {\"task\": \"STSB\", \"source\": {\"configMap\": {\"name\": \"a\"}}}}",
    "{\"data\": {\"task\": \"Classification\", \"source\": {\"configMap\": {\"name\": \"a\"}},"
    " \"columns\": {\"text\": \"t\", \"label\": \"l\"}, \"labels\": [\"0\", \"yes\"],"
    " \"files\": {\"train\": \"a.jsonl\", \"dev\": \"b.tsv\", \"test\": \"c.jsonl\"}}}",
    "{\"data\": {\"task\": \"Regression\", \"source\": {\"configMap\": {\"name\": \"a\"}},"
    " \"columns\": {\"text\": \"t\", \"pair\": \"p\", \"label\": \"l\"},"
    " \"files\": {\"train\": \"a.jsonl\", \"dev\": \"b.csv\", \"test\": \"c.jsonl\"}}}",
};
#define N_SPECS (sizeof specs / sizeof specs[0])

struct pass {
    const struct layout *layout;
    const struct layout_split *split;
    uint64_t offsets[ROWS_MAX];
    uint64_t hashes[ROWS_MAX]; /* of the texts */
    int n_rows;
};

static struct spec parsed[N_SPECS];
static struct layout layouts[N_SPECS];
static struct memory_file file;

static void init(void)
{
    for (size_t i = 0; i < N_SPECS; i++) {
        struct json *root = NULL;
        struct err err = {0};

        MUST(json_parse(specs[i], strlen(specs[i]), &root, &err) == ERR_OK);
        MUST(spec_parse(root, &parsed[i], &err) == ERR_OK);
        json_free(root);
        layout_init(&layouts[i], &parsed[i]);
    }
    memory_file_init(&file);
}

static const struct layout_split *choose_split(const struct layout *l, unsigned which)
{
    return which == 0 ? &l->train : which == 1 || l->n_test == 0 ? &l->dev[0] : &l->test[0];
}

static void check_text(const struct pass *p, const char *text, size_t n)
{
    bool may_have_tabs =
        layout_ends_in(p->split, LAYOUT_JSON) || layout_ends_in(p->split, LAYOUT_CSV);

    MUST(text);
    MUST(chars_check(text, n) == n);
    MUST(may_have_tabs || (!memchr(text, '\t', n) && !memchr(text, '\n', n)));
    MUST(p->layout->is_lenient || strspn(text, " ") < n);
}

static uint64_t hash_row(const struct table_row *row)
{
    uint64_t hash = hash_bytes(HASH_START, row->text, row->text_bytes);

    hash = hash_bytes(hash, "", 1);
    return row->pair ? hash_bytes(hash, row->pair, row->pair_bytes) : hash;
}

static void check_row(struct pass *p, const struct table_row *row)
{
    bool has_pair = p->split->pair.name || p->split->pair.number >= 0;

    check_text(p, row->text, row->text_bytes);
    MUST((row->pair != NULL) == has_pair);
    if (has_pair)
        check_text(p, row->pair, row->pair_bytes);
    MUST(row->label >= 0 && (row->label == 0 || row->label < p->layout->n_labels));
    MUST(isfinite(row->score));
    MUST(!p->split->is_test || (row->label == 0 && row->score == 0));
    MUST(p->n_rows == 0 || row->offset > p->offsets[p->n_rows - 1]);
    MUST(p->n_rows < ROWS_MAX);
    p->offsets[p->n_rows] = row->offset;
    p->hashes[p->n_rows++] = hash_row(row);
}

/* Returns whether the whole file is good. */
static bool read_all(struct table *t, struct pass *p)
{
    struct table_row row;
    struct err err = {0};
    bool is_end = false;

    for (;;) {
        enum err_code rc = table_next(t, &row, &is_end, &err);

        MUST(rc == ERR_OK || rc == ERR_INVALID || rc == ERR_LIMIT);
        MUST(rc == ERR_OK || strncmp(err.text, file.path, strlen(file.path)) == 0);
        if (rc != ERR_OK || is_end)
            return rc == ERR_OK;
        check_row(p, &row);
    }
}

/* Once more, with half of the file left out. */
static void check_thinned(struct pass *p, size_t n)
{
    struct table *t = NULL;

    p->n_rows = 0;
    MUST(table_open(file.path, p->layout, p->split, &t, NULL) == ERR_OK);
    table_thin(t, n / 2);
    (void)read_all(t, p);
    table_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static struct pass p;
    struct table *t = NULL;
    struct table_row row;
    int64_t n_lines = 1;

    if (n == 0)
        return 0;
    if (file.fd == 0)
        init();
    p.layout = &layouts[bytes[0] % N_SPECS];
    p.split = choose_split(p.layout, bytes[0] / N_SPECS % 3);
    p.n_rows = 0;
    memory_file_put(&file, bytes + 1, n - 1);
    if (table_open(file.path, p.layout, p.split, &t, NULL) != ERR_OK)
        return 0;
    if (read_all(t, &p)) {
        for (size_t i = 1; i < n; i++)
            n_lines += bytes[i] == '\n';
        MUST(p.n_rows + t->n_unlabelled + t->n_broken <= n_lines);
        lines_settle(&t->lines);
        for (int i = p.n_rows - 1; i >= 0; i--) {
            MUST(table_at(t, p.offsets[i], &row, NULL) == ERR_OK);
            MUST(hash_row(&row) == p.hashes[i]);
        }
    }
    table_close(t);
    check_thinned(&p, n);
    return 0;
}
