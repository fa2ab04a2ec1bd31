/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Prepared copies that are damaged, before or while they are used, and model files
 * that are: no crash, and right values or an error. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "common/llmsvc-error.h"
#include "prepared-rig.h"

/* Every byte of the head counts, and so does the length. */
static void
test_damaged_head (Fixture       *fixture,
                   gconstpointer  data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (fixture->model, &error);
  g_autoptr(LlmRepackedPlan) plan = NULL;
  g_autoptr(GBytes) head = NULL;
  g_autofree guint64 *checksums = NULL;
  g_autofree guint8 *file = NULL;
  const char *reason;
  LlmRepackedHead read;
  LlmHparams hparams;
  gsize size;

  g_assert_true (llm_hparams_read (gguf, &hparams, &error));
  plan = llm_repacked_plan_new (gguf, &hparams, NULL, NULL, &error);
  g_assert_no_error (error);
  checksums = g_new0 (guint64, plan->n_pieces);
  checksums[0] = 42;
  head = llm_repacked_head_new (plan, checksums, 1234, 5678);
  size = g_bytes_get_size (head);
  file = g_malloc0 (plan->file_bytes);
  memcpy (file, g_bytes_get_data (head, NULL), size);

  g_assert_true (llm_repacked_head_check (plan, file, plan->file_bytes, &read, &reason));
  g_assert_null (reason);
  g_assert_cmpint (read.modified_s, ==, 1234);
  g_assert_cmpuint (read.boot, ==, 5678);
  g_assert_cmpuint (read.checksums[0], ==, 42);
  for (gsize i = 0; i < size; i++)
    {
      file[i] ^= 0x10;
      g_assert_false (llm_repacked_head_check (plan, file, plan->file_bytes, &read, &reason));
      g_assert_nonnull (reason);
      file[i] ^= 0x10;
    }
  for (guint64 n = 0; n < plan->file_bytes; n += n < 1000 ? 1 : 4093)
    {
      g_autofree guint8 *cut = g_memdup2 (file, n);

      g_assert_false (llm_repacked_head_check (plan, cut, n, &read, &reason));
    }
  g_assert_false (llm_repacked_head_check (plan, file, plan->file_bytes - 1, &read, &reason));
}

/* A program that packs the same matrices in another order finds nothing wrong with the
 * sizes. */
static void
test_other_order (Fixture       *fixture,
                  gconstpointer  data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (fixture->model, &error);
  g_autoptr(LlmRepackedPlan) plan = NULL;
  g_autoptr(LlmRepackedPlan) other = NULL;
  g_autofree guint64 *checksums = NULL;
  const char *reason;
  LlmRepackedHead read;
  LlmHparams hparams;

  g_assert_true (llm_hparams_read (gguf, &hparams, &error));
  plan = llm_repacked_plan_new (gguf, &hparams, NULL, NULL, &error);
  other = llm_repacked_plan_new (gguf, &hparams, NULL, NULL, &error);
  g_assert_no_error (error);
  checksums = g_new0 (guint64, plan->n_pieces);

  for (gboolean is_changed = FALSE; is_changed <= TRUE; is_changed++)
    {
      g_autofree guint8 *file = g_malloc0 (plan->file_bytes);
      g_autoptr(GBytes) head = NULL;

      if (is_changed)
        {
          g_array_index (other->matrices, LlmRepackedMatrix, 0).op = LLM_OP_KEY;
          g_array_index (other->matrices, LlmRepackedMatrix, 1).op = LLM_OP_QUERY;
        }
      head = llm_repacked_head_new (other, checksums, 1234, 5678);
      memcpy (file, g_bytes_get_data (head, NULL), g_bytes_get_size (head));
      g_assert_cmpint (llm_repacked_head_check (plan, file, plan->file_bytes, &read, &reason), ==,
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
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);

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

/* The disk is full when the first piece comes. */
static void
test_disk_full (Fixture       *fixture,
                gconstpointer  data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (fixture->model, &error);
  g_autoptr(LlmRepackedPlan) plan = NULL;
  g_autofree guint64 *checksums = NULL;
  LlmHparams hparams;
  int fd = g_open ("/dev/full", O_WRONLY | O_CLOEXEC, 0);

  g_assert_cmpint (fd, >=, 0);
  g_assert_true (llm_hparams_read (gguf, &hparams, &error));
  plan = llm_repacked_plan_new (gguf, &hparams, NULL, NULL, &error);
  g_assert_no_error (error);
  checksums = g_new0 (guint64, plan->n_pieces);
  g_assert_false (llm_repack_in_file (plan, 2, fd, "/tmp/a folder/a file", checksums, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_assert_nonnull (strstr (error->message, g_strerror (ENOSPC)));
  g_assert_nonnull (strstr (error->message, "/tmp/a folder/a file"));
  g_assert_nonnull (strstr (error->message, "make room in the folder “/tmp/a folder”"));
  close (fd);
}

/* A copy that is cut, or written over, while it is in use: no crash, an error, and a
 * new copy with the next load. */
static void
test_damaged_in_use (Fixture       *fixture,
                     gconstpointer  data)
{
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);

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

      g_assert_cmpint (llm_weights_acquire (loaded.weights, LLM_OP_FFN_DOWN, 1, 0, NULL, &view,
                                            NULL), ==, LLM_READY);
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
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (fixture->model, &error);
  g_autoptr(LlmWeights) weights = NULL;
  LlmHparams hparams;

  g_assert_no_error (error);
  g_assert_true (llm_hparams_read (gguf, &hparams, &error));
  g_assert_cmpint (truncate (fixture->model, 100), ==, 0);
  weights = llm_weights_new_repacked (gguf, &hparams, NULL, cache, 2, NULL, &error);
  g_assert_null (weights);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
  g_assert_nonnull (strstr (error->message, "changed while it was in use"));
  llm_repacked_wait_for_all ();
  g_assert_null (find_file (fixture->cache));
}

/* Writes a new head as if the file were of an earlier start of the machine. */
static void
age (const char      *file,
     LlmRepackedPlan *plan)
{
  g_autofree char *bytes = NULL;
  g_autoptr(GBytes) head = NULL;
  LlmRepackedHead old;
  const char *reason;
  gsize size;

  g_assert_true (g_file_get_contents (file, &bytes, &size, NULL));
  g_assert_true (llm_repacked_head_check (plan, (const guint8 *) bytes, size, &old, &reason));
  head = llm_repacked_head_new (plan, old.checksums, old.modified_s, 1);
  overwrite (file, 0, g_bytes_get_data (head, NULL), g_bytes_get_size (head), TRUE);
}

/* What comes from the disk is compared, once. */
static void
test_verify (Fixture       *fixture,
             gconstpointer  data)
{
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (fixture->model, &error);
  g_autoptr(LlmRepackedPlan) plan = NULL;
  g_autofree char *file = NULL;
  LlmRepacked *copy;
  LlmHparams hparams;

  g_assert_true (llm_hparams_read (gguf, &hparams, &error));
  plan = llm_repacked_plan_new (gguf, &hparams, NULL, NULL, &error);
  g_assert_no_error (error);
  file = llm_repacked_cache_make (cache, gguf, &hparams, 2, &error);
  g_assert_no_error (error);

  /* all is well */
  age (file, plan);
  copy = llm_repacked_cache_get (cache, plan, 2, NULL, &error);
  llm_repacked_verify (copy);
  g_assert_false (llm_file_map_is_damaged (copy->map));
  g_assert_true (g_file_test (file, G_FILE_TEST_EXISTS));
  llm_repacked_free (copy);

  /* a bit fell over, and nothing else shows it */
  g_assert_cmpint (g_unlink (file), ==, 0);
  g_free (llm_repacked_cache_make (cache, gguf, &hparams, 2, &error));
  g_assert_no_error (error);
  age (file, plan);
  overwrite (file, -700, "x", 1, TRUE);
  copy = llm_repacked_cache_get (cache, plan, 2, NULL, &error);
  g_assert_false (llm_file_map_is_damaged (copy->map));
  llm_repacked_verify (copy);
  g_assert_true (llm_file_map_is_damaged (copy->map));
  g_assert_false (g_file_test (file, G_FILE_TEST_EXISTS));
  llm_repacked_free (copy);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add ("/prepared/damaged-head", Fixture, NULL, set_up, test_damaged_head, tear_down);
  g_test_add ("/prepared/other-order", Fixture, NULL, set_up, test_other_order, tear_down);
  g_test_add ("/prepared/made-again", Fixture, NULL, set_up, test_made_again, tear_down);
  g_test_add ("/prepared/disk-full", Fixture, NULL, set_up, test_disk_full, tear_down);
  g_test_add ("/prepared/damaged-in-use", Fixture, NULL, set_up, test_damaged_in_use, tear_down);
  g_test_add ("/prepared/model-cut", Fixture, NULL, set_up, test_model_cut, tear_down);
  g_test_add ("/prepared/verify", Fixture, NULL, set_up, test_verify, tear_down);
  return g_test_run ();
}
