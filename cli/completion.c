#include "cli/completion.h"

#include <ctype.h>
#include <string.h>

#include "api/names.h"
#include "base/buf.h"

#define LIST_BYTES 1024 /* words, each with a space in front */

/* --- what the help says --- */

struct option {
    const char *text; /* "--follow" or "-f", not NUL-terminated */
    int len;
    bool has_value;
};

/* The option at the front of `text`; false: there is none. */
static bool read_option(const char *text, struct option *out)
{
    int n_dashes = (int)strspn(text, "-");
    int n = n_dashes;
    struct option other;

    while (islower((unsigned char)text[n]) || isupper((unsigned char)text[n]) ||
           (n > n_dashes && text[n] == '-'))
        n++;
    if (n_dashes < 1 || n_dashes > 2 || n == n_dashes || (n_dashes == 1 && n != 2))
        return false;
    *out = (struct option){.text = text, .len = n};
    if (strncmp(text + n, ", -", 3) == 0) /* "-o, --output json": two names of one option */
        out->has_value = read_option(text + n + 2, &other) && other.has_value;
    else /* "--tail N", but not "--measure NODE..."; other options are in brackets, and what
          * describes it is further away */
        out->has_value = text[n] == ' ' && !strchr(" [-", text[n + 1]) &&
                         strncmp(text + n + 1 + strcspn(text + n + 1, " .\n"), "...", 3) != 0;
    return true;
}

static void add_word(const char *word, int len, char list[static LIST_BYTES])
{
    char text[64];

    (void)snprintf(text, sizeof text, " %.*s ", len, word);
    text_add(list, LIST_BYTES, " ");
    if (!strstr(list, text))
        text_add(list, LIST_BYTES, "%.*s", len, word);
    else
        list[strlen(list) - 1] = '\0';
}

static void read_options(const char *text, char options[static LIST_BYTES],
                         char values[static LIST_BYTES])
{
    struct option option;

    for (const char *p = text; *p; p++) {
        if ((p > text && !strchr(" [|\n", p[-1])) || !read_option(p, &option))
            continue;
        add_word(option.text, option.len, options);
        if (option.has_value)
            add_word(option.text, option.len, values);
        p += option.len - 1;
    }
}

/* What its arguments are: a kind of object, "commands", or the words themselves. */
static void print_arguments(const char *usage, FILE *out)
{
    size_t n = islower((unsigned char)usage[strspn(usage, " ")]) ? strcspn(usage + 1, " ") : 0;

    if (strncmp(usage, " NAME", 5) == 0)
        (void)fprintf(out, " objects=skyjobs." NAMES_GROUP);
    else if (strstr(usage, "NODE..."))
        (void)fprintf(out, " objects=nodes");
    else if (strstr(usage, "[COMMAND]"))
        (void)fprintf(out, " choices=$verbs");
    if (n == 0)
        return;
    (void)fprintf(out, " choices='");
    for (size_t i = 1; i <= n; i++)
        (void)fputc(usage[i] == '|' ? ' ' : usage[i], out);
    (void)fprintf(out, "'");
}

/* A case for each command, which both shells read alike. */
static void print_cases(const struct command *commands, int n, FILE *out)
{
    for (int i = 0; i < n; i++) {
        char options[LIST_BYTES] = "";
        char values[LIST_BYTES] = "";

        read_options(commands[i].usage, options, values);
        read_options(commands[i].help, options, values);
        (void)fprintf(out, "    %s) flags='%s --help' values='%s '", commands[i].name, options,
                      values);
        print_arguments(commands[i].usage, out);
        (void)fprintf(out, " ;;\n");
    }
}

/* --- the scripts --- */

static void print_commands(const struct command *commands, int n, FILE *out)
{
    (void)fprintf(out, "    local verbs='");
    for (int i = 0; i < n; i++)
        (void)fprintf(out, "%s%s", i ? " " : "", commands[i].name);
    (void)fprintf(out, "'\n");
}

static const char bash_head[] =
    "#!/usr/bin/env bash\n"
    "# Printed by `kubectl-skyjob completion bash`: to be sourced, or in PATH as\n"
    "# kubectl_complete-skyjob, which kubectl runs.\n"
    "_kubectl_skyjob_names() { # RESOURCE, in the cluster that the command line names\n"
    "    local i where=(--request-timeout=5s)\n"
    "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
    "        case ${COMP_WORDS[i]} in\n"
    "        -n | --namespace | --context | --kubeconfig) where+=(\"${COMP_WORDS[i]}\" "
    "\"${COMP_WORDS[++i]}\") ;;\n"
    "        esac\n"
    "    done\n"
    "    kubectl get \"$1\" -o name \"${where[@]}\" 2>/dev/null | sed 's|.*/||'\n"
    "}\n"
    "_kubectl_skyjob() {\n"
    "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local flags='' values='' objects='' choices=''\n";
static const char bash_tail[] =
    "    esac\n"
    "    COMPREPLY=()\n"
    "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
    "        choices=$verbs\n"
    "    elif [ \"$before\" = -n ] || [ \"$before\" = --namespace ]; then\n"
    "        choices=$(_kubectl_skyjob_names namespaces)\n"
    "    elif [[ $values == *\" $before \"* ]]; then\n"
    "        return # bash has the names of files\n"
    "    elif [[ $current == -* ]]; then\n"
    "        choices=$flags\n"
    "    elif [ -n \"$objects\" ]; then\n"
    "        choices=$(_kubectl_skyjob_names \"$objects\")\n"
    "    fi\n"
    "    compopt +o default 2>/dev/null # it fails where kubectl asks\n"
    "    COMPREPLY=($(compgen -W \"$choices\" -- \"$current\"))\n"
    "}\n"
    "if [ \"${BASH_SOURCE[0]}\" != \"$0\" ]; then\n"
    "    complete -o default -F _kubectl_skyjob kubectl-skyjob\n"
    "else\n"
    "    COMP_WORDS=(kubectl-skyjob \"$@\") COMP_CWORD=$#\n"
    "    _kubectl_skyjob\n"
    "    printf '%s\\n' \"${COMPREPLY[@]}\" :0 # without a choice: the names of files\n"
    "fi\n";

/* zsh has arrays of its own by the names words, options and commands. */
static const char zsh_head[] =
    "#compdef kubectl-skyjob\n"
    "# Printed by `kubectl-skyjob completion zsh`: to be sourced, or in $fpath as\n"
    "# _kubectl_skyjob.\n"
    "_kubectl_skyjob_names() { # RESOURCE, in the cluster that the command line names\n"
    "    local i\n"
    "    local -a where=(--request-timeout=5s)\n"
    "    for ((i = 3; i < CURRENT; i++)); do\n"
    "        case ${words[i]} in\n"
    "        -n | --namespace | --context | --kubeconfig) where+=(\"${words[i]}\" "
    "\"${words[++i]}\") ;;\n"
    "        esac\n"
    "    done\n"
    "    kubectl get \"$1\" -o name \"${where[@]}\" 2>/dev/null | sed 's|.*/||'\n"
    "}\n"
    "_kubectl_skyjob() {\n"
    "    local before=${words[CURRENT-1]}\n"
    "    local flags='' values='' objects='' choices=''\n";
static const char zsh_tail[] = "    esac\n"
                               "    if ((CURRENT == 2)); then\n"
                               "        choices=$verbs\n"
                               "    elif [[ $before == -n || $before == --namespace ]]; then\n"
                               "        choices=$(_kubectl_skyjob_names namespaces)\n"
                               "    elif [[ $values == *\" $before \"* ]]; then\n"
                               "        _files\n"
                               "        return\n"
                               "    elif [[ $PREFIX == -* ]]; then\n"
                               "        choices=$flags\n"
                               "    elif [[ -n $objects ]]; then\n"
                               "        choices=$(_kubectl_skyjob_names \"$objects\")\n"
                               "    fi\n"
                               "    compadd -- ${=choices}\n"
                               "}\n"
                               "if [[ ${funcstack[1]} == _kubectl_skyjob ]]; then\n"
                               "    _kubectl_skyjob\n"
                               "else\n"
                               "    compdef _kubectl_skyjob kubectl-skyjob\n"
                               "fi\n";

enum err_code completion_print(const char *shell, const struct command *commands, int n, FILE *out,
                               struct err *err)
{
    bool is_bash = strcmp(shell, "bash") == 0;

    if (!is_bash && strcmp(shell, "zsh") != 0)
        return err_set(err, ERR_INVALID, "completion: must be bash or zsh, not \"%.40s\"", shell);
    (void)fputs(is_bash ? bash_head : zsh_head, out);
    print_commands(commands, n, out);
    (void)fprintf(out, "    case ${%s} in\n", is_bash ? "COMP_WORDS[1]" : "words[2]");
    print_cases(commands, n, out);
    (void)fputs(is_bash ? bash_tail : zsh_tail, out);
    return fflush(out) == 0 && !ferror(out) ? ERR_OK
                                            : err_set(err, ERR_IO, "cannot write the script");
}
