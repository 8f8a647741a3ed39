/* gen-nli-truth.c - does a hypothesis follow from a premise? Asked of every small world.
 *
 * A world is a handful of individuals, each of one kind, size and mood, doing one thing in one
 * place. The premise entails the hypothesis when the hypothesis holds in every world where the
 * premise does, contradicts it when it holds in none of them, and else is neutral. Speakers only
 * talk of kinds that exist, and a name is one individual.
 */
#include "gen-nli.h"

#define WORLD_MAX 6 /* individuals; with 8 no label of 100,000 pairs is another one */

/* Does the sentence hold when `yes` of its individuals do it and `no` do not? */
static bool holds(enum quantifier quantifier, bool is_negated, int yes, int no)
{
    int hits = is_negated ? no : yes;
    int misses = is_negated ? yes : no;

    switch (quantifier) {
    case ALL:
    case NAME:
        return misses == 0;
    case SOME:
        return hits > 0;
    case NO:
        return hits == 0;
    case NOT_ALL:
        return misses > 0;
    case MOST:
        return hits > misses;
    case TWO:
        return hits >= 2;
    default:
        return hits >= 3;
    }
}

/* Which sorts of individual can there be? Bit 8 a + 4 b + 2 c + d: in the kind of the premise (a),
 * of the hypothesis (b), doing what the premise says (c), the hypothesis says (d). */
static unsigned possible_sorts(const struct meaning *p, const struct meaning *h)
{
    unsigned kinds = 0;
    unsigned doings = 0;
    unsigned sorts = 0;

    for (int i = 0; i < N_KINDS * 4; i++) {
        unsigned kind = 1u << (i / 4);
        unsigned size = 1u << (i & 1);
        unsigned mood = 1u << (i >> 1 & 1);
        unsigned a = nouns[p->noun].kinds & kind && adjectives[p->adjective].sizes & size &&
                     adjectives[p->adjective].moods & mood;
        unsigned b = nouns[h->noun].kinds & kind && adjectives[h->adjective].sizes & size &&
                     adjectives[h->adjective].moods & mood;

        kinds |= 1u << (2 * a + b);
    }
    for (int i = 0; i < N_ACTS * N_PLACES; i++) {
        unsigned act = 1u << (i / N_PLACES);
        unsigned place = 1u << (i % N_PLACES);
        unsigned c = acts[p->act].acts & act && places[p->place].places & place;
        unsigned d = acts[h->act].acts & act && places[h->place].places & place;

        doings |= 1u << (2 * c + d);
    }
    for (unsigned i = 4; i < 16; i++) { /* those in neither kind make no difference */
        if (kinds >> (i >> 2) & 1 && doings >> (i & 3) & 1)
            sorts |= 1u << i;
    }
    return sorts;
}

struct counts {
    int premise_yes, premise_no, hypothesis_yes, hypothesis_no;
};

struct search {
    const struct meaning *p, *h;
    unsigned sorts;
    bool can_hold, can_fail; /* the hypothesis, in worlds where the premise holds */
};

static void look_at(struct search *s, struct counts n)
{
    int n_p = n.premise_yes + n.premise_no;
    int n_h = n.hypothesis_yes + n.hypothesis_no;

    if (n_p == 0 || n_h == 0 || (s->p->quantifier == NAME && n_p > 1) ||
        (s->h->quantifier == NAME && n_h > 1) ||
        !holds(s->p->quantifier, s->p->is_negated, n.premise_yes, n.premise_no))
        return;
    if (holds(s->h->quantifier, s->h->is_negated, n.hypothesis_yes, n.hypothesis_no))
        s->can_hold = true;
    else
        s->can_fail = true;
}

/* Every world of at most `left` more individuals of sort `sort` or later. */
static void search(struct search *s, unsigned sort, int left, struct counts n)
{
    look_at(s, n);
    for (; left > 0 && sort < 16; sort++) {
        struct counts with = n;

        if (!(s->sorts >> sort & 1))
            continue;
        with.premise_yes += sort >> 3 & 1 && sort >> 1 & 1;
        with.premise_no += sort >> 3 & 1 && !(sort >> 1 & 1);
        with.hypothesis_yes += sort >> 2 & 1 && sort & 1;
        with.hypothesis_no += sort >> 2 & 1 && !(sort & 1);
        search(s, sort, left - 1, with);
    }
}

enum label label_of(const struct meaning *p, const struct meaning *h)
{
    static signed char known[1 << 8]
                            [1 << 13]; /* label + 1, by (quantifiers, negations) and sorts */
    struct search s = {.p = p, .h = h, .sorts = possible_sorts(p, h)};
    unsigned row = (unsigned)p->quantifier << 5 | (unsigned)h->quantifier << 2 |
                   (unsigned)p->is_negated << 1 | h->is_negated;
    signed char *label = &known[row][s.sorts >> 4];

    if (*label == 0) {
        search(&s, 4, WORLD_MAX, (struct counts){0});
        *label = (signed char)(1 + (!s.can_hold && !s.can_fail ? N_LABELS
                                    : !s.can_fail              ? ENTAILMENT
                                    : !s.can_hold              ? CONTRADICTION
                                                               : NEUTRAL));
    }
    return (enum label)(*label - 1);
}
