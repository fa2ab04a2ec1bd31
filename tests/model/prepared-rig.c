/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "prepared-rig.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "io/llm-cache-folder.h"
#include "kernels/llk.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-levels.h"

const LlmTestModel small_model = {
  .n_layers = 2, .n_embd = 64, .n_heads = 4, .n_kv_heads = 2, .n_ff = 96, .n_vocab = 300,
  .type = LLK_Q8_0, .seed = 1,
};

void
set_up (Fixture       *fixture,
        gconstpointer  data)
{
  fixture->folder = llm_test_folder_new_on_disk ();
  fixture->cache = g_build_filename (fixture->folder, "cache", NULL);
  fixture->model = g_build_filename (fixture->folder, "model.gguf", NULL);
  llm_test_model_write (&small_model, fixture->model);
}

void
tear_down (Fixture       *fixture,
           gconstpointer  data)
{
  llm_repacked_wait_for_all ();
  llm_test_folder_remove (fixture->folder);
  g_free (fixture->folder);
  g_free (fixture->cache);
  g_free (fixture->model);
}

/* --- weights --- */

void
load_gguf (Loaded           *loaded,
           LlmGguf          *gguf,
           LlmRepackedCache *cache,
           guint             n_threads)
{
  g_autoptr(GError) error = NULL;

  loaded->gguf = llm_gguf_ref (gguf);
  loaded->table = NULL;
  g_assert_true (llm_hparams_read (gguf, &loaded->hparams, &error));
  g_assert_no_error (error);
  loaded->ledger = llm_ledger_new ();
  loaded->weights = llm_weights_new_repacked (gguf, &loaded->hparams, NULL, cache, n_threads,
                                              loaded->ledger, &error);
  g_assert_no_error (error);
  g_assert_nonnull (loaded->weights);
}

void
load (Loaded           *loaded,
      const char       *path,
      LlmRepackedCache *cache)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, &error);

  g_assert_no_error (error);
  load_gguf (loaded, gguf, cache, 2);
  llm_repacked_wait_for_all ();
}

void
load_segments (Loaded           *loaded,
               const char       *path,
               Kind              kind,
               guint             n_levels,
               guint             n_inputs,
               LlmRepackedCache *cache)
{
  g_autoptr(GError) error = NULL;

  loaded->gguf = llm_gguf_open (path, &error);
  g_assert_no_error (error);
  g_assert_true (llm_hparams_read (loaded->gguf, &loaded->hparams, &error));
  g_assert_no_error (error);
  loaded->table = llm_test_levels_new (&loaded->hparams, n_levels, n_inputs, TRUE);
  loaded->ledger = llm_ledger_new ();
  if (kind == MAPPED)
    loaded->weights = llm_weights_new_mapped (loaded->gguf, &loaded->hparams, loaded->table,
                                              loaded->ledger, &error);
  else
    loaded->weights = llm_weights_new_repacked (loaded->gguf, &loaded->hparams, loaded->table,
                                                kind == IN_FILE ? cache : NULL, 2,
                                                loaded->ledger, &error);
  g_assert_no_error (error);
  g_assert_true (loaded->weights->sub_models == loaded->table);
  llm_repacked_wait_for_all ();
}

float *
read_values (const LlmWeightView *view)
{
  guint n_in = view->in_count;
  guint before = view->in_first % (guint) llk_type_block_size (view->type);
  guint block = (guint) llk_type_block_size (view->type);
  guint n_whole = (before + n_in + block - 1) / block * block;
  g_autofree float *row = g_new (float, n_whole);
  float *values = g_new (float, (gsize) n_in * view->out_count);

  for (guint out = 0; out < view->out_count; out++)
    if (view->layout == LLM_LAYOUT_PANELS)
      {
        gsize panel_bytes = llk_panel_bytes (view->type, view->in_first, n_in);

        llk_panel_unpack (view->type,
                          (const guint8 *) view->data + out / LLK_PANEL_OUTPUTS * panel_bytes,
                          view->in_first, n_in, out % LLK_PANEL_OUTPUTS,
                          values + (gsize) out * n_in);
      }
    else
      {
        llk_ops_portable ()->vector->unpack (view->type,
                                             (const guint8 *) view->data + out * view->row_bytes,
                                             row, n_whole);
        memcpy (values + (gsize) out * n_in, row + before, n_in * sizeof (float));
      }
  return values;
}

float *
read_packed_values (const LlmWeightView *rows)
{
  guint n_in = rows->in_count;
  float *values = g_new (float, (gsize) n_in * rows->out_count);
  guint8 *panel = g_aligned_alloc0 (1, llk_panel_bytes (rows->type, 0, n_in), LLK_PANEL_ALIGNMENT);

  for (guint out = 0; out < rows->out_count; out++)
    {
      if (out % LLK_PANEL_OUTPUTS == 0)
        llk_panel_pack (rows->type, rows->data, rows->row_bytes, n_in, rows->out_count, out, 0,
                        n_in, panel);
      llk_panel_unpack (rows->type, panel, 0, n_in, out % LLK_PANEL_OUTPUTS,
                        values + (gsize) out * n_in);
    }
  g_aligned_free (panel);
  return values;
}

void
unload (Loaded *loaded)
{
  g_clear_pointer (&loaded->weights, llm_weights_free);
  g_assert_cmpuint (llm_ledger_get (loaded->ledger, LLM_HOLDER_WEIGHTS), ==, 0);
  g_clear_pointer (&loaded->ledger, llm_ledger_unref);
  g_clear_pointer (&loaded->table, llm_sub_models_free);
  g_clear_pointer (&loaded->gguf, llm_gguf_unref);
}

/* Products see panels alone: these are what packing the file's rows makes. */
static void
check_panels (const LlmWeightView *view,
              const LlmWeightView *rows)
{
  gsize bytes = llk_panel_bytes (view->type, 0, view->in_count);
  guint8 *wanted = g_aligned_alloc0 (1, bytes, LLK_PANEL_ALIGNMENT);

  g_assert_cmpuint ((guintptr) view->data % LLK_PANEL_ALIGNMENT, ==, 0);
  for (guint out = 0; out < view->out_count; out += LLK_PANEL_OUTPUTS)
    {
      llk_panel_pack (rows->type, rows->data, rows->row_bytes, rows->in_count, rows->out_count,
                      out, 0, rows->in_count, wanted);
      g_assert_cmpmem ((const guint8 *) view->data + out / LLK_PANEL_OUTPUTS * bytes, bytes,
                       wanted, bytes);
    }
  g_aligned_free (wanted);
}

void
check_values (const Loaded *loaded)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmWeights) mapped =
    llm_weights_new_mapped (loaded->gguf, &loaded->hparams, NULL, NULL, &error);

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
        else if (llm_operator_is_matrix (op) && !llm_operator_is_looked_up (op))
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

char *
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

guint64
get_inode (const char *path)
{
  struct stat status;

  g_assert_cmpint (g_stat (path, &status), ==, 0);
  return status.st_ino;
}

gint64
get_change (const char *path)
{
  struct stat status;

  g_assert_cmpint (g_stat (path, &status), ==, 0);
  return status.st_ctim.tv_sec * G_GINT64_CONSTANT (1000000000) + status.st_ctim.tv_nsec;
}

void
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

void
load_and_check (Fixture          *fixture,
                LlmRepackedCache *cache)
{
  Loaded loaded;

  load (&loaded, fixture->model, cache);
  check_values (&loaded);
  unload (&loaded);
}
