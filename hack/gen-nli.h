/* gen-nli.h - what sentences are made of and what they mean: shared by gen-nli's two files.
 *
 * The lexicon gives every word as a set of what it can stand for. Common words come first: they
 * are drawn more often than those at the end of a table.
 */
#ifndef GEN_NLI_H
#define GEN_NLI_H

#include <stdbool.h>
#include <stddef.h>

enum { DOG = 1, CAT = 2, HORSE = 4, BIRD = 8, WOMAN = 16, MAN = 32, GIRL = 64, BOY = 128 };
enum { ANNA = 256, MARY = 512, TOM = 1024, PAUL = 2048, N_KINDS = 12 };
#define WOMEN   (WOMAN | ANNA | MARY)
#define MEN     (MAN | TOM | PAUL)
#define PEOPLE  (WOMEN | MEN | GIRL | BOY)
#define ANIMALS (DOG | CAT | HORSE | BIRD)

struct noun {
    const char *one, *many; /* many NULL: a name */
    unsigned kinds;
};
static const struct noun nouns[] = {
    {"dog", "dogs", DOG},        {"man", "men", MEN},          {"animal", "animals", ANIMALS},
    {"woman", "women", WOMEN},   {"person", "people", PEOPLE}, {"cat", "cats", CAT},
    {"bird", "birds", BIRD},     {"lady", "ladies", WOMEN},    {"child", "children", GIRL | BOY},
    {"girl", "girls", GIRL},     {"boy", "boys", BOY},         {"adult", "adults", WOMEN | MEN},
    {"hound", "hounds", DOG},    {"pet", "pets", DOG | CAT},   {"horse", "horses", HORSE},
    {"kid", "kids", GIRL | BOY}, {"Anna", NULL, ANNA},         {"Tom", NULL, TOM},
    {"Mary", NULL, MARY},        {"Paul", NULL, PAUL},
};
#define N_COMMON 16 /* nouns before the names */

/* An adjective rules out one value of one attribute: small or big, happy or sad. */
struct adjective {
    const char *word;
    unsigned sizes, moods;
};
static const struct adjective adjectives[] = {
    {"", 3, 3},      {"small", 1, 3}, {"little", 1, 3},   {"big", 2, 3},
    {"large", 2, 3}, {"happy", 3, 1}, {"cheerful", 3, 1}, {"sad", 3, 2},
};

enum { RUN = 1, WALK = 2, DANCE = 4, SLEEP = 8, SIT = 16, APPLES = 32, PEARS = 64, BREAD = 128 };
enum { BOOKS = 256, LETTERS = 512, TEA = 1024, COFFEE = 2048, N_ACTS = 12 };

struct act {
    const char *verb, *passive, *object; /* passive NULL: it has no object */
    unsigned acts;
    bool people_only;
};
static const struct act acts[] = {
    {"running", NULL, "", RUN, false},
    {"sleeping", NULL, "", SLEEP, false},
    {"moving", NULL, "", RUN | WALK | DANCE, false},
    {"eating", "eaten", "apples", APPLES, false},
    {"walking", NULL, "", WALK, false},
    {"sitting", NULL, "", SIT, false},
    {"eating", "eaten", "fruit", APPLES | PEARS, false},
    {"asleep", NULL, "", SLEEP, false},
    {"eating", "eaten", "pears", PEARS, false},
    {"resting", NULL, "", SLEEP | SIT, false},
    {"reading", NULL, "", BOOKS | LETTERS, true},
    {"reading", "read", "books", BOOKS, true},
    {"dancing", NULL, "", DANCE, false},
    {"eating", "eaten", "bread", BREAD, false},
    {"eating", "eaten", "food", APPLES | PEARS | BREAD, false},
    {"drinking", NULL, "", TEA | COFFEE, true},
    {"drinking", "drunk", "tea", TEA, true},
    {"reading", "read", "letters", LETTERS, true},
    {"drinking", "drunk", "coffee", COFFEE, true},
};

enum { N_PLACES = 6, ANYWHERE = 63 };
struct place {
    const char *phrase;
    unsigned places;
};
static const struct place places[] = {
    {"", ANYWHERE},  {"in the park", 1},   {"outside", 7},        {"in the kitchen", 8},
    {"inside", 56},  {"in the garden", 2}, {"in the office", 16}, {"outdoors", 7},
    {"indoors", 56}, {"in the street", 4}, {"at school", 32},
};

enum quantifier { ALL, SOME, NO, NOT_ALL, MOST, TWO, THREE, NAME, N_QUANTIFIERS };

struct meaning {
    enum quantifier quantifier; /* TWO and THREE: at least so many */
    bool is_negated;            /* of the activity */
    int noun, adjective, act, place;
};

enum label { CONTRADICTION, ENTAILMENT, NEUTRAL, N_LABELS };

/* What follows from a premise for a hypothesis; N_LABELS when the premise cannot be true. */
enum label label_of(const struct meaning *premise, const struct meaning *hypothesis);

#endif
