/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Prepared copies that stream from the disk: right values through the real queue, with what stays
 * and what does not; and copies that are damaged or written to meanwhile. */

#include <string.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "common/llmsvc-error.h"
#include "kernels/llk-panel.h"
#include "prepared-rig.h"
#include "weights/llm-weights-file-private.h"

/* Many pieces in a file. */
static const LlmTestModel large_model = {
  .n_embd = 512, .n_heads = 8, .n_kv_heads = 4, .n_ff = 2048, .n_layers = 3, .type = LLK_F32,
  .n_vocab = 300, .is_untied = TRUE,
};

typedef struct
{
  Loaded loaded;
  LlmRepackedCache *cache;
  char *file;
  LlmDisk *disk;
} Rig;

static void
load_rig (Rig     *rig,
          Fixture *fixture,
          guint64  ring)
{
  const LlmStreamConfig config = { .bytes = ring, .poisons = TRUE };
  LlmWeightSource source = llm_weight_source_of_disk (rig->disk);

  load (&rig->loaded, fixture->model, rig->cache);
  g_assert_true (llm_weights_stream (rig->loaded.weights, &source, &config));
}

static void
begin (Rig     *rig,
       Fixture *fixture)
{
  g_autoptr(GError) error = NULL;

  llm_test_model_write (&large_model, fixture->model);
  rig->cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  rig->disk = llm_disk_new (NULL, &error);
  g_assert_no_error (error);
  load_rig (rig, fixture, 16 << 20);
  rig->file = find_file (fixture->cache);
}

static void
end (Rig *rig)
{
  unload (&rig->loaded);
  llm_disk_free (rig->disk);
  llm_repacked_cache_free (rig->cache);
  g_free (rig->file);
}

/* One after the other, as a pass uses them; READY, or FAILED with the reason. Compares them with
 * @sums, by number, or fills these in. */
static LlmStatus
run_pass (Rig      *rig,
          guint     sums[],
          gboolean  is_first,
          GError  **error)
{
  guint n = 0;

  for (guint layer = 0; layer <= rig->loaded.hparams.n_layers; layer++)
    for (guint op = 0; op < LLM_N_OPS; op++)
      {
        gboolean is_layered = llm_operator_is_layered (op);
        LlmStatus status = LLM_PENDING;
        LlmWeightView view;
        guint sum = 0;
        gsize bytes;

        if (!llm_operator_is_matrix (op) || llm_operator_is_looked_up (op)
            || is_layered != (layer < rig->loaded.hparams.n_layers))
          continue;
        while (status == LLM_PENDING)
          {
            status = llm_weights_acquire (rig->loaded.weights, op, is_layered ? layer : 0, 0, NULL,
                                          &view, error);
            if (status == LLM_PENDING)
              llm_disk_poll (rig->disk, G_USEC_PER_SEC);
          }
        if (status == LLM_FAILED)
          return status;
        if (view.data == NULL)
          continue;
        bytes = llk_panel_bytes (view.type, 0, view.in_count)
                * ((view.out_count + LLK_PANEL_OUTPUTS - 1) / LLK_PANEL_OUTPUTS);
        for (gsize i = 0; i < bytes / sizeof (guint); i++)
          sum = sum * 31 + ((const guint *) view.data)[i];
        if (is_first)
          sums[n] = sum;
        g_assert_cmpuint (sums[n], ==, sum);
        n++;
        llm_weights_release (rig->loaded.weights, &view);
      }
  g_assert_cmpuint (n, >, 10);
  return llm_weights_check (rig->loaded.weights, error) ? LLM_READY : LLM_FAILED;
}

/* The values stay whatever streams; of what does, nothing is in the page cache. */
static void
test_values (Fixture       *fixture,
             gconstpointer  data)
{
  g_autoptr(GError) error = NULL;
  guint sums[100];
  LlmStreamFigures figures;
  guint64 all;
  Rig rig;

  begin (&rig, fixture);
  all = rig.loaded.weights->bytes;
  g_assert_cmpint (run_pass (&rig, sums, TRUE, &error), ==, LLM_READY);
  llm_weights_get_stream_figures (rig.loaded.weights, &figures);
  g_assert_cmpuint (figures.read_bytes, ==, 0);
  g_assert_cmpuint (llm_ledger_get (rig.loaded.ledger, LLM_HOLDER_WEIGHTS), ==, all);
  for (guint i = 0; i <= 8; i++)
    {
      guint64 keep = i < 8 ? all * ((i * 3) % 8) / 8 : G_MAXUINT64;

      llm_weights_keep (rig.loaded.weights, keep);
      for (guint pass = 0; pass < 2; pass++)
        g_assert_cmpint (run_pass (&rig, sums, FALSE, &error), ==, LLM_READY);
      g_assert_no_error (error);
      llm_weights_get_stream_figures (rig.loaded.weights, &figures);
      g_assert_cmpuint (figures.n_mapped, ==, 0);
      g_assert_cmpuint (llm_ledger_get (rig.loaded.ledger, LLM_HOLDER_WEIGHTS), ==,
                        all + figures.ring_bytes);
      g_assert_cmpuint (figures.ring_bytes > 0, ==, i < 8);
      if (i < 8)
        {
          g_autoptr(LlmFileMap) map = llm_file_map_open (rig.file, &error);

          g_assert_cmpuint (llm_file_map_count_resident (map, 0, G_MAXUINT64), <=,
                            keep + (4 << 20));
        }
    }
  g_assert_cmpuint (figures.read_bytes, >, all);
  end (&rig);
}

/* Layers that stay lie between others that stream, so that the disk has something to do while they
 * are computed: with half of them staying, no two that follow each other both stream, or stay. */
static void
test_spread (Fixture       *fixture,
             gconstpointer  data)
{
  const LlmTestModel deep = {
    .n_embd = 128, .n_heads = 4, .n_kv_heads = 4, .n_ff = 256, .n_layers = 8, .type = LLK_F32,
    .n_vocab = 300, .is_untied = TRUE,
  };
  g_autoptr(GError) error = NULL;
  guint64 layers = 0, bytes[8] = { 0 };
  LlmFileWeights *weights;
  Rig rig;

  llm_test_model_write (&deep, fixture->model);
  rig.cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  rig.disk = llm_disk_new (NULL, &error);
  g_assert_no_error (error);
  load_rig (&rig, fixture, 1 << 20);
  rig.file = find_file (fixture->cache);
  weights = (LlmFileWeights *) rig.loaded.weights;
  for (guint layer = 0; layer < 8; layer++)
    for (guint op = 0; op < LLM_N_OPS; op++)
      {
        guint place = llm_operator_is_layered (op) ? *llm_file_weights_place (weights, op, layer, 0)
                                                   : 0;

        if (place > 0 && llm_weight_ranges_get (&weights->ranges, place - 1)->in_pass > 0)
          bytes[layer] += llm_weight_ranges_get (&weights->ranges, place - 1)->length;
      }
  for (guint layer = 0; layer < 8; layer += 2)
    layers += bytes[layer];
  g_assert_cmpuint (layers, >, 0);
  llm_weights_keep (rig.loaded.weights, weights->first_panel + layers);
  for (guint layer = 0; layer < 8; layer++)
    for (guint op = 0; op < LLM_N_OPS; op++)
      {
        guint place = llm_operator_is_layered (op) ? *llm_file_weights_place (weights, op, layer, 0)
                                                   : 0;
        const LlmWeightRange *range;

        if (place == 0)
          continue;
        range = llm_weight_ranges_get (&weights->ranges, place - 1);
        if (range->in_pass > 0)
          g_assert_cmpint (llm_file_weights_streams (weights, range), ==, layer % 2 == 1);
      }
  end (&rig);
}

/* As if it had been written before the last start of the machine. */
static void
age (Rig *rig)
{
  g_autoptr(LlmRepackedPlan) plan = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *bytes = NULL;
  g_autoptr(GBytes) head = NULL;
  LlmRepackedHead old;
  const char *reason;
  gsize size;

  plan = llm_repacked_plan_new (rig->loaded.gguf, &rig->loaded.hparams, NULL, NULL, &error);
  g_assert_true (g_file_get_contents (rig->file, &bytes, &size, NULL));
  g_assert_true (llm_repacked_head_check (plan, (const guint8 *) bytes, size, &old, &reason));
  head = llm_repacked_head_new (plan, old.checksums, old.modified_s, 1);
  overwrite (rig->file, 0, g_bytes_get_data (head, NULL), g_bytes_get_size (head), TRUE);
}

/* A bit fell over on the disk, and nothing but the checksum shows it: the step fails, and the model
 * is whole when it is loaded again. */
static void
test_damage (Fixture       *fixture,
             gconstpointer  data)
{
  gboolean is_damaged = GPOINTER_TO_INT (data);
  guint sums[100];
  g_autoptr(GError) error = NULL;
  LlmStatus status;
  Rig rig;

  begin (&rig, fixture);
  g_assert_cmpint (run_pass (&rig, sums, TRUE, &error), ==, LLM_READY);
  age (&rig);
  if (is_damaged)
    overwrite (rig.file, -(9 << 20), "xyz", 3, TRUE);
  unload (&rig.loaded);
  load_rig (&rig, fixture, 16 << 20);
  llm_weights_keep (rig.loaded.weights, rig.loaded.weights->bytes / 4);
  status = run_pass (&rig, sums, is_damaged, &error);
  if (!is_damaged)
    {
      g_assert_no_error (error);
      g_assert_cmpint (status, ==, LLM_READY);
    }
  else
    {
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
      g_assert_cmpint (status, ==, LLM_FAILED);
      g_assert_false (llm_weights_check (rig.loaded.weights, NULL));
      g_assert_false (g_file_test (rig.file, G_FILE_TEST_EXISTS));
      unload (&rig.loaded);
      load_rig (&rig, fixture, 16 << 20);
      llm_weights_keep (rig.loaded.weights, 0);
      g_clear_error (&error);
      g_assert_cmpint (run_pass (&rig, sums, TRUE, &error), ==, LLM_READY);
      g_assert_no_error (error);
    }
  end (&rig);
}

/* Every piece is compared once, whatever the order of segments and the first that streams; also
 * where what streams and what stays alternate, as pieces of both are read up to their ends. */
static void
test_sums (Fixture       *fixture,
           gconstpointer  data)
{
  gboolean has_holes = GPOINTER_TO_INT (data);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  Loaded loaded;
  g_autoptr(LlmRepackedPlan) plan = NULL;
  g_autofree char *file = NULL;
  g_autofree char *bytes = NULL;
  const guint8 *matrices;
  LlmRepackedHead head;
  const char *reason;
  gsize size;

  llm_test_model_write (&large_model, fixture->model);
  load_segments (&loaded, fixture->model, IN_FILE, 3, 64, cache);
  plan = llm_repacked_plan_new (loaded.gguf, &loaded.hparams, loaded.table, NULL, &error);
  file = find_file (fixture->cache);
  g_assert_true (g_file_get_contents (file, &bytes, &size, NULL));
  g_assert_true (llm_repacked_head_check (plan, (const guint8 *) bytes, size, &head, &reason));
  matrices = (const guint8 *) bytes + plan->data_offset;
  g_assert_cmpuint (plan->n_pieces, >, 5);
  for (guint wrong = 0; wrong <= plan->n_pieces; wrong++)
    {
      g_autofree guint8 *is_passed = g_new0 (guint8, plan->n_pieces);
      g_autofree guint64 *checksums = g_memdup2 (head.checksums, plan->n_pieces * sizeof (guint64));
      g_autoptr(LlmStreamSums) sums = NULL;
      gboolean is_good = TRUE;
      guint n_left = 0;

      if (wrong < plan->n_pieces)
        checksums[wrong]++;
      sums = llm_stream_sums_new (plan, checksums);
      /* by operator, and of each all segments */
      for (guint layer = 0; layer <= loaded.hparams.n_layers; layer++)
        for (guint op = 0; op < LLM_N_OPS; op++)
          for (guint segment = 0; segment < 3; segment++)
            {
              gboolean is_layered = llm_operator_is_layered (op);
              const LlmRepackedMatrix *matrix, *next;
              guint64 matrix_end;

              if (is_layered != (layer < loaded.hparams.n_layers))
                continue;
              matrix = llm_repacked_plan_find (plan, op, is_layered ? layer : 0, segment);
              if (matrix == NULL)
                continue;
              next = matrix + 1;
              matrix_end = next == &g_array_index (plan->matrices, LlmRepackedMatrix,
                                                   plan->matrices->len)
                             ? plan->bytes : next->offset;
              if (has_holes && matrix->layer == 1)
                continue;
              for (guint64 at = matrix->offset; at < matrix_end; at++)
                is_passed[at / LLM_REPACKED_PIECE] = TRUE;
              is_good = is_good
                        && llm_stream_sums_take (sums, segment, matrix->offset,
                                                 matrices + matrix->offset,
                                                 matrix_end - matrix->offset,
                                                 matrix->offset == 0
                                                     || (matrix - 1)->segment != segment
                                                     || (has_holes && (matrix - 1)->layer == 1)
                                                   ? matrices : NULL,
                                                 has_holes && matrix_end < plan->bytes
                                                     && (next->segment != segment
                                                         || next->layer == 1)
                                                   ? matrices : NULL);
            }
      g_assert_cmpint (is_good, ==, wrong == plan->n_pieces || !is_passed[wrong]);
      for (guint i = 0; is_good && i < plan->n_pieces; i++)
        n_left += !is_passed[i];
      if (is_good)
        g_assert_cmpuint (llm_stream_sums_count (sums), ==, n_left);
    }
  unload (&loaded);
}

/* Another process writes into the file, or cuts it. */
static void
test_written (Fixture       *fixture,
              gconstpointer  data)
{
  gboolean is_cut = GPOINTER_TO_INT (data);
  guint sums[100];
  g_autoptr(GError) error = NULL;
  Rig rig;

  begin (&rig, fixture);
  llm_weights_keep (rig.loaded.weights, 0);
  g_assert_cmpint (run_pass (&rig, sums, TRUE, &error), ==, LLM_READY);
  if (is_cut)
    g_assert_cmpint (truncate (rig.file, 4 << 20), ==, 0);
  else
    overwrite (rig.file, -5, "x", 1, FALSE);
  llm_weights_drop (rig.loaded.weights, G_MAXUINT64);
  g_assert_cmpint (run_pass (&rig, sums, TRUE, &error), ==, LLM_FAILED);
  g_assert_nonnull (error);
  g_test_message ("%s", error->message);
  end (&rig);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add ("/prepared-stream/values", Fixture, NULL, set_up, test_values, tear_down);
  g_test_add ("/prepared-stream/spread", Fixture, NULL, set_up, test_spread, tear_down);
  g_test_add ("/prepared-stream/good", Fixture, GINT_TO_POINTER (FALSE), set_up, test_damage,
              tear_down);
  g_test_add ("/prepared-stream/damage", Fixture, GINT_TO_POINTER (TRUE), set_up, test_damage,
              tear_down);
  g_test_add ("/prepared-stream/sums", Fixture, GINT_TO_POINTER (FALSE), set_up, test_sums,
              tear_down);
  g_test_add ("/prepared-stream/sums-between", Fixture, GINT_TO_POINTER (TRUE), set_up, test_sums,
              tear_down);
  g_test_add ("/prepared-stream/written", Fixture, GINT_TO_POINTER (FALSE), set_up, test_written,
              tear_down);
  g_test_add ("/prepared-stream/cut", Fixture, GINT_TO_POINTER (TRUE), set_up, test_written,
              tear_down);
  return g_test_run ();
}
