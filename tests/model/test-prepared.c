/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Prepared copies: what is read from them is what the model file holds, whatever
 * happened to them in between. */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "common/llmsvc-error.h"
#include "io/llm-cache-folder.h"
#include "kernels/llk.h"
#include "model/llm-prepare-weights.h"
#include "model/llm-weights-prepared.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"

static const char *program;

typedef struct
{
  char *folder;      /* of the test */
  char *cache;       /* below it */
  char *model;       /* a small one */
} Fixture;

static const LlmTestModel small_model = {
  .n_layers = 2, .n_embd = 64, .n_heads = 4, .n_kv_heads = 2, .n_ff = 96, .n_vocab = 300,
  .type = LLK_Q8_0, .seed = 1,
};

static void
set_up (Fixture       *fixture,
        gconstpointer  data)
{
  fixture->folder = llm_test_folder_new ();
  fixture->cache = g_build_filename (fixture->folder, "cache", NULL);
  fixture->model = g_build_filename (fixture->folder, "model.gguf", NULL);
  llm_test_model_write (&small_model, fixture->model);
}

static void
tear_down (Fixture       *fixture,
           gconstpointer  data)
{
  llm_prepared_copy_wait_for_all ();
  llm_test_folder_remove (fixture->folder);
  g_free (fixture->folder);
  g_free (fixture->cache);
  g_free (fixture->model);
}

/* --- weights --- */

typedef struct
{
  LlmGguf *gguf;
  LlmHparams hparams;
  LlmLedger *ledger;
  LlmWeights *weights;
} Loaded;

static void
load_gguf (Loaded           *loaded,
           LlmGguf          *gguf,
           LlmPreparedCache *cache,
           guint             n_threads)
{
  g_autoptr(GError) error = NULL;

  loaded->gguf = llm_gguf_ref (gguf);
  g_assert_true (llm_hparams_read (gguf, &loaded->hparams, &error));
  g_assert_no_error (error);
  loaded->ledger = llm_ledger_new ();
  loaded->weights = llm_weights_new_prepared (gguf, &loaded->hparams, cache, n_threads,
                                              loaded->ledger, &error);
  g_assert_no_error (error);
  g_assert_nonnull (loaded->weights);
}

/* Waits until a new file has its name. */
static void
load (Loaded           *loaded,
      const char       *path,
      LlmPreparedCache *cache)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, &error);

  g_assert_no_error (error);
  load_gguf (loaded, gguf, cache, 2);
  llm_prepared_copy_wait_for_all ();
}

static void
unload (Loaded *loaded)
{
  g_clear_pointer (&loaded->weights, llm_weights_free);
  g_assert_cmpuint (llm_ledger_get (loaded->ledger, LLM_HOLDER_WEIGHTS), ==, 0);
  g_clear_pointer (&loaded->ledger, llm_ledger_unref);
  g_clear_pointer (&loaded->gguf, llm_gguf_unref);
}

static void
check_panels (const LlmWeightView *view,
              const LlmWeightView *rows)
{
  gsize panel_bytes = llk_panel_bytes (view->type, view->in_count);
  g_autofree float *found = g_new (float, view->in_count);
  g_autofree float *wanted = g_new (float, view->in_count);

  g_assert_cmpuint ((guintptr) view->data % LLK_PANEL_ALIGNMENT, ==, 0);
  for (guint out = 0; out < view->out_count; out++)
    {
      llk_panel_unpack (view->type,
                        (const guint8 *) view->data + out / LLK_PANEL_OUTPUTS * panel_bytes,
                        view->in_count, out % LLK_PANEL_OUTPUTS, found);
      llk_ops_portable ()->vector->unpack (rows->type,
                                           (const guint8 *) rows->data + out * rows->row_bytes,
                                           wanted, rows->in_count);
      g_assert_cmpmem (found, view->in_count * sizeof (float), wanted,
                       view->in_count * sizeof (float));
    }
}

/* All operators give the values that the mapped file gives; all matrices but the
 * embedding are packed. */
static void
check_values (const Loaded *loaded)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmWeights) mapped =
    llm_weights_new_mapped (loaded->gguf, &loaded->hparams, NULL, &error);

  g_assert_no_error (error);
  for (guint op = 0; op < LLM_N_OPS; op++)
    for (guint layer = 0; layer < (llm_operator_is_layered (op) ? loaded->hparams.n_layers : 1);
         layer++)
      {
        LlmWeightView view, rows;

        g_assert_cmpint (llm_weights_acquire (loaded->weights, op, layer, 0, NULL, &view, &error),
                         ==, LLM_READY);
        g_assert_cmpint (llm_weights_acquire (mapped, op, layer, 0, NULL, &rows, &error), ==,
                         LLM_READY);
        g_assert_cmpint (view.type, ==, rows.type);
        g_assert_cmpuint (view.in_count, ==, rows.in_count);
        g_assert_cmpuint (view.out_count, ==, rows.out_count);
        if (rows.data == NULL)
          g_assert_null (view.data);
        else if (llm_operator_is_matrix (op) && op != LLM_OP_TOKEN_EMBEDDING)
          {
            g_assert_cmpint (view.layout, ==, LLM_LAYOUT_PANELS);
            check_panels (&view, &rows);
          }
        else
          {
            g_assert_cmpint (view.layout, ==, LLM_LAYOUT_ROWS);
            g_assert_true (view.data == rows.data);
          }
        llm_weights_release (loaded->weights, &view);
        llm_weights_release (mapped, &rows);
      }
  g_assert_true (llm_weights_check (loaded->weights, &error));
  g_assert_no_error (error);
}

/* --- files --- */

/* There nothing ever leaves the page cache. */
static gboolean
is_in_memory_always (const char *folder)
{
  struct statfs status;

  g_assert_cmpint (statfs (folder, &status), ==, 0);
  return status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC;
}

/* (transfer full) (nullable): the one prepared file below @cache, NULL when there is
 * none; nothing else may be there. */
static char *
find_file (const char *cache)
{
  g_autofree char *folder = g_build_filename (cache, "weights", NULL);
  g_autoptr(GDir) dir = g_dir_open (folder, 0, NULL);
  char *found = NULL;
  const char *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_assert_true (g_str_has_suffix (name, LLM_CACHE_SUFFIX));
      g_assert_null (found);
      found = g_build_filename (folder, name, NULL);
    }
  return found;
}

static guint64
get_inode (const char *path)
{
  struct stat status;

  g_assert_cmpint (g_stat (path, &status), ==, 0);
  return status.st_ino;
}

/* A number that stays the same as long as the file is not replaced: inodes of
 * removed files are used again. */
static gint64
get_change (const char *path)
{
  struct stat status;

  g_assert_cmpint (g_stat (path, &status), ==, 0);
  return status.st_ctim.tv_sec * G_GINT64_CONSTANT (1000000000) + status.st_ctim.tv_nsec;
}

/* Overwrites some of a file; with @keeps_time it looks as if nothing had happened. */
static void
overwrite (const char *path,
           goffset     offset,
           gconstpointer bytes,
           gsize       size,
           gboolean    keeps_time)
{
  struct timespec times[2];
  struct stat status;
  int fd = g_open (path, O_RDWR | O_CLOEXEC, 0);

  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (fstat (fd, &status), ==, 0);
  if (offset < 0)
    offset += status.st_size;
  g_assert_cmpint (pwrite (fd, bytes, size, offset), ==, (gssize) size);
  times[0] = status.st_atim;
  times[1] = status.st_mtim;
  if (keeps_time)
    g_assert_cmpint (futimens (fd, times), ==, 0);
  close (fd);
}

/* Loads the fixture's model, with all it should be, and leaves one good file. */
static void
load_and_check (Fixture          *fixture,
                LlmPreparedCache *cache)
{
  Loaded loaded;

  load (&loaded, fixture->model, cache);
  check_values (&loaded);
  unload (&loaded);
}

/* --- tests --- */

/* All types, outputs that are no multiple of a panel, tied and untied, more than one
 * piece with panels across its ends, one thread and several. */
static void
test_round_trip (Fixture       *fixture,
                 gconstpointer  data)
{
  static const LlmTestModel models[] = {
    { .type = LLK_F32, .n_vocab = 20, .is_untied = TRUE },
    { .type = LLK_F16, .n_vocab = 21, .has_rope_factors = TRUE },
    { .type = LLK_BF16, .n_vocab = 22, .n_embd = 66, .n_heads = 3, .n_ff = 31 },
    { .type = LLK_Q8_0, .n_vocab = 300, .is_untied = TRUE },
    { .type = LLK_Q4_0, .n_vocab = 33, .n_kv_heads = 1 },
    { .type = LLK_Q4_0, .n_vocab = 500, .n_embd = 1024, .n_heads = 8, .n_ff = 2912, .n_layers = 2 },
    { .type = LLK_F32, .n_vocab = 500, .n_embd = 512, .n_heads = 8, .n_ff = 1413, .n_layers = 2 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    {
      g_autofree char *cache_folder = g_strdup_printf ("%s/%u", fixture->folder, i);
      g_autofree char *path = g_strdup_printf ("%s/%u.gguf", fixture->folder, i);
      g_autofree char *file = NULL;
      g_autoptr(LlmPreparedCache) cache = llm_prepared_cache_new (cache_folder, FALSE, NULL, 0);
      g_autoptr(GBytes) bytes = llm_test_model_new (&models[i]);
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmGguf) built = llm_gguf_new_for_bytes (bytes, "built", &error);
      Loaded loaded;
      guint64 in_use;

      /* in memory, as it is no file; and with one thread */
      load_gguf (&loaded, built, cache, 1);
      check_values (&loaded);
      in_use = loaded.weights->bytes;
      g_assert_cmpuint (llm_ledger_get (loaded.ledger, LLM_HOLDER_WEIGHTS), ==, in_use);
      unload (&loaded);
      g_assert_null (find_file (cache_folder));

      /* into a file, and from it */
      llm_test_model_write (&models[i], path);
      load (&loaded, path, cache);
      check_values (&loaded);
      g_assert_cmpuint (loaded.weights->bytes, ==, in_use);
      file = find_file (cache_folder);
      g_assert_nonnull (file);
      unload (&loaded);
      load (&loaded, path, cache);
      check_values (&loaded);
      unload (&loaded);
    }
}

/* The second load makes nothing: it maps what the first one made. */
static void
test_second_load (Fixture       *fixture,
                  gconstpointer  data)
{
  g_autoptr(LlmPreparedCache) cache = llm_prepared_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autofree char *file = NULL;
  g_autofree char *same = NULL;
  g_autofree char *maps = NULL;
  struct stat status;
  guint64 inode;
  Loaded loaded;

  load_and_check (fixture, cache);
  file = find_file (fixture->cache);
  g_assert_nonnull (file);
  inode = get_inode (file);
  g_assert_cmpint (g_stat (file, &status), ==, 0);
  g_assert_cmpint (status.st_mode & 0777, ==, 0600);

  load (&loaded, fixture->model, cache);
  check_values (&loaded);
  g_assert_true (g_file_get_contents ("/proc/self/maps", &maps, NULL, NULL));
  g_assert_nonnull (strstr (maps, file));
  unload (&loaded);
  same = find_file (fixture->cache);
  g_assert_cmpstr (same, ==, file);
  g_assert_cmpuint (get_inode (file), ==, inode);
}

/* Another model under the same name, and the same one changed, are other models. */
static void
test_other_model (Fixture       *fixture,
                  gconstpointer  data)
{
  g_autoptr(LlmPreparedCache) cache = llm_prepared_cache_new (fixture->cache, FALSE, NULL, 0);
  LlmTestModel other = small_model;
  g_autofree char *first = NULL;
  g_autofree char *second = NULL;

  load_and_check (fixture, cache);
  first = find_file (fixture->cache);
  other.seed = 2;
  llm_test_model_write (&other, fixture->model);

  /* what the first one left is put in the place of the second */
  {
    g_autoptr(GError) error = NULL;
    g_autoptr(LlmGguf) gguf = llm_gguf_open (fixture->model, &error);
    g_autoptr(LlmPreparedPlan) plan = NULL;
    g_autofree char *name = NULL;
    g_autofree char *folder = g_path_get_dirname (first);
    LlmHparams hparams;

    g_assert_true (llm_hparams_read (gguf, &hparams, &error));
    plan = llm_prepared_plan_new (gguf, &hparams, &error);
    g_assert_no_error (error);
    name = llm_prepared_plan_get_name (plan);
    second = g_build_filename (folder, name, NULL);
    g_assert_cmpstr (first, !=, second);
    g_assert_cmpint (g_rename (first, second), ==, 0);
  }
  load_and_check (fixture, cache);
  g_clear_pointer (&first, g_free);
  first = find_file (fixture->cache);
  g_assert_cmpstr (first, ==, second);
}

/* Every byte of the head counts, and so does the length. */
static void
test_damaged_head (Fixture       *fixture,
                   gconstpointer  data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (fixture->model, &error);
  g_autoptr(LlmPreparedPlan) plan = NULL;
  g_autoptr(GBytes) head = NULL;
  g_autofree guint64 *checksums = NULL;
  g_autofree guint8 *file = NULL;
  const char *reason;
  LlmPreparedHead read;
  LlmHparams hparams;
  gsize size;

  g_assert_true (llm_hparams_read (gguf, &hparams, &error));
  plan = llm_prepared_plan_new (gguf, &hparams, &error);
  g_assert_no_error (error);
  checksums = g_new0 (guint64, plan->n_pieces);
  checksums[0] = 42;
  head = llm_prepared_head_new (plan, checksums, 1234, 5678);
  size = g_bytes_get_size (head);
  file = g_malloc0 (plan->file_bytes);
  memcpy (file, g_bytes_get_data (head, NULL), size);

  g_assert_true (llm_prepared_head_check (plan, file, plan->file_bytes, &read, &reason));
  g_assert_null (reason);
  g_assert_cmpint (read.modified_s, ==, 1234);
  g_assert_cmpuint (read.boot, ==, 5678);
  g_assert_cmpuint (read.checksums[0], ==, 42);
  for (gsize i = 0; i < size; i++)
    {
      file[i] ^= 0x10;
      g_assert_false (llm_prepared_head_check (plan, file, plan->file_bytes, &read, &reason));
      g_assert_nonnull (reason);
      file[i] ^= 0x10;
    }
  for (guint64 n = 0; n < plan->file_bytes; n += n < 1000 ? 1 : 4093)
    {
      g_autofree guint8 *cut = g_memdup2 (file, n);

      g_assert_false (llm_prepared_head_check (plan, cut, n, &read, &reason));
    }
  g_assert_false (llm_prepared_head_check (plan, file, plan->file_bytes - 1, &read, &reason));
}

/* A program that packs the same matrices in another order finds nothing wrong with the
 * sizes. */
static void
test_other_order (Fixture       *fixture,
                  gconstpointer  data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (fixture->model, &error);
  g_autoptr(LlmPreparedPlan) plan = NULL;
  g_autoptr(LlmPreparedPlan) other = NULL;
  g_autofree guint64 *checksums = NULL;
  const char *reason;
  LlmPreparedHead read;
  LlmHparams hparams;

  g_assert_true (llm_hparams_read (gguf, &hparams, &error));
  plan = llm_prepared_plan_new (gguf, &hparams, &error);
  other = llm_prepared_plan_new (gguf, &hparams, &error);
  g_assert_no_error (error);
  checksums = g_new0 (guint64, plan->n_pieces);

  for (gboolean is_changed = FALSE; is_changed <= TRUE; is_changed++)
    {
      g_autofree guint8 *file = g_malloc0 (plan->file_bytes);
      g_autoptr(GBytes) head = NULL;

      if (is_changed)
        {
          g_array_index (other->matrices, LlmPreparedMatrix, 0).op = LLM_OP_KEY;
          g_array_index (other->matrices, LlmPreparedMatrix, 1).op = LLM_OP_QUERY;
        }
      head = llm_prepared_head_new (other, checksums, 1234, 5678);
      memcpy (file, g_bytes_get_data (head, NULL), g_bytes_get_size (head));
      g_assert_cmpint (llm_prepared_head_check (plan, file, plan->file_bytes, &read, &reason), ==,
                       !is_changed);
    }
}

static void
damage_head (const char *file)
{
  overwrite (file, 20, "x", 1, TRUE);
}

static void
damage_table (const char *file)
{
  overwrite (file, 200, "xyz", 3, TRUE);
}

static void
damage_data (const char *file)
{
  overwrite (file, -100, "xyz", 3, FALSE);
}

static void
cut_data (const char *file)
{
  struct stat status;

  g_assert_cmpint (g_stat (file, &status), ==, 0);
  g_assert_cmpint (truncate (file, status.st_size - 1), ==, 0);
}

static void
cut_head (const char *file)
{
  g_assert_cmpint (truncate (file, 50), ==, 0);
}

static void
cut_all (const char *file)
{
  g_assert_cmpint (truncate (file, 0), ==, 0);
}

static void
lengthen (const char *file)
{
  overwrite (file, (goffset) 64 << 20, "x", 1, TRUE);
}

static void
touch (const char *file)
{
  g_assert_cmpint (utimensat (AT_FDCWD, file, NULL, 0), ==, 0);
}

static void
let_all_write (const char *file)
{
  g_assert_cmpint (g_chmod (file, 0666), ==, 0);
}

static void
let_group_write (const char *file)
{
  g_assert_cmpint (g_chmod (file, 0620), ==, 0);
}

/* A link may lead anywhere. */
static void
make_link (const char *file)
{
  g_autofree char *folder = g_path_get_dirname (file);
  g_autofree char *outside = g_build_filename (folder, "..", "..", "outside", NULL);

  g_assert_cmpint (g_rename (file, outside), ==, 0);
  g_assert_cmpint (symlink (outside, file), ==, 0);
}

/* Whatever is wrong with the file, it is made again, and then used. */
static void
test_made_again (Fixture       *fixture,
                 gconstpointer  data)
{
  void (*const damage[]) (const char *file) = {
    damage_head, damage_table, damage_data, cut_data, cut_head, cut_all, lengthen, touch,
    let_all_write, let_group_write, make_link,
  };
  g_autoptr(LlmPreparedCache) cache = llm_prepared_cache_new (fixture->cache, FALSE, NULL, 0);

  for (guint i = 0; i < G_N_ELEMENTS (damage); i++)
    {
      g_autofree char *file = NULL;
      g_autofree char *again = NULL;
      struct stat status;
      gint64 change;

      load_and_check (fixture, cache);
      file = find_file (fixture->cache);
      g_assert_nonnull (file);
      damage[i] (file);
      change = get_change (file);

      load_and_check (fixture, cache);
      again = find_file (fixture->cache);
      g_assert_cmpstr (again, ==, file);
      g_assert_cmpint (lstat (file, &status), ==, 0);
      g_assert_true (S_ISREG (status.st_mode));
      g_assert_cmpint (status.st_mode & 0777, ==, 0600);
      g_assert_cmpint (get_change (file), !=, change);
    }
}

static void
test_trust (void)
{
  const uid_t self = 1000, other = 1001, service = 990, none = (uid_t) -1;

  g_assert_true (llm_prepared_is_trusted (self, S_IFREG | 0600, self, none));
  g_assert_true (llm_prepared_is_trusted (self, S_IFREG | 0644, self, service));
  g_assert_true (llm_prepared_is_trusted (0, S_IFREG | 0644, self, none));
  g_assert_true (llm_prepared_is_trusted (service, S_IFREG | 0644, self, service));
  g_assert_false (llm_prepared_is_trusted (other, S_IFREG | 0644, self, service));
  g_assert_false (llm_prepared_is_trusted (service, S_IFREG | 0644, self, none));
  g_assert_false (llm_prepared_is_trusted (none, S_IFREG | 0644, self, none));
  g_assert_false (llm_prepared_is_trusted (self, S_IFREG | 0620, self, service));
  g_assert_false (llm_prepared_is_trusted (0, S_IFREG | 0666, self, service));
}

/* The system's copy serves everybody; a user's own only when there is none. */
static void
test_system (Fixture       *fixture,
             gconstpointer  data)
{
  g_autofree char *system_folder = g_build_filename (fixture->folder, "system", NULL);
  g_autoptr(LlmPreparedCache) of_system = llm_prepared_cache_new (system_folder, TRUE, NULL, 0);
  g_autoptr(LlmPreparedCache) of_user =
    llm_prepared_cache_new (fixture->cache, FALSE, system_folder, 0);
  g_autofree char *shared = NULL;
  g_autofree char *own = NULL;
  g_autofree char *maps = NULL;
  struct stat status;
  Loaded loaded;

  g_assert_cmpint (g_chmod (fixture->model, 0644), ==, 0);
  load_and_check (fixture, of_system);
  shared = find_file (system_folder);
  g_assert_nonnull (shared);
  g_assert_cmpint (g_stat (shared, &status), ==, 0);
  g_assert_cmpint (status.st_mode & 0777, ==, 0644);

  load (&loaded, fixture->model, of_user);
  check_values (&loaded);
  g_assert_true (g_file_get_contents ("/proc/self/maps", &maps, NULL, NULL));
  g_assert_nonnull (strstr (maps, shared));
  unload (&loaded);
  g_assert_false (g_file_test (fixture->cache, G_FILE_TEST_EXISTS));

  /* One that others may write is no longer the system's; it is not ours to remove. */
  g_assert_cmpint (g_chmod (shared, 0666), ==, 0);
  load_and_check (fixture, of_user);
  own = find_file (fixture->cache);
  g_assert_nonnull (own);
  g_assert_true (g_file_test (shared, G_FILE_TEST_EXISTS));

  /* A model that not everybody may read is not shared with everybody. */
  g_assert_cmpint (g_chmod (fixture->model, 0600), ==, 0);
  load_and_check (fixture, of_system);
  g_assert_cmpint (g_stat (shared, &status), ==, 0);
  g_assert_cmpint (status.st_mode & 0777, ==, 0600);
}

/* Whatever keeps a file from being made, the model is there, and no remains. */
static void
test_no_room (Fixture       *fixture,
              gconstpointer  data)
{
  g_autoptr(LlmPreparedCache) limited = llm_prepared_cache_new (fixture->cache, FALSE, NULL, 1000);
  g_autoptr(LlmPreparedCache) cache = llm_prepared_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autoptr(LlmPreparedCache) below_file = llm_prepared_cache_new (fixture->model, FALSE, NULL, 0);
  g_autoptr(LlmPreparedCache) nowhere = llm_prepared_cache_new (NULL, FALSE, NULL, 0);
  const struct rlimit small = { 100000, RLIM_INFINITY };
  struct rlimit limit;

  load_and_check (fixture, limited);
  g_assert_null (find_file (fixture->cache));
  load_and_check (fixture, below_file);
  load_and_check (fixture, nowhere);
  load_and_check (fixture, NULL);

  g_assert_cmpint (getrlimit (RLIMIT_FSIZE, &limit), ==, 0);
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &small), ==, 0);
  load_and_check (fixture, cache);
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &limit), ==, 0);
  g_assert_null (find_file (fixture->cache));
}

/* The disk is full when the first piece comes. */
static void
test_disk_full (Fixture       *fixture,
                gconstpointer  data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (fixture->model, &error);
  g_autoptr(LlmPreparedPlan) plan = NULL;
  g_autofree guint64 *checksums = NULL;
  LlmHparams hparams;
  int fd = g_open ("/dev/full", O_WRONLY | O_CLOEXEC, 0);

  g_assert_cmpint (fd, >=, 0);
  g_assert_true (llm_hparams_read (gguf, &hparams, &error));
  plan = llm_prepared_plan_new (gguf, &hparams, &error);
  g_assert_no_error (error);
  checksums = g_new0 (guint64, plan->n_pieces);
  g_assert_false (llm_prepare_in_file (plan, gguf, 2, fd, checksums, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
  g_assert_nonnull (strstr (error->message, g_strerror (ENOSPC)));
  close (fd);
}

/* A copy that is cut, or written over, while it is in use: no crash, an error, and a
 * new copy with the next load. */
static void
test_damaged_in_use (Fixture       *fixture,
                     gconstpointer  data)
{
  g_autoptr(LlmPreparedCache) cache = llm_prepared_cache_new (fixture->cache, FALSE, NULL, 0);

  for (guint i = 0; i < 4; i++)
    {
      gboolean is_cut = i % 2 == 0;
      g_autofree char *file = NULL;
      g_autoptr(GError) error = NULL;
      LlmWeightView view;
      Loaded loaded;

      /* new, and found */
      if (i < 2)
        load_and_check (fixture, cache);
      load (&loaded, fixture->model, cache);
      g_assert_true (llm_weights_check (loaded.weights, &error));
      file = find_file (fixture->cache);
      if (is_cut)
        g_assert_cmpint (truncate (file, 3000), ==, 0);
      else
        overwrite (file, -5000, "xyz", 3, FALSE);

      g_assert_cmpint (llm_weights_acquire (loaded.weights, LLM_OP_FFN_DOWN, 1, 0, NULL, &view, NULL),
                       ==, LLM_READY);
      if (is_cut)
        g_assert_cmpint (*(const guint8 *) view.data, ==, 0);
      g_assert_false (llm_weights_check (loaded.weights, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
      g_assert_nonnull (strstr (error->message, fixture->model));
      unload (&loaded);
      load_and_check (fixture, cache);
    }
}

/* The model file itself is cut: that is told as it is without a copy. */
static void
test_model_cut (Fixture       *fixture,
                gconstpointer  data)
{
  g_autoptr(LlmPreparedCache) cache = llm_prepared_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (fixture->model, &error);
  g_autoptr(LlmWeights) weights = NULL;
  LlmHparams hparams;

  g_assert_no_error (error);
  g_assert_true (llm_hparams_read (gguf, &hparams, &error));
  g_assert_cmpint (truncate (fixture->model, 100), ==, 0);
  weights = llm_weights_new_prepared (gguf, &hparams, cache, 2, NULL, &error);
  g_assert_null (weights);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
  g_assert_nonnull (strstr (error->message, "changed while it was in use"));
  llm_prepared_copy_wait_for_all ();
  g_assert_null (find_file (fixture->cache));
}

/* Writes a new head as if the file were of an earlier start of the machine. */
static void
age (const char      *file,
     LlmPreparedPlan *plan)
{
  g_autofree char *bytes = NULL;
  g_autoptr(GBytes) head = NULL;
  LlmPreparedHead old;
  const char *reason;
  gsize size;

  g_assert_true (g_file_get_contents (file, &bytes, &size, NULL));
  g_assert_true (llm_prepared_head_check (plan, (const guint8 *) bytes, size, &old, &reason));
  head = llm_prepared_head_new (plan, old.checksums, old.modified_s, 1);
  overwrite (file, 0, g_bytes_get_data (head, NULL), g_bytes_get_size (head), TRUE);
}

/* What comes from the disk is compared, once. */
static void
test_verify (Fixture       *fixture,
             gconstpointer  data)
{
  g_autoptr(LlmPreparedCache) cache = llm_prepared_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (fixture->model, &error);
  g_autoptr(LlmPreparedPlan) plan = NULL;
  g_autofree char *file = NULL;
  LlmPreparedCopy *copy;
  LlmHparams hparams;

  g_assert_true (llm_hparams_read (gguf, &hparams, &error));
  plan = llm_prepared_plan_new (gguf, &hparams, &error);
  g_assert_no_error (error);
  file = llm_prepared_cache_make (cache, plan, gguf, 2, &error);
  g_assert_no_error (error);

  /* all is well */
  age (file, plan);
  copy = llm_prepared_cache_get (cache, plan, gguf, 2, &error);
  llm_prepared_copy_verify (copy);
  g_assert_true (llm_prepared_copy_is_good (copy));
  g_assert_true (g_file_test (file, G_FILE_TEST_EXISTS));
  llm_prepared_copy_free (copy);

  /* a bit fell over, and nothing else shows it */
  g_assert_cmpint (g_unlink (file), ==, 0);
  g_free (llm_prepared_cache_make (cache, plan, gguf, 2, &error));
  g_assert_no_error (error);
  age (file, plan);
  overwrite (file, -700, "x", 1, TRUE);
  copy = llm_prepared_cache_get (cache, plan, gguf, 2, &error);
  g_assert_true (llm_prepared_copy_is_good (copy));
  llm_prepared_copy_verify (copy);
  g_assert_false (llm_prepared_copy_is_good (copy));
  g_assert_false (g_file_test (file, G_FILE_TEST_EXISTS));
  llm_prepared_copy_free (copy);
}

/* Two models and room for one: the one that is used stays. */
static void
test_limit (Fixture       *fixture,
            gconstpointer  data)
{
  g_autofree char *second = g_build_filename (fixture->folder, "second.gguf", NULL);
  g_autoptr(LlmPreparedCache) roomy = llm_prepared_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autoptr(LlmPreparedCache) cache = NULL;
  LlmTestModel model = small_model;
  g_autofree char *first_file = NULL;
  g_autofree char *second_file = NULL;
  struct stat status;
  Loaded loaded;

  model.seed = 3;
  llm_test_model_write (&model, second);
  load (&loaded, fixture->model, roomy);
  first_file = find_file (fixture->cache);
  g_assert_cmpint (g_stat (first_file, &status), ==, 0);

  /* the other one comes while the first is in use: it only loses its name */
  cache = llm_prepared_cache_new (fixture->cache, FALSE, NULL, (guint64) status.st_size + 4096);
  {
    Loaded other;

    load (&other, second, cache);
    check_values (&other);
    second_file = find_file (fixture->cache);
    g_assert_cmpstr (second_file, !=, first_file);
    check_values (&loaded);
    unload (&other);
  }
  unload (&loaded);
}

/* Freed weights leave the page cache, unless the next process is to find them there. */
static void
test_give_back (Fixture       *fixture,
                gconstpointer  data)
{
  g_autoptr(LlmPreparedCache) cache = llm_prepared_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autoptr(LlmFileMap) map = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *file = NULL;
  gboolean is_always_there = is_in_memory_always (fixture->folder);

  load_and_check (fixture, cache);
  file = find_file (fixture->cache);
  map = llm_file_map_open (file, &error);
  g_assert_no_error (error);

  for (gboolean keeps_cache = FALSE; keeps_cache <= TRUE; keeps_cache++)
    {
      guint64 resident;
      Loaded loaded;

      load (&loaded, fixture->model, cache);
      check_values (&loaded);
      loaded.weights->keeps_cache = keeps_cache;
      unload (&loaded);
      resident = llm_file_map_count_resident (map, LLM_FILE_MAP_HUGE, G_MAXUINT64);
      /* the copy's thread may just have been reading ahead */
      for (guint i = 0; i < 1000 && !keeps_cache && !is_always_there && resident > 0; i++)
        {
          g_usleep (10000);
          resident = llm_file_map_count_resident (map, LLM_FILE_MAP_HUGE, G_MAXUINT64);
        }
      if (keeps_cache || is_always_there)
        g_assert_cmpuint (resident, ==, llm_file_map_get_size (map) - LLM_FILE_MAP_HUGE);
      else
        g_assert_cmpuint (resident, ==, 0);
    }
}

/* --- several processes --- */

static int
prepare_in_child (const char *model,
                  const char *folder)
{
  g_autoptr(LlmPreparedCache) cache = llm_prepared_cache_new (folder, FALSE, NULL, 0);
  Loaded loaded;

  for (guint i = 0; i < 5; i++)
    {
      load (&loaded, model, cache);
      check_values (&loaded);
      unload (&loaded);
    }
  return 0;
}

static void
test_processes (Fixture       *fixture,
                gconstpointer  data)
{
  const char *const argv[] = { program, "--child", fixture->model, fixture->cache, NULL };
  GSubprocess *children[6];
  g_autoptr(LlmPreparedCache) cache = llm_prepared_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autofree char *file = NULL;
  g_autofree char *same = NULL;
  g_autoptr(GError) error = NULL;
  guint64 inode;

  for (guint i = 0; i < G_N_ELEMENTS (children); i++)
    {
      children[i] = g_subprocess_newv (argv, G_SUBPROCESS_FLAGS_NONE, &error);
      g_assert_no_error (error);
    }
  for (guint i = 0; i < G_N_ELEMENTS (children); i++)
    {
      g_assert_true (g_subprocess_wait_check (children[i], NULL, &error));
      g_assert_no_error (error);
      g_object_unref (children[i]);
    }

  /* One good file is left, which is used from now on. */
  file = find_file (fixture->cache);
  g_assert_nonnull (file);
  inode = get_inode (file);
  load_and_check (fixture, cache);
  same = find_file (fixture->cache);
  g_assert_cmpuint (get_inode (same), ==, inode);
}

int
main (int   argc,
      char *argv[])
{
  program = argv[0];
  if (argc == 4 && strcmp (argv[1], "--child") == 0)
    return prepare_in_child (argv[2], argv[3]);

  g_test_init (&argc, &argv, NULL);

  g_test_add ("/prepared/round-trip", Fixture, NULL, set_up, test_round_trip, tear_down);
  g_test_add ("/prepared/second-load", Fixture, NULL, set_up, test_second_load, tear_down);
  g_test_add ("/prepared/other-model", Fixture, NULL, set_up, test_other_model, tear_down);
  g_test_add ("/prepared/damaged-head", Fixture, NULL, set_up, test_damaged_head, tear_down);
  g_test_add ("/prepared/other-order", Fixture, NULL, set_up, test_other_order, tear_down);
  g_test_add ("/prepared/made-again", Fixture, NULL, set_up, test_made_again, tear_down);
  g_test_add_func ("/prepared/trust", test_trust);
  g_test_add ("/prepared/system", Fixture, NULL, set_up, test_system, tear_down);
  g_test_add ("/prepared/no-room", Fixture, NULL, set_up, test_no_room, tear_down);
  g_test_add ("/prepared/disk-full", Fixture, NULL, set_up, test_disk_full, tear_down);
  g_test_add ("/prepared/damaged-in-use", Fixture, NULL, set_up, test_damaged_in_use, tear_down);
  g_test_add ("/prepared/model-cut", Fixture, NULL, set_up, test_model_cut, tear_down);
  g_test_add ("/prepared/verify", Fixture, NULL, set_up, test_verify, tear_down);
  g_test_add ("/prepared/limit", Fixture, NULL, set_up, test_limit, tear_down);
  g_test_add ("/prepared/give-back", Fixture, NULL, set_up, test_give_back, tear_down);
  g_test_add ("/prepared/processes", Fixture, NULL, set_up, test_processes, tear_down);
  return g_test_run ();
}
