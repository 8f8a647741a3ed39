/* gen-nli - make a natural-language-inference set in the layout of MNLI's published files.
 *
 *     gen-nli OUTDIR [TRAIN_PAIRS [DEV_PAIRS [SEED]]]
 *
 * Writes train.tsv, dev_matched.tsv and vocab.txt. The same arguments give the same bytes.
 *
 * A sentence is made from a meaning: a quantifier over a kind of individual, an activity and a
 * place, maybe negated. The label of a pair is computed from the two meanings (gen-nli-truth.c);
 * synonyms, word order, voice and number are chosen afterwards and change nothing.
 *
 * What a model cannot exploit: premises come in threes that share one hypothesis, one for each
 * label, so a classifier that sees only the hypothesis is right in one case of three, by
 * construction. Of the premises of every label about as many are negated. Premises are drawn by
 * changing the hypothesis at one or two places until the label is the one wanted, so the overlap of
 * words says little. Measured with naive Bayes on the default set: hypothesis alone 0.33, premise
 * alone 0.51, number of shared words 0.50. Dev and train share no hypothesis.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen-nli.h"

#define TEXT_BYTES   256
#define TRIES_MAX    400 /* of finding a premise */
#define PAIRS_MAX    500000
#define SLOTS        (1 << 21) /* more than there can be pairs */
#define HASH_START   UINT64_C(0xcbf29ce484222325)
#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* How rich the language is. As it is, a BERT of 3 layers and 128 hidden learns it from a random
 * start to 0.92 on dev in 1,000 steps of 128 pairs (16 heads, no dropout, learning rate 1e-3 to
 * 1.5e-3), a minute or two of one core. Twice as many rare words and quantifiers cost it 0.06. */
#define RARITY                     4  /* how much rarer late entries of a table are */
#define NAME_PERCENT               40 /* of the subjects in premises */
#define PLACE_PERCENT              30
#define ADJECTIVE_PERCENT          4
#define SINGULAR_PERCENT           10 /* "every dog" instead of "all dogs" */
#define PASSIVE_PERCENT            8
#define FRONT_PERCENT              10 /* "in the park Tom is running" */
#define NOT_PERCENT                15
#define NEGATED_PREMISE_PERCENT    15
#define NEGATED_HYPOTHESES_PERCENT 27 /* what the rest amounts to */

static const char *const label_names[N_LABELS] = {"contradiction", "entailment", "neutral"};

/* --- chance --- */

static uint64_t state; /* SplitMix64 */

static int below(int n)
{
    uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (int)((x ^ (x >> 31)) % (uint64_t)n);
}

static bool chance(int percent)
{
    return below(100) < percent;
}

/* Early entries of a table more often than late ones, as words are in any language. */
static int often_early(int n)
{
    int lowest = n;

    for (int i = 0; i < RARITY; i++) {
        int x = below(n);

        lowest = x < lowest ? x : lowest;
    }
    return lowest;
}

/* --- words --- */

static void add(char text[static TEXT_BYTES], const char *words)
{
    size_t n = strlen(text);

    bool is_close = n == 0 || *words == '.';

    if (*words)
        (void)snprintf(text + n, TEXT_BYTES - n, "%s%s", is_close ? "" : " ", words);
}

static const char *quantifier_word(enum quantifier quantifier, bool is_one)
{
    static const char *const one[N_QUANTIFIERS] = {"every", "a", "no", "not every", "", "", "", ""};
    static const char *const many[N_QUANTIFIERS] = {
        "all", "some", "no", "not all", "most", "at least two", "at least three", ""};

    return is_one ? one[quantifier] : many[quantifier];
}

/* "all small dogs" */
static void add_subject(char text[static TEXT_BYTES], const struct meaning *m, bool is_one)
{
    const char *adjective = adjectives[m->adjective].word;
    const char *noun = is_one ? nouns[m->noun].one : nouns[m->noun].many;
    const char *quantifier = quantifier_word(m->quantifier, is_one);
    char next = *adjective ? *adjective : *noun;

    add(text, strcmp(quantifier, "a") == 0 && strchr("aeiou", next) ? "an" : quantifier);
    add(text, adjective);
    add(text, noun);
}

static void add_active(char text[static TEXT_BYTES], const struct meaning *m, bool is_one)
{
    add_subject(text, m, is_one);
    add(text, is_one ? "is" : "are");
    if (m->is_negated)
        add(text, "not");
    add(text, acts[m->act].verb);
    add(text, acts[m->act].object);
}

/* "apples are being eaten by all small dogs" */
static void add_passive(char text[static TEXT_BYTES], const struct meaning *m, bool is_one)
{
    const char *object = acts[m->act].object;

    add(text, object);
    add(text, object[strlen(object) - 1] == 's' ? "are" : "is");
    if (m->is_negated)
        add(text, "not");
    add(text, "being");
    add(text, acts[m->act].passive);
    add(text, "by");
    add_subject(text, m, is_one);
}

/* One of the ways to say it. Only those that leave the meaning alone: a place in front would
 * narrow what "all" and "most" are about, and a passive would change what "not" is about. */
static void say(const struct meaning *m, char text[static TEXT_BYTES])
{
    enum quantifier q = m->quantifier;
    bool may_be_one = q == ALL || q == SOME || q == NO || q == NOT_ALL;
    bool may_be_front = m->place != 0 && !m->is_negated && q != ALL && q != NOT_ALL && q != MOST;
    bool may_be_passive = acts[m->act].passive &&
                          (q == NAME || (!m->is_negated && q != NO && q != NOT_ALL && q != MOST));
    bool is_one = q == NAME || (may_be_one && chance(SINGULAR_PERCENT));
    bool is_front = may_be_front && chance(FRONT_PERCENT);

    text[0] = '\0';
    if (is_front)
        add(text, places[m->place].phrase);
    if (may_be_passive && chance(PASSIVE_PERCENT))
        add_passive(text, m, is_one);
    else
        add_active(text, m, is_one);
    if (!is_front)
        add(text, places[m->place].phrase);
    add(text, ".");
    if (text[0] >= 'a' && text[0] <= 'z')
        text[0] = (char)(text[0] - 'a' + 'A');
}

/* --- drawing meanings --- */

static bool has_negation(const struct meaning *m)
{
    return m->is_negated || m->quantifier == NO || m->quantifier == NOT_ALL;
}

/* Sentences that people would not say, or not mean one thing by. */
static bool is_odd(const struct meaning *m)
{
    bool is_name = m->noun >= N_COMMON;

    return is_name != (m->quantifier == NAME) || (is_name && m->adjective != 0) ||
           (acts[m->act].people_only && !(nouns[m->noun].kinds & PEOPLE)) ||
           (m->is_negated &&
            (m->quantifier == ALL || m->quantifier == NO || m->quantifier == NOT_ALL));
}

static int any_noun(void)
{
    return chance(NAME_PERCENT) ? N_COMMON + often_early(COUNT(nouns) - N_COMMON)
                                : often_early(N_COMMON);
}

static void draw_quantifier(struct meaning *m)
{
    static const enum quantifier weighted[] = {NAME, NAME, NAME, NAME,    NAME, NAME, NAME,
                                               NAME, NAME, SOME, SOME,    SOME, ALL,  ALL,
                                               ALL,  ALL,  NO,   NOT_ALL, MOST, TWO};

    m->quantifier = weighted[below(COUNT(weighted))];
    m->is_negated = chance(NOT_PERCENT);
    if ((m->quantifier == NAME) != (m->noun >= N_COMMON)) {
        m->noun = m->quantifier == NAME ? N_COMMON + often_early(COUNT(nouns) - N_COMMON)
                                        : often_early(N_COMMON);
        if (m->quantifier == NAME)
            m->adjective = 0;
    }
}

static struct meaning draw(void)
{
    struct meaning m;

    do { /* one statement each: initialisers have no order, and so no reproducible chance */
        m = (struct meaning){0};
        m.noun = often_early(N_COMMON);
        m.adjective = chance(ADJECTIVE_PERCENT) ? below(COUNT(adjectives)) : 0;
        m.act = often_early(COUNT(acts));
        m.place = chance(PLACE_PERCENT) ? often_early(COUNT(places)) : 0;
        draw_quantifier(&m);
    } while (is_odd(&m));
    return m;
}

/* Another noun or activity that has something in common with the old one. */
static int related_noun(int noun)
{
    int other;

    do
        other = any_noun();
    while (!(nouns[other].kinds & nouns[noun].kinds));
    return other;
}

static int related_act(int act)
{
    int other;

    do
        other = often_early(COUNT(acts));
    while (!(acts[other].acts & acts[act].acts));
    return other;
}

enum part { PART_NOUN, PART_ACT, PART_PLACE, PART_QUANTIFIER, PART_ADJECTIVE };

static void change(struct meaning *m, int part)
{
    switch (part) {
    case PART_NOUN:
        m->noun = chance(75) ? related_noun(m->noun) : any_noun();
        break;
    case PART_ACT:
        m->act = chance(50) ? related_act(m->act) : often_early(COUNT(acts));
        break;
    case PART_PLACE:
        m->place = chance(40) ? 0 : often_early(COUNT(places));
        break;
    case PART_QUANTIFIER:
        draw_quantifier(m);
        break;
    default:
        m->adjective = chance(40) ? 0 : below(COUNT(adjectives));
        break;
    }
}

/* A sentence near `m`: one change, or two. */
static struct meaning vary(struct meaning m)
{
    struct meaning v;

    do {
        v = m;
        for (int left = chance(75) ? 1 : 2; left > 0; left--)
            change(&v, chance(ADJECTIVE_PERCENT) ? PART_ADJECTIVE : below(PART_ADJECTIVE));
    } while (is_odd(&v));
    return v;
}

/* --- files --- */

struct triple {
    char hypothesis[TEXT_BYTES];
    char premises[N_LABELS][TEXT_BYTES];
};

/* How many premises of a label have a negation. A negated premise hardly ever contradicts a negated
 * hypothesis nor entails one that is not, so the rates of the rest make up for it: of the premises
 * of every label as many are negated. */
static int negation_percent(enum label label, bool is_negated)
{
    if (label == NEUTRAL)
        return NEGATED_PREMISE_PERCENT;
    if ((label == CONTRADICTION) == is_negated)
        return 0;
    return NEGATED_PREMISE_PERCENT * 100 /
           (is_negated ? NEGATED_HYPOTHESES_PERCENT : 100 - NEGATED_HYPOTHESES_PERCENT);
}

/* One premise for each label. Returns false when this hypothesis has none for some label. */
static bool draw_triple(struct triple *out)
{
    struct meaning h = draw();

    say(&h, out->hypothesis);
    for (int label = 0; label < N_LABELS; label++) {
        bool wants_negation = chance(negation_percent((enum label)label, has_negation(&h)));
        int tries = 0;

        for (;; tries++) {
            struct meaning p = vary(h);

            if (tries == TRIES_MAX)
                return false;
            if (has_negation(&p) != wants_negation || label_of(&p, &h) != (enum label)label)
                continue;
            say(&p, out->premises[label]);
            if (strcmp(out->premises[label], out->hypothesis) != 0)
                break;
        }
    }
    return true;
}

static uint64_t hash_of(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* Enter the pairs of a triple into a set of hashes; false when one of them was there. (A false
 * alarm only costs a triple.) */
static bool is_new(uint64_t *seen, const struct triple *t)
{
    bool was_there = false;

    for (int label = 0; label < N_LABELS; label++) {
        uint64_t hash = hash_of(hash_of(HASH_START, t->premises[label]), t->hypothesis) | 1;
        size_t i = (size_t)(hash >> 32) % SLOTS;

        while (seen[i] != 0 && seen[i] != hash)
            i = (i + 1) % SLOTS;
        was_there |= seen[i] == hash;
        seen[i] = hash;
    }
    return !was_there;
}

static FILE *create(const char *folder, const char *file)
{
    char path[4096];
    FILE *out;

    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    out = fopen(path, "w");
    if (!out) {
        perror(path);
        exit(1);
    }
    return out;
}

static void finish(FILE *out, const char *file)
{
    bool failed = ferror(out) != 0;

    if (fclose(out) != 0 || failed) {
        perror(file);
        exit(1);
    }
}

/* Every hypothesis belongs to one of the two files. */
static bool is_for_dev(const char *hypothesis)
{
    return hash_of(HASH_START, hypothesis) % 8 == 0;
}

/* The columns of MNLI; the parses are left empty. A dev file has five votes instead of one. */
static void write_split(const char *folder, const char *file, int pairs, int votes, uint64_t *seen)
{
    FILE *out = create(folder, file);
    struct triple t;

    fputs("index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
          "sentence1_parse\tsentence2_parse\tsentence1\tsentence2",
          out);
    for (int v = 1; v <= votes; v++)
        fprintf(out, "\tlabel%d", v);
    fputs("\tgold_label\n", out);
    for (int i = 0; i < pairs;) {
        int first = below(N_LABELS);

        if (!draw_triple(&t) || is_for_dev(t.hypothesis) != (votes > 1))
            continue;
        if (!is_new(seen, &t))
            continue;
        for (int k = 0; k < N_LABELS && i < pairs; k++, i++) {
            int label = (first + k) % N_LABELS;

            fprintf(out, "%d\t%d\t%d%c\tgrammar\t\t\t\t\t%s\t%s", i, i / N_LABELS, i / N_LABELS,
                    label_names[label][0], t.premises[label], t.hypothesis);
            for (int v = 0; v <= votes; v++)
                fprintf(out, "\t%s", label_names[label]);
            fputc('\n', out);
        }
    }
    finish(out, file);
}

/* Special tokens, letters (so that no word is unknown), endings and stems. Many words of the
 * sentences are not here whole: "walking" is walk ##ing. */
static void write_vocab(const char *folder)
{
    static const char words[] =
        ". , ; : ' \" - ! ? ( ) 0 1 2 3 4 5 6 7 8 9 "
        "##s ##es ##ies ##y ##ing ##ed ##er ##en ##ren ##ful "
        "a an all some no not every most at least two three is are being by in the "
        "dog dogs hound cat cats bird birds horse pet animal animals woman women lad man men girl "
        "boy child kid adult person people anna mary tom paul small little big large happy cheer "
        "sad running walking dancing moving sleeping asleep sitting rest eating eaten reading "
        "read drinking drunk apples pears bread fruit food book letter tea coffee "
        "park garden street kitchen office school outside outdoors inside indoors";
    FILE *out = create(folder, "vocab.txt");

    fputs("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", out);
    for (int c = 'a'; c <= 'z'; c++)
        fprintf(out, "%c\n##%c\n", c, c);
    for (const char *p = words; *p; p++)
        fputc(*p == ' ' ? '\n' : *p, out);
    fputc('\n', out);
    finish(out, "vocab.txt");
}

static int number(char **argv, int argc, int i, int fallback)
{
    long n = i < argc ? strtol(argv[i], NULL, 10) : fallback;

    if (n >= 1 && n <= PAIRS_MAX)
        return (int)n;
    fprintf(stderr, "gen-nli: %s is not a number in 1..%d\n", argv[i], PAIRS_MAX);
    exit(2);
}

int main(int argc, char **argv)
{
    uint64_t *seen = calloc(SLOTS, sizeof *seen);
    int train;
    int dev;

    if (argc < 2 || argc > 5 || !seen) {
        fprintf(stderr, "usage: gen-nli OUTDIR [TRAIN_PAIRS [DEV_PAIRS [SEED]]]\n");
        return 2;
    }
    train = number(argv, argc, 2, 20001);
    dev = number(argv, argc, 3, 999);
    state = (uint64_t)number(argv, argc, 4, 1);
    write_split(argv[1], "train.tsv", train, 1, seen);
    write_split(argv[1], "dev_matched.tsv", dev, 5, seen);
    write_vocab(argv[1]); /* last: make takes it as the sign that all is there */
    free(seen);
    return 0;
}
