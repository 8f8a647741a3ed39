/* What is left of checkpoints when the power fails, and when a call to the file system does.
 *
 * The calls that write are recorded (the linker's --wrap) while two stages write one checkpoint
 * after the other and old ones are removed. After each call the power may fail. The folders are
 * then built anew as the disk may have them, and the newest checkpoint that was complete must be
 * found and read, and nothing that is found may be a mix.
 *
 * The model of the disk:
 * - What a file has got since it was last synced is lost, torn in the middle, zeroed or kept, for
 *   each file on its own.
 * - Each entry of a folder that was made, renamed or removed since the folder was last synced is so
 *   on the disk or not, for each on its own, in any combination as long as there are not more than
 *   UNSYNCED_MAX of them. A rename is done or not done. A synced file whose entry is lost is lost.
 * - What was synced stays. Calls of the two stages are made in one order, not in all that there
 * are, and a call has either happened or not.
 */
#include "files/store.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "checkpoints.h"
#include "scratch.h"

#define OPS_MAX      1000
#define INODES_MAX   100
#define FDS_MAX      64
#define NAME_BYTES   64
#define UNSYNCED_MAX 8
#define FILES_MAX    3 /* that are not synced at the same time */

/* --- the record --- */

enum op_kind {
    OP_LINK,   /* a new file or folder */
    OP_UNLINK, /* of either */
    OP_RENAME,
    OP_WRITE,
    OP_SYNC,
};

struct op {
    enum op_kind kind;
    int folder; /* inode that has the entry */
    int inode;
    char name[NAME_BYTES];
    char to[NAME_BYTES];
    size_t n_bytes;
};

/* Inode 0 is the folder in which all happens. */
struct inode {
    bool is_folder;
    struct buf data;
};

struct entry {
    int folder;
    int inode;
    char name[NAME_BYTES];
};

struct tree {
    int n;
    struct entry entries[INODES_MAX];
};

static struct {
    bool is_on;
    int n_calls;   /* that may fail */
    int fail_at;   /* the number of the call; 0: none */
    bool is_full;  /* from then on only files can be removed */
    size_t n_root; /* bytes of the root's path */
    char root[PATH_MAX];
    int n_ops;
    struct op ops[OPS_MAX];
    int n_inodes;
    struct inode inodes[INODES_MAX];
    int of_fd[FDS_MAX];
    struct tree live;
} disk;

static struct entry *tree_find(struct tree *t, int folder, const char *name)
{
    for (int i = 0; i < t->n; i++)
        if (t->entries[i].folder == folder && strcmp(t->entries[i].name, name) == 0)
            return &t->entries[i];
    return NULL;
}

static void tree_remove(struct tree *t, int folder, const char *name)
{
    struct entry *e = tree_find(t, folder, name);

    if (e)
        *e = t->entries[--t->n];
}

static void tree_set(struct tree *t, int folder, const char *name, int inode)
{
    tree_remove(t, folder, name);
    assert_true(t->n < INODES_MAX);
    t->entries[t->n] = (struct entry){.folder = folder, .inode = inode};
    memcpy(t->entries[t->n++].name, name, strlen(name) + 1);
}

static void tree_apply(struct tree *t, const struct op *op)
{
    if (op->kind == OP_UNLINK || op->kind == OP_RENAME)
        tree_remove(t, op->folder, op->name);
    if (op->kind == OP_LINK || op->kind == OP_RENAME)
        tree_set(t, op->folder, op->kind == OP_LINK ? op->name : op->to, op->inode);
}

/* The entry's folder, and its name in `out`; -1: it is not on the disk. */
static int split(const char *path, char out[static NAME_BYTES])
{
    int folder = 0;

    if (strncmp(path, disk.root, disk.n_root) != 0)
        return -1;
    path += disk.n_root;
    out[0] = '\0';
    while (*path == '/') {
        size_t n = strcspn(++path, "/");
        struct entry *e;

        if (out[0]) {
            e = tree_find(&disk.live, folder, out);
            if (!e)
                return -1;
            folder = e->inode;
        }
        assert_true(n < NAME_BYTES);
        (void)snprintf(out, NAME_BYTES, "%.*s", (int)n, path);
        path += n;
    }
    return folder;
}

static void record(struct op op)
{
    assert_true(disk.n_ops < OPS_MAX);
    disk.ops[disk.n_ops++] = op;
    tree_apply(&disk.live, &op);
}

static void record_entry(enum op_kind kind, const char *path, const char *to, bool is_folder)
{
    struct op op = {.kind = kind};
    struct entry *e;

    op.folder = split(path, op.name);
    if (!disk.is_on || op.folder < 0)
        return;
    if (to)
        assert_int_equal(split(to, op.to), op.folder);
    e = tree_find(&disk.live, op.folder, op.name);
    if (kind == OP_LINK) {
        assert_null(e);
        assert_true(disk.n_inodes < INODES_MAX);
        op.inode = disk.n_inodes++;
        disk.inodes[op.inode] =
            (struct inode){.is_folder = is_folder, .data = {.max = (size_t)1 << 20}};
    } else {
        assert_non_null(e);
        op.inode = e->inode;
    }
    record(op);
}

/* --- the calls --- */

int __wrap_open(const char *path, int flags, ...);
int __real_open(const char *path, int flags, ...);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __real_write(int fd, const void *bytes, size_t n);
int __wrap_fsync(int fd);
int __real_fsync(int fd);
int __wrap_rename(const char *from, const char *to);
int __real_rename(const char *from, const char *to);
int __wrap_mkdir(const char *path, mode_t mode);
int __real_mkdir(const char *path, mode_t mode);
int __wrap_unlink(const char *path);
int __real_unlink(const char *path);
int __wrap_rmdir(const char *path);
int __real_rmdir(const char *path);

/* Is this the call that fails? */
static bool fails(bool is_removal)
{
    int n = ++disk.n_calls;
    bool is_it = disk.is_full ? n >= disk.fail_at && !is_removal : n == disk.fail_at;

    if (is_it)
        errno = ENOSPC;
    return is_it;
}

int __wrap_open(const char *path, int flags, ...)
{
    bool is_new = flags & O_CREAT && access(path, F_OK) != 0;
    char name[NAME_BYTES];
    struct entry *e;
    int folder;
    int fd;

    if (flags & O_CREAT && fails(false))
        return -1;
    fd = __real_open(path, flags, 0644);
    if (fd < 0)
        return fd;
    if (is_new)
        record_entry(OP_LINK, path, NULL, false);
    if (disk.is_on && (folder = split(path, name)) >= 0) {
        assert_true(fd < FDS_MAX);
        e = tree_find(&disk.live, folder, name);
        disk.of_fd[fd] = e ? e->inode : 0;
        assert_true(e || name[0] == '\0');
    }
    return fd;
}

ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
    struct op op = {.kind = OP_WRITE, .n_bytes = n};

    if (fd == STDERR_FILENO)
        return __real_write(fd, bytes, n);
    if (fails(false))
        return -1;
    if (disk.is_on) {
        op.inode = disk.of_fd[fd];
        assert_int_equal(buf_add(&disk.inodes[op.inode].data, bytes, n, NULL), ERR_OK);
        record(op);
    }
    return __real_write(fd, bytes, n);
}

/* Nothing here has to survive the test. */
int __wrap_fsync(int fd)
{
    if (fails(false))
        return -1;
    if (disk.is_on)
        record((struct op){.kind = OP_SYNC, .inode = disk.of_fd[fd]});
    return 0;
}

int __wrap_rename(const char *from, const char *to)
{
    int rc = fails(false) ? -1 : __real_rename(from, to);

    if (rc == 0)
        record_entry(OP_RENAME, from, to, false);
    return rc;
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    int rc = fails(false) ? -1 : __real_mkdir(path, mode);

    if (rc == 0)
        record_entry(OP_LINK, path, NULL, true);
    return rc;
}

int __wrap_unlink(const char *path)
{
    int rc = fails(true) ? -1 : __real_unlink(path);

    if (rc == 0)
        record_entry(OP_UNLINK, path, NULL, false);
    return rc;
}

int __wrap_rmdir(const char *path)
{
    int rc = fails(true) ? -1 : __real_rmdir(path);

    if (rc == 0)
        record_entry(OP_UNLINK, path, NULL, false);
    return rc;
}

/* --- the disk after the power has failed --- */

/* Which calls of fsync() do nothing: to see whether that is noticed. */
enum forget { FORGET_NOTHING, FORGET_FOLDERS, FORGET_ONE };

enum fate { DATA_LOST, DATA_TORN, DATA_ZEROED, DATA_KEPT, N_FATES };

struct power {
    int n_ops; /* before it fails */
    enum forget forget;
    int forget_op;
    bool is_synced[OPS_MAX]; /* the operation is on the disk for sure */
    int n_unsynced;          /* operations on folders that may be lost */
    int unsynced[OPS_MAX];
    size_t bytes[INODES_MAX];
    size_t synced_bytes[INODES_MAX];
    struct tree tree;
    enum fate fate[INODES_MAX];
};

static bool is_forgotten(const struct power *p, int op)
{
    bool is_folder = disk.inodes[disk.ops[op].inode].is_folder;

    return (p->forget == FORGET_FOLDERS && is_folder) ||
           (p->forget == FORGET_ONE && op == p->forget_op);
}

/* What is on the disk for sure, and what may be. */
static void power_fail(struct power *p, int n_ops, enum forget forget, int forget_op)
{
    *p = (struct power){.n_ops = n_ops, .forget = forget, .forget_op = forget_op};
    for (int i = 0; i < n_ops; i++) {
        const struct op *op = &disk.ops[i];

        p->bytes[op->inode] += op->kind == OP_WRITE ? op->n_bytes : 0;
        if (op->kind != OP_SYNC || is_forgotten(p, i))
            continue;
        p->synced_bytes[op->inode] = p->bytes[op->inode];
        for (int j = 0; j < i; j++)
            p->is_synced[j] |= disk.ops[j].kind <= OP_RENAME && disk.ops[j].folder == op->inode;
    }
    for (int i = 0; i < n_ops; i++)
        if (disk.ops[i].kind <= OP_RENAME && !p->is_synced[i])
            p->unsynced[p->n_unsynced++] = i;
}

/* Take the folders as they are when these unsynced operations are on the disk. */
static void power_take(struct power *p, const bool is_kept[static OPS_MAX])
{
    p->tree.n = 0;
    for (int i = 0; i < p->n_ops; i++)
        if (disk.ops[i].kind <= OP_RENAME && (p->is_synced[i] || is_kept[i]))
            tree_apply(&p->tree, &disk.ops[i]);
}

/* The combination `i` of unsynced operations; false after the last. */
static bool choose(const struct power *p, int i, bool is_kept[static OPS_MAX])
{
    int n = p->n_unsynced;
    int which = n > 0 ? i % n : 0;

    memset(is_kept, 0, OPS_MAX * sizeof *is_kept);
    if (n <= UNSYNCED_MAX) {
        for (int k = 0; k < n; k++)
            is_kept[p->unsynced[k]] = i >> k & 1;
        return i < 1 << n;
    }
    /* The first n; all but one; a single one. */
    for (int k = 0; k < n; k++)
        is_kept[p->unsynced[k]] = i < n ? k < which : i < 2 * n ? k != which : k == which;
    return i < 3 * n;
}

static uint64_t build(const struct power *p, int folder, const char *path, uint64_t hash,
                      bool is_real)
{
    for (int i = 0; i < p->tree.n; i++) {
        const struct entry *e = &p->tree.entries[i];
        const struct inode *inode = &disk.inodes[e->inode];
        size_t n = p->bytes[e->inode];
        size_t synced = p->synced_bytes[e->inode];
        char own[PATH_MAX];

        if (e->folder != folder)
            continue;
        (void)snprintf(own, sizeof own, "%s/%s", path, e->name);
        hash = hash_add(hash, own);
        if (is_real && inode->is_folder)
            assert_int_equal(__real_mkdir(own, 0755), 0);
        if (inode->is_folder) {
            hash = build(p, e->inode, own, hash, is_real);
            continue;
        }
        if (p->fate[e->inode] == DATA_LOST)
            n = synced;
        else if (p->fate[e->inode] == DATA_TORN)
            n = synced + (n - synced) / 2;
        hash = hash_bytes(hash, &e->inode, sizeof e->inode);
        hash = hash_bytes(hash, &n, sizeof n);
        hash = hash_bytes(hash, &p->fate[e->inode], sizeof p->fate[e->inode]);
        if (is_real) {
            static const char zeros[4096];
            bool is_zeroed = p->fate[e->inode] == DATA_ZEROED;
            size_t n_good = is_zeroed ? synced : n;
            int fd = __real_open(own, O_WRONLY | O_CREAT | O_EXCL, 0644);

            assert_true(fd >= 0 && n - n_good <= sizeof zeros);
            assert_int_equal(__real_write(fd, buf_text(&inode->data), n_good), n_good);
            assert_int_equal(__real_write(fd, zeros, n - n_good), n - n_good);
            assert_int_equal(close(fd), 0);
        }
    }
    return hash;
}

/* Files with data that is not synced, which are in some folder. */
static int find_unsynced(const struct power *p, int out[static FILES_MAX])
{
    int n = 0;

    for (int i = 0; i < p->tree.n; i++) {
        int inode = p->tree.entries[i].inode;

        if (p->bytes[inode] > p->synced_bytes[inode]) {
            assert_true(n < FILES_MAX);
            out[n++] = inode;
        }
    }
    return n;
}

/* --- what must be found there --- */

/* A checkpoint, and the number of operations after which it was complete. */
struct promise {
    int n_ops;
    struct resume_checkpoint at;
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static bool check_folder(const char *root, const struct promise *promise, struct err *err)
{
    struct store_point points[RESUME_POINTS_MAX];
    char folder[PATH_MAX];
    struct store s;
    int n;

    assert_int_equal(folder_path(root, "parent/store", folder, NULL), ERR_OK);
    assert_int_equal(store_open(&s, folder, NULL), ERR_OK);
    n = store_list(&s, points, RESUME_POINTS_MAX);
    if (promise && (n == 0 || points[0].at.end.step < promise->at.end.step)) {
        (void)err_set(err, ERR_NOT_FOUND, "the checkpoint of step %lld is lost",
                      (long long)promise->at.end.step);
        return false;
    }
    for (int i = 0; i < n; i++)
        if (checkpoints_read(&s, &points[i].at, true, err) != ERR_OK)
            return false;
    return true;
}

/* Each disk is looked at once. */
static struct map seen;
static int n_seen;

static bool check_disk(const struct power *p, const struct promise *promise, struct err *err)
{
    uint64_t hash = build(p, 0, "", promise ? (uint64_t)promise->at.end.step : 0, false);
    struct map_entry *entry;
    char key[24];
    char root[PATH_MAX];
    bool is_good;

    (void)snprintf(key, sizeof key, "%016llx", (unsigned long long)hash);
    assert_int_equal(map_add(&seen, key, strlen(key), &entry, NULL), ERR_OK);
    if (entry->value.number++ > 0)
        return true;
    n_seen++;
    (void)snprintf(root, sizeof root, "%s", scratch_path("rebuilt"));
    assert_int_equal(__real_mkdir(root, 0755), 0);
    (void)build(p, 0, root, 0, true);
    is_good = check_folder(root, promise, err);
    assert_int_equal(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    return is_good;
}

/* Every disk that a failure of the power after `n_ops` operations may leave. */
static bool check_after(int n_ops, const struct promise *promise, enum forget forget, int forget_op,
                        struct err *err)
{
    static struct power p;
    static bool is_kept[OPS_MAX];

    power_fail(&p, n_ops, forget, forget_op);
    assert_true(forget != FORGET_NOTHING || p.n_unsynced <= UNSYNCED_MAX); /* all combinations */
    for (int i = 0; choose(&p, i, is_kept); i++) {
        int files[FILES_MAX];
        int n_files;
        int n_fates = 1;

        power_take(&p, is_kept);
        n_files = find_unsynced(&p, files);
        for (int f = 0; f < n_files; f++)
            n_fates *= N_FATES;
        for (int fates = 0; fates < n_fates; fates++) {
            for (int f = 0, rest = fates; f < n_files; f++, rest /= N_FATES)
                p.fate[files[f]] = (enum fate)(rest % N_FATES);
            if (!check_disk(&p, promise, err))
                return false;
        }
        for (int f = 0; f < n_files; f++)
            p.fate[files[f]] = DATA_LOST;
    }
    return true;
}

/* --- the power fails --- */

static int n_promises;
static struct promise promises[4];

static void begin_record(void)
{
    disk.n_inodes = 1;
    disk.inodes[0] = (struct inode){.is_folder = true};
    (void)snprintf(disk.root, sizeof disk.root, "%s", scratch_path("disk"));
    disk.n_root = strlen(disk.root);
    assert_int_equal(mkdir(disk.root, 0755), 0);
    disk.is_on = true;
}

/* Both stages at the same time; they finish in either order. */
static void write_both(const struct store *s, int64_t step, bool is_leader_first)
{
    struct store_point point = checkpoints_point(1, step);
    struct export_params params = checkpoints_params(&two);
    struct store_writer *w[2];
    int first = is_leader_first ? 0 : 1;

    for (int i = 0; i < 2; i++)
        assert_int_equal(store_begin(s, &point, &params, i, true, &w[i], NULL), ERR_OK);
    for (int unit = 0; unit < 3; unit++)
        for (int i = 0; i < 2; i++)
            if (unit < two.stages[i].n_units)
                assert_int_equal(checkpoints_put(w[i], &point.at, two.stages[i].first_unit + unit,
                                                 1, true, NULL),
                                 ERR_OK);
    assert_int_equal(checkpoints_finish(w[first], &point.at, first, NULL), ERR_OK);
    assert_int_equal(checkpoints_finish(w[1 - first], &point.at, 1 - first, NULL), ERR_OK);
    promises[n_promises++] = (struct promise){.n_ops = disk.n_ops, .at = point.at};
}

static int record_all(void **state)
{
    struct resume at = {.lineage = 1};
    struct store s;

    if (scratch_make(state) != 0)
        return -1;
    log_set_level(LOG_ERROR);
    begin_record();
    assert_int_equal(store_open(&s, scratch_path("disk/parent/store"), NULL), ERR_OK);
    write_both(&s, 10, true);
    write_both(&s, 20, false);
    store_clean(&s, &at, 1);
    disk.is_on = false;
    assert_int_equal(checkpoints_read(&s, &promises[1].at, true, NULL), ERR_OK);
    return 0;
}

static int remove_all(void **state)
{
    for (int i = 0; i < disk.n_inodes; i++)
        buf_deinit(&disk.inodes[i].data);
    return scratch_remove(state);
}

/* Fail after each operation from `first` on; true when nothing was ever lost or mixed. */
static bool check_all(int first, enum forget forget, int forget_op, struct err *err)
{
    bool is_good = true;
    int promise = 0; /* how many were given */

    for (int n_ops = first; n_ops <= disk.n_ops && is_good; n_ops++) {
        while (promise < n_promises && promises[promise].n_ops <= n_ops)
            promise++;
        is_good =
            check_after(n_ops, promise > 0 ? &promises[promise - 1] : NULL, forget, forget_op, err);
        if (!is_good)
            (void)err_wrap(err, err->code, "after %d of %d operations", n_ops, disk.n_ops);
    }
    map_deinit(&seen);
    seen = (struct map){.n = 0};
    return is_good;
}

static void store_has_the_newest_complete_checkpoint_after_a_power_cut_at_any_time(void **state)
{
    struct err err = {.text = ""};

    (void)state;
    if (!check_all(0, FORGET_NOTHING, 0, &err))
        fail_msg("%s", err.text);
    assert_true(n_seen > 1000); /* the model has not become an empty one */
}

static void store_would_lose_checkpoints_if_folders_were_not_synced(void **state)
{
    struct err err = {.text = ""};

    (void)state;
    assert_false(check_all(promises[0].n_ops, FORGET_FOLDERS, 0, &err));
}

/* Is it a file that only from_pretrained() reads? */
static bool is_extra(int inode)
{
    for (int i = 0; i < disk.n_ops; i++)
        if (disk.ops[i].kind == OP_RENAME && disk.ops[i].inode == inode)
            return strstr(disk.ops[i].to, "config.json") || strstr(disk.ops[i].to, "index.json");
    return false;
}

static void store_would_lose_checkpoints_if_any_file_were_not_synced(void **state)
{
    struct err err = {.text = ""};
    int n_files = 0;

    (void)state;
    for (int i = 0; i < disk.n_ops; i++) {
        const struct op *op = &disk.ops[i];
        int promise = i < promises[0].n_ops ? 0 : 1;

        if (op->kind != OP_SYNC || disk.inodes[op->inode].is_folder || is_extra(op->inode))
            continue;
        if (check_all(promises[promise].n_ops, FORGET_ONE, i, &err))
            fail_msg("not noticed without operation %d", i);
        n_files++;
    }
    assert_int_equal(n_files, 2 * 6); /* shards and manifests of two stages, and two records */
}

/* --- a call fails --- */

static struct store new_store(int n)
{
    struct store s;
    char name[40];

    (void)snprintf(name, sizeof name, "faults-%d", n);
    assert_int_equal(store_open(&s, scratch_path(name), NULL), ERR_OK);
    return s;
}

static void check_newest(const struct store *s, int64_t step)
{
    struct store_point points[2];
    struct err err = {.text = ""};

    assert_true(store_list(s, points, 2) > 0);
    assert_int_equal(points[0].at.end.step, step);
    if (checkpoints_read(s, &points[0].at, true, &err) != ERR_OK)
        fail_msg("%s", err.text);
}

/* Let the call with this number fail, or the disk be full from it on. */
static void begin_faults(int call, bool is_full)
{
    disk.n_calls = 0;
    disk.fail_at = call;
    disk.is_full = is_full;
}

/* False when there were not as many calls. */
static bool end_faults(void)
{
    bool has_failed = disk.n_calls >= disk.fail_at;

    disk.fail_at = 0;
    disk.is_full = false;
    return has_failed;
}

static void fail_each_call(bool is_full)
{
    struct store_point old = checkpoints_point(1, 10);
    struct store_point point = checkpoints_point(1, 20);

    for (int call = 1;; call++) {
        struct store s = new_store(2 * call + is_full);
        enum err_code rc[2];

        checkpoints_write(&s, &old, &two, true);
        begin_faults(call, is_full);
        for (int stage = 0; stage < 2; stage++)
            rc[stage] = checkpoints_write_stage(&s, &point, &two, stage, true, NULL);
        if (!end_faults()) {
            assert_true(rc[0] == ERR_OK && rc[1] == ERR_OK && call > 50);
            return;
        }
        assert_true(rc[0] == ERR_IO || rc[1] == ERR_IO);
        check_newest(&s, 10);
        for (int stage = 0; stage < 2; stage++)
            if (rc[stage] != ERR_OK)
                assert_int_equal(checkpoints_write_stage(&s, &point, &two, stage, true, NULL),
                                 ERR_OK);
        check_newest(&s, 20);
    }
}

static void store_writes_nothing_that_counts_when_a_call_fails(void **state)
{
    (void)state;
    fail_each_call(false);
}

static void store_writes_nothing_that_counts_when_the_disk_is_full(void **state)
{
    (void)state;
    fail_each_call(true);
}

static void store_clean_leaves_the_newest_when_a_call_fails(void **state)
{
    struct store_point old = checkpoints_point(1, 10);
    struct store_point point = checkpoints_point(1, 20);
    struct resume at = {.lineage = 1};
    bool has_failed = true;

    (void)state;
    for (int call = 1; has_failed; call++) {
        struct store s = new_store(1000 + call);

        checkpoints_write(&s, &old, &two, true);
        checkpoints_write(&s, &point, &two, true);
        begin_faults(call, false);
        store_clean(&s, &at, 1);
        has_failed = end_faults();
        check_newest(&s, 20);
        store_clean(&s, &at, 1);
        assert_int_equal(store_list(&s, (struct store_point[2]){{.at = {0}}}, 2), 1);
        assert_false(folder_has(s.folder, "1-10"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_has_the_newest_complete_checkpoint_after_a_power_cut_at_any_time),
        cmocka_unit_test(store_would_lose_checkpoints_if_folders_were_not_synced),
        cmocka_unit_test(store_would_lose_checkpoints_if_any_file_were_not_synced),
        cmocka_unit_test(store_writes_nothing_that_counts_when_a_call_fails),
        cmocka_unit_test(store_writes_nothing_that_counts_when_the_disk_is_full),
        cmocka_unit_test(store_clean_leaves_the_newest_when_a_call_fails),
    };

    return cmocka_run_group_tests_name("store_faults", tests, record_all, remove_all);
}
