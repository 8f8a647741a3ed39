#include "base/families.h"

void families_begin(struct families *f, const char *name, const char *type, const char *help)
{
    f->name = name;
    if (f->rc == ERR_OK)
        f->rc = buf_addf(f->out, f->err, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void families_add(struct families *f, const char *suffix, double value)
{
    if (f->rc == ERR_OK)
        f->rc = buf_addf(f->out, f->err, "%s%s %.15g\n", f->name, suffix, value);
}

void families_add_with(struct families *f, const char *suffix, const char *label, const char *text,
                       double value)
{
    if (f->rc == ERR_OK)
        f->rc = buf_addf(f->out, f->err, "%s%s{%s=\"%s\"} %.15g\n", f->name, suffix, label, text,
                         value);
}

void families_one(struct families *f, const char *name, const char *type, const char *help,
                  double value)
{
    families_begin(f, name, type, help);
    families_add(f, "", value);
}
