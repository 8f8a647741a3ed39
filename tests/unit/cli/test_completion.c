#include "cli/completion.h"

#include <sys/stat.h>

#include "scratch.h"
#include "suite.h"

#define ANSWER_BYTES 4096

static const struct command commands[] = {
    {"run", NULL, " -f FILE [OPTION]...",
     "Train, as run --fast does.\n"
     "  --data DIR, --model DIR  use these\n"
     "  --resume                 go on from the newest\n"
     "  -o, --output json        for programs\n"},
    {"resume", NULL, " NAME [-n NAMESPACE] [--wait [--timeout SECONDS]]", "Go on.\n"},
    {"nodes", NULL, " [--context NAME]\n  x nodes --measure NODE...|--all",
     "Show half-known nodes.\n"},
    {"completion", NULL, " bash|zsh", "Print a script.\n"},
    {"help", NULL, " [COMMAND]", "Print help.\n"},
};
#define N_COMMANDS ((int)(sizeof commands / sizeof commands[0]))

/* Prints what it was asked, as names. */
static const char kubectl[] = "#!/bin/sh\n"
                              "echo \"kind/$2\"\n"
                              "shift 4\n"
                              "for a; do echo \"kind/arg$a\"; done\n";

static const char *print(const char *shell)
{
    FILE *out = fopen(scratch_path("script"), "w");

    assert_non_null(out);
    assert_int_equal(completion_print(shell, commands, N_COMMANDS, out, NULL), ERR_OK);
    assert_int_equal(fclose(out), 0);
    return scratch_path("script");
}

static int prepare(void **state)
{
    if (scratch_make(state) != 0 || chmod(scratch_text("kubectl", kubectl), 0755) != 0)
        return -1;
    return setenv("PATH_OF_TEST", scratch, 1);
}

static void ask(const char *program, char out[static ANSWER_BYTES])
{
    char command[ANSWER_BYTES];
    FILE *from;
    size_t n;

    (void)snprintf(command, sizeof command,
                   "cd $PATH_OF_TEST && PATH=$PATH_OF_TEST:$PATH && export PATH && %s", program);
    from = popen(command, "r");
    assert_non_null(from);
    n = fread(out, 1, ANSWER_BYTES - 1, from);
    out[n] = '\0';
    assert_int_equal(pclose(from), 0);
}

/* --- bash --- */

struct row {
    const char *name;
    const char *line; /* after kubectl-skyjob; the last word is to be completed */
    const char *want;
};

static struct row rows[] = {
    {"completion_of_a_command", "re", "resume\n"},
    {"completion_of_nothing_is_all_commands", "''", "run resume nodes completion help\n"},
    {"completion_of_an_option", "run --re", "--resume\n"},
    {"completion_of_all_options", "run -",
     "-f --fast --data --model --resume -o --output --help\n"},
    {"completion_of_options_in_brackets", "resume --", "--wait --timeout --help\n"},
    {"completion_of_a_file_is_left_to_bash", "run -f ''", "\n"},
    {"completion_of_a_value_is_left_to_bash", "run --output ''", "\n"},
    {"completion_behind_an_option_without_a_value", "completion --help z", "zsh\n"},
    {"completion_of_a_job", "resume sky", "skyjobs.skyjob.dev\n"},
    {"completion_of_a_job_in_another_namespace", "resume -n team a",
     "arg--request-timeout=5s arg-n argteam\n"},
    {"completion_of_a_namespace", "resume -n name", "namespaces\n"},
    {"completion_of_a_node", "nodes --measure no", "nodes\n"},
    {"completion_of_a_word", "completion b", "bash\n"},
    {"completion_of_a_command_to_explain", "help n", "nodes\n"},
    {"completion_of_an_unknown_command_is_empty", "walk ''", "\n"},
};

static void check_row(void **state)
{
    const struct row *row = *state;
    char program[ANSWER_BYTES];
    char got[ANSWER_BYTES];

    (void)print("bash");
    (void)snprintf(program, sizeof program,
                   "bash -c 'source ./script; COMP_WORDS=(kubectl-skyjob \"$@\"); COMP_CWORD=$#; "
                   "_kubectl_skyjob; echo \"${COMPREPLY[*]}\"' x %s",
                   row->line);
    ask(program, got);
    assert_string_equal(got, row->want);
}

static void completion_is_registered_when_the_script_is_sourced(void **state)
{
    char got[ANSWER_BYTES];

    (void)state;
    (void)print("bash");
    ask("bash -c 'source ./script; complete -p kubectl-skyjob'", got);
    assert_string_equal(got, "complete -o default -F _kubectl_skyjob kubectl-skyjob\n");
}

static void completion_is_printed_when_the_script_is_run(void **state)
{
    char got[ANSWER_BYTES];

    (void)state;
    (void)print("bash");
    ask("bash ./script res", got);
    assert_string_equal(got, "resume\n:0\n");
    ask("bash ./script run -f ''", got);
    assert_string_equal(got, ":0\n");
}

/* --- others --- */

static void completion_for_zsh_is_valid_where_there_is_a_zsh(void **state)
{
    char got[ANSWER_BYTES];

    (void)state;
    (void)print("zsh");
    ask("if command -v zsh >/dev/null; then zsh -n ./script; fi", got);
    assert_string_equal(got, "");
}

static void completion_for_other_shells_is_refused(void **state)
{
    struct err err = {.text = ""};

    (void)state;
    assert_int_equal(completion_print("fish", commands, N_COMMANDS, stdout, &err), ERR_INVALID);
    assert_string_equal(err.text, "completion: must be bash or zsh, not \"fish\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completion_is_registered_when_the_script_is_sourced),
        cmocka_unit_test(completion_is_printed_when_the_script_is_run),
        cmocka_unit_test(completion_for_zsh_is_valid_where_there_is_a_zsh),
        cmocka_unit_test(completion_for_other_shells_is_refused),
    };
    struct suite suite = {.n = 0};

    SUITE_ROWS(&suite, rows, check_row);
    SUITE_TESTS(&suite, tests);
    return suite_run(&suite, "completion", prepare, scratch_remove);
}
