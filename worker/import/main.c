/* skyjob-import: what a model is made of before a job trains it. */
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "import/import.h"
#include "import/vocab_build.h"
#include "text/vocab.h"

static const char usage[] =
    "usage: skyjob-import model --from DIR --out DIR\n"
    "       skyjob-import vocabulary --size N [--cased] --out FILE TEXT...\n"
    "       skyjob-import version\n"
    "\n"
    "model       write a model, TensorFlow checkpoints included, as a Hugging Face directory in "
    "F32\n"
    "vocabulary  build a WordPiece vocabulary (vocab.txt) of N tokens from plain text, one "
    "sentence\n"
    "            per line; --cased keeps capitals and accents\n";

struct arguments {
    const char *from_dir, *out_path, *size, *cased;
    int vocab_size;
    char **texts;
    int n_texts;
};

/* An option's value is the place of its argument; no place is equal to '?'. */
#define AT(member) ((int)offsetof(struct arguments, member))

static bool read_arguments(int argc, char **argv, struct arguments *out)
{
    static const struct option options[] = {
        {"from", required_argument, NULL, AT(from_dir)},
        {"out", required_argument, NULL, AT(out_path)},
        {"size", required_argument, NULL, AT(size)},
        {"cased", no_argument, NULL, AT(cased)},
        {NULL, 0, NULL, 0},
    };
    int at;

    *out = (struct arguments){0};
    while ((at = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (at == '?')
            return false;
        *(const char **)(void *)((char *)out + at) = optarg ? optarg : "";
    }
    out->texts = argv + optind;
    out->n_texts = argc - optind;
    if (out->size) {
        char *end;

        out->vocab_size = (int)strtol(out->size, &end, 10);
        if (*end != '\0' || strlen(out->size) > 9 || out->vocab_size < 1)
            return false;
    }
    return true;
}

static enum err_code build_vocabulary(const struct arguments *a, struct err *err)
{
    struct buf text = {.max = VOCAB_FILE_MAX_BYTES};
    struct word_counts counts;
    int n_tokens = 0;
    enum err_code rc = word_counts_init(&counts, a->cased, WORD_COUNTS_WORDS_MAX, err);

    if (rc != ERR_OK)
        return rc;
    for (int i = 0; rc == ERR_OK && i < a->n_texts; i++)
        rc = word_counts_add_file(&counts, a->texts[i], err);
    if (rc == ERR_OK)
        rc = vocab_build(&counts, a->vocab_size, &text, &n_tokens, err);
    if (rc == ERR_OK)
        rc = file_write(a->out_path, text.data, text.len, err);
    if (rc == ERR_OK)
        (void)printf("%s: %d tokens from %llu words, %zu different%s\n", a->out_path, n_tokens,
                     (unsigned long long)counts.n_seen, counts.words.n,
                     n_tokens < a->vocab_size ? "; the corpus has no more pairs to join" : "");
    word_counts_deinit(&counts);
    buf_deinit(&text);
    return rc;
}

static enum err_code import_model(const struct arguments *a, struct err *err)
{
    struct import_report r;
    enum err_code rc = import_folder(a->from_dir, a->out_path, &r, err);

    if (rc == ERR_OK)
        (void)printf("%s: %d layers of %d, %d words, %s, %d tensors%s\n", a->out_path,
                     r.model.layers, r.model.hidden, r.model.vocab,
                     r.is_cased ? "cased" : "uncased", r.n_tensors,
                     r.is_headless ? ", no head" : "");
    return rc;
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    struct arguments a;
    bool is_complete;
    struct err err;
    enum err_code rc;

    if (strcmp(command, "version") == 0) {
        (void)printf("skyjob-import %s\n", SKYJOB_VERSION);
        return EXIT_DONE;
    }
    is_complete = argc > 1 && read_arguments(argc - 1, argv + 1, &a) && a.out_path;
    if (is_complete && strcmp(command, "model") == 0 && a.from_dir && a.n_texts == 0) {
        rc = import_model(&a, &err);
    } else if (is_complete && strcmp(command, "vocabulary") == 0 && a.vocab_size > 0 &&
               a.n_texts > 0) {
        rc = build_vocabulary(&a, &err);
    } else {
        (void)fputs(usage, stderr);
        return EXIT_CONFIG;
    }
    if (rc == ERR_OK)
        return EXIT_DONE;
    (void)fprintf(stderr, "skyjob-import: %s\n", err.text);
    return err_is_transient(rc) || rc == ERR_IO || rc == ERR_NO_MEMORY ? EXIT_FAILED : EXIT_CONFIG;
}
