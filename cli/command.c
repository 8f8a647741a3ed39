#include "cli/command.h"

#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The only state in this folder: a signal handler can reach nothing else. */
static volatile sig_atomic_t seen_signal;
static volatile sig_atomic_t wants_checkpoint;

bool command_options(int argc, char **argv, const struct command_option *options)
{
    enum { FIRST = 256 }; /* what getopt_long() returns for options[0], beyond all letters */
    struct option names[COMMAND_OPTIONS_MAX + 1] = {{0}};
    char letters[2 * COMMAND_OPTIONS_MAX + 1] = "";
    int n_letters = 0;
    int c;

    for (int i = 0; options[i].name; i++) {
        bool has_value = options[i].value != NULL;

        names[i] = (struct option){.name = options[i].name,
                                   .has_arg = has_value ? required_argument : no_argument,
                                   .val = FIRST + i};
        if (options[i].letter)
            letters[n_letters++] = options[i].letter;
        if (options[i].letter && has_value)
            letters[n_letters++] = ':';
    }
    while ((c = getopt_long(argc, argv, letters, names, NULL)) != -1) {
        int i = c - FIRST;

        if (c == '?')
            return false;
        for (int k = 0; c < FIRST && options[k].name; k++)
            if (options[k].letter == c)
                i = k;
        if (options[i].n && *options[i].n == COMMAND_REPEATS_MAX) {
            (void)fprintf(stderr, "%s: --%s is given more than %d times\n", argv[0],
                          options[i].name, COMMAND_REPEATS_MAX);
            return false;
        }
        if (options[i].value)
            options[i].value[options[i].n ? (*options[i].n)++ : 0] = optarg;
        else
            *options[i].is_set = true;
    }
    return true;
}

enum err_code command_number(const char *option, const char *text, double min, double max,
                             double *inout, struct err *err)
{
    char *end;
    double value;

    if (!text)
        return ERR_OK;
    value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= min && value <= max))
        return err_set(err, ERR_INVALID,
                       "--%s: must be a number from %.10g to %.10g, not \"%.40s\"", option, min,
                       max, text);
    *inout = value;
    return ERR_OK;
}

enum err_code command_count(const char *option, const char *text, int min, int max, int *inout,
                            struct err *err)
{
    double value = *inout;
    enum err_code rc = command_number(option, text, min, max, &value, err);

    if (rc == ERR_OK && value != floor(value))
        return err_set(err, ERR_INVALID, "--%s: must be a whole number, not \"%.40s\"", option,
                       text);
    if (rc == ERR_OK)
        *inout = (int)value;
    return rc;
}

int command_failed(const struct err *err)
{
    (void)fflush(stdout); /* so that it is read first */
    (void)fprintf(stderr, "kubectl-skyjob: %s\n", err->text);
    if (err->code == ERR_GONE && interrupt_seen())
        return 128 + seen_signal;
    return err->code == ERR_INVALID || err->code == ERR_NOT_FOUND ? EXIT_CONFIG : EXIT_FAILED;
}

int command_usage(const char *name)
{
    (void)fprintf(stderr, "kubectl-skyjob: see `kubectl-skyjob help %s`\n", name);
    return EXIT_CONFIG;
}

static void note(int sig)
{
    seen_signal = sig;
}

void interrupt_catch(void)
{
    struct sigaction a = {.sa_handler = note, .sa_flags = (int)SA_RESETHAND};

    (void)sigaction(SIGINT, &a, NULL);
    (void)sigaction(SIGTERM, &a, NULL);
    (void)sigaction(SIGHUP, &a, NULL);
}

bool interrupt_seen(void)
{
    return seen_signal != 0;
}

bool interrupt_pause(void)
{
    const struct timespec pause = {.tv_sec = 1};

    if (!interrupt_seen())
        (void)nanosleep(&pause, NULL);
    return interrupt_seen();
}

static void note_checkpoint(int sig)
{
    (void)sig;
    wants_checkpoint = 1;
}

void checkpoint_catch(void)
{
    struct sigaction a = {.sa_handler = note_checkpoint, .sa_flags = SA_RESTART};

    (void)sigaction(SIGUSR1, &a, NULL);
}

bool checkpoint_take(void)
{
    bool was_asked = wants_checkpoint;

    wants_checkpoint = 0;
    return was_asked;
}

enum err_code connection_open(const char *kubeconfig, const char *context, struct connection *out,
                              struct err *err)
{
    struct kube_options how = {.user_agent = "kubectl-skyjob"};
    struct kube_config config = {.server = NULL};
    enum err_code rc = kube_config_load(kubeconfig, context, &config, err);

    *out = (struct connection){.http = NULL};
    if (rc == ERR_OK)
        rc = http_new(&out->http, err);
    if (rc == ERR_OK)
        rc = kube_client_new(out->http, &config, &how, &out->client, err);
    kube_config_deinit(&config);
    return rc;
}

void connection_close(struct connection *c)
{
    kube_client_free(c->client);
    http_free(c->http);
    *c = (struct connection){.http = NULL};
}
