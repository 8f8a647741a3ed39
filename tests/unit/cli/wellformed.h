/* A strict little checker of markup: every element is closed in order, every attribute is quoted
 * and occurs once, every "&" begins a known reference. A style sheet has no "<". */
#ifndef TEST_WELLFORMED_H
#define TEST_WELLFORMED_H

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define WELLFORMED_DEPTH_MAX 32
#define WELLFORMED_NAMES_MAX 16

struct wellformed_name {
    const char *text;
    size_t n;
};

static inline size_t wellformed_word(const char *s)
{
    size_t n = 0;

    while (isalnum((unsigned char)s[n]) || s[n] == '-' || s[n] == ':')
        n++;
    return n;
}

static inline bool wellformed_reference(const char *s)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strncmp(s, known[i], strlen(known[i])) == 0)
            return true;
    return false;
}

static inline bool wellformed_is_same(struct wellformed_name a, struct wellformed_name b)
{
    return a.n == b.n && memcmp(a.text, b.text, a.n) == 0;
}

/* The attributes of a tag, up to ">" or "/>"; NULL: they are wrong. */
static inline const char *wellformed_attributes(const char *s)
{
    struct wellformed_name seen[WELLFORMED_NAMES_MAX];
    int n_seen = 0;

    while (*s == ' ') {
        struct wellformed_name name = {s + 1, wellformed_word(s + 1)};

        if (name.n == 0 || name.text[name.n] != '=' || name.text[name.n + 1] != '"' ||
            n_seen == WELLFORMED_NAMES_MAX)
            return NULL;
        for (int i = 0; i < n_seen; i++)
            if (wellformed_is_same(seen[i], name))
                return NULL;
        seen[n_seen++] = name;
        for (s = name.text + name.n + 2; *s != '"'; s++)
            if (*s == '\0' || *s == '<' || (*s == '&' && !wellformed_reference(s)))
                return NULL;
        s++;
    }
    return s;
}

/* NULL if `text` is well formed, else the place where it is not. */
static inline const char *wellformed_error(const char *text)
{
    static const char doctype[] = "<!DOCTYPE html>\n";
    struct wellformed_name open[WELLFORMED_DEPTH_MAX];
    int depth = 0;

    if (strncmp(text, doctype, strlen(doctype)) == 0)
        text += strlen(doctype);
    for (const char *s = text; *s;) {
        bool closes = s[0] == '<' && s[1] == '/';
        struct wellformed_name name = {s + 1 + closes, 0};
        const char *end;

        if (*s != '<') {
            if ((unsigned char)*s < ' ' && *s != '\n' && *s != '\t')
                return s;
            if (*s == '>' || (*s == '&' && !wellformed_reference(s)))
                return s;
            s++;
            continue;
        }
        name.n = wellformed_word(name.text);
        end = name.n > 0 ? wellformed_attributes(name.text + name.n) : NULL;
        if (!end)
            return s;
        if (closes) {
            if (depth == 0 || *end != '>' || !wellformed_is_same(open[--depth], name))
                return s;
        } else if (*end == '>') {
            if (depth == WELLFORMED_DEPTH_MAX)
                return s;
            open[depth++] = name;
        } else if (end[0] == '/' && end[1] == '>') {
            end++;
        } else {
            return s;
        }
        s = end + 1;
    }
    return depth == 0 ? NULL : open[depth - 1].text;
}

static inline void assert_wellformed(const char *text)
{
    const char *at = wellformed_error(text);

    if (at)
        fail_msg("not well formed at byte %zu: %.80s", (size_t)(at - text), at);
}

#endif
