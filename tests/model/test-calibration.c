/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What prompts in W8A8 need, in companions: what is written is read again, beside what the file has
 * already; what is wrong somewhere is refused with a message that names it. And the weights for them:
 * a file of the panels that the definition packs, with and without segments, found again, dropped. */

#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "model/llm-companion.h"
#include "prepared-rig.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-levels.h"
#include "weights/llm-w8-weights.h"

#define N_LAYERS 2
#define N_SITES (N_LAYERS * LLM_W8_N_KINDS)
#define N_EMBD 64
#define N_FF 192

static const LlmTestModel shape = {
  .n_layers = N_LAYERS, .n_embd = N_EMBD, .n_heads = 4, .n_kv_heads = 2, .head_dim = 32, .n_ff = N_FF,
  .n_vocab = 384, .type = LLK_F16,
};

static LlmModel *
open_model (const char *folder)
{
  g_autofree char *path = g_build_filename (folder, "m.gguf", NULL);
  g_autoptr(GError) error = NULL;
  LlmModel *model;

  llm_test_model_write (&shape, path);
  model = llm_model_open (path, &error);
  g_assert_no_error (error);
  return model;
}

/* A scale for all sites but one, each with another number of hot channels. */
static LlmCalibration *
make_calibration (const LlmHparams *hparams)
{
  LlmCalibration *made = llm_calibration_new (hparams);

  for (guint at = 0; at < made->n_sites; at++)
    {
      guint n = llm_w8_kind_get_size (at % LLM_W8_N_KINDS, hparams);

      made->sites[at].scale = at == 5 ? 0 : (float) (at + 1) / 64;
      made->sites[at].has_shadow = at % 3 != 0;
      if (at % 3 == 0)
        continue;
      made->hot[at] = g_new0 (guint16, n);
      for (guint i = 0; i <= at; i++)
        made->hot[at][7 * i % n] = 1;
      for (guint i = 0, k = 0; i < n; i++)
        if (made->hot[at][i] != 0)
          made->hot[at][i] = (guint16) ++k;
      made->sites[at].hot_of = made->hot[at];
    }
  made->loss = (LlmCalibrationLoss) { 2, 2.0078125, 0.00390625, 0.25, 20400 };
  return made;
}

static void
write_companion (LlmModel             *model,
                 const LlmCalibration *calibration,
                 LlmGguf              *from)
{
  g_autofree char *path = llm_companion_get_path (llm_model_get_gguf (model)->path);
  g_autoptr(LlmGgufWriter) writer = llm_gguf_writer_new ();
  g_autoptr(GError) error = NULL;

  if (from != NULL)
    llm_gguf_writer_copy (writer, from, (const char *const[]) { LLM_CALIBRATION_PREFIX, NULL });
  else
    {
      llm_gguf_writer_add_string (writer, "general.type", "companion");
      llm_gguf_writer_add_uint (writer, "llmsvc.companion.version", LLM_COMPANION_VERSION);
      llm_gguf_writer_add_string (writer, "llmsvc.companion.weights",
                                  llm_model_get_weight_identity (model));
    }
  llm_calibration_write (calibration, llm_model_get_hparams (model), writer);
  g_assert_true (llm_gguf_writer_save (writer, path, &error));
}

static void
assert_equal (const LlmCalibration *made,
              const LlmCalibration *read,
              const LlmHparams     *hparams)
{
  for (guint at = 0; at < N_SITES; at++)
    {
      gsize bytes = llm_w8_kind_get_size (at % LLM_W8_N_KINDS, hparams) * sizeof (guint16);

      g_assert_cmpfloat (made->sites[at].scale, ==, read->sites[at].scale);
      g_assert_cmpint (made->sites[at].has_shadow, ==, read->sites[at].has_shadow);
      g_assert_true ((made->hot[at] == NULL) == (read->hot[at] == NULL));
      if (made->hot[at] != NULL)
        g_assert_cmpmem (made->sites[at].hot_of, bytes, read->sites[at].hot_of, bytes);
    }
  g_assert_cmpfloat (read->loss.exact_nll, ==, made->loss.exact_nll);
  g_assert_cmpfloat (read->loss.nll, ==, made->loss.nll);
  g_assert_cmpfloat (read->loss.divergence, ==, made->loss.divergence);
  g_assert_cmpfloat (read->loss.shadow_share, ==, made->loss.shadow_share);
  g_assert_cmpuint (read->loss.n_scored, ==, made->loss.n_scored);
  g_assert_cmpuint (llm_calibration_hash (made, hparams), ==, llm_calibration_hash (read, hparams));
}

/* Written again it takes the place of the earlier one, and the rest of the file stays. */
static void
test_round_trip (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autoptr(LlmModel) model = open_model (folder);
  const LlmHparams *hparams = llm_model_get_hparams (model);
  g_autoptr(LlmCalibration) made = make_calibration (hparams);
  guint64 hash = llm_calibration_hash (made, hparams);
  g_autoptr(LlmCompanion) companion = NULL, again = NULL;
  g_autoptr(GError) error = NULL;

  write_companion (model, made, NULL);
  companion = llm_companion_open (model, &error);
  g_assert_no_error (error);
  g_assert_false (companion->has_sub_models);
  g_assert_null (companion->thresholds);
  assert_equal (made, companion->calibration, hparams);
  g_assert_cmpfloat_with_epsilon (llm_calibration_get_growth (companion->calibration), 0.007843, 1e-5);
  g_assert_true (llm_calibration_is_near (companion->calibration));

  made->sites[0].scale = 2;
  g_assert_cmpuint (llm_calibration_hash (made, hparams), !=, hash);
  made->loss.divergence = 0.0078125;
  write_companion (model, made, companion->gguf);
  again = llm_companion_open (model, &error);
  g_assert_no_error (error);
  assert_equal (made, again->calibration, hparams);
  g_assert_false (llm_calibration_is_near (again->calibration));
  g_assert_cmpuint (again->gguf->keys->len, ==, companion->gguf->keys->len);
  llm_test_folder_remove (folder);
}

/* Keys of all kinds and tensors of a file are the same in its copy. */
static void
test_copy (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autoptr(LlmModel) model = open_model (folder);
  LlmGguf *from = llm_model_get_gguf (model);
  g_autofree char *path = g_build_filename (folder, "copy.gguf", NULL);
  g_autoptr(LlmGgufWriter) writer = llm_gguf_writer_new ();
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmModel) copy = NULL;
  LlmGguf *to;

  llm_gguf_writer_copy (writer, from, (const char *const[]) { "general.name", NULL });
  llm_gguf_writer_add_string (writer, "general.name", "a copy");
  g_assert_true (llm_gguf_writer_save (writer, path, &error));
  copy = llm_model_open (path, &error);
  g_assert_no_error (error);
  to = llm_model_get_gguf (copy);
  g_assert_cmpuint (to->tensors->len, ==, from->tensors->len);
  for (guint i = 0; i < from->tensors->len; i++)
    {
      const LlmGgufTensor *a = llm_gguf_get_tensor (from, i), *b = llm_gguf_get_tensor (to, i);

      g_assert_cmpstr (a->name, ==, b->name);
      g_assert_cmpmem (llm_file_map_get_data (from->map) + a->offset, a->bytes,
                       llm_file_map_get_data (to->map) + b->offset, b->bytes);
    }
  for (guint i = 0; i < from->keys->len; i++)
    {
      const LlmGgufKey *key = &g_array_index (from->keys, LlmGgufKey, i);
      const LlmGgufKey *same = llm_gguf_find_key (to, key->name);

      g_assert_nonnull (same);
      g_assert_cmpint (key->type, ==, same->type);
      if (!g_str_equal (key->name, "general.name"))
        g_assert_cmpuint (key->n_items, ==, same->n_items);
    }
  llm_test_folder_remove (folder);
}

/* --- wrong ones --- */

typedef struct
{
  const char *key;
  float number;
  guint n;                /* items, all of this number */
  gboolean is_int;
  const char *part;       /* of the message */
} Wrong;

#define KEY(name) "llmsvc.prefill." name

static const Wrong wrongs[] = {
  { KEY ("scales"), 1, N_SITES - 1, FALSE, "7 items, 8 are needed" },
  { KEY ("scales"), -1, N_SITES, FALSE, "is -1" },
  { KEY ("scales"), NAN, N_SITES, FALSE, "nan" },
  { KEY ("scales"), INFINITY, N_SITES, FALSE, "inf" },
  { KEY ("scales"), 1e-40f, N_SITES, FALSE, "too small" },
  { KEY ("scales"), 1, N_SITES, TRUE, "float32" },
  { KEY ("shadows"), 2, N_SITES, TRUE, "0 to 1" },
  { KEY ("shadows"), 1, N_SITES + 1, TRUE, "9 items" },
  { KEY ("n_hot"), 1, N_SITES - 1, TRUE, "7 items" },
  { KEY ("n_hot"), 2, N_SITES, TRUE, "of a site rise" },
  { KEY ("n_hot"), 65536, N_SITES, TRUE, "0 to 65535" },
  { KEY ("hot"), 1, N_SITES - 1, TRUE, "fewer than" },
  { KEY ("hot"), N_EMBD, N_SITES, TRUE, "below its 64 channels" },
  { KEY ("hot"), 1 << 30, N_SITES, TRUE, "0 to 65536" },
  { KEY ("losses"), 1, 3, FALSE, "4 are needed" },
  { KEY ("losses"), -1, 4, FALSE, "is -1" },
};

static GBytes *
make_wrong (LlmModel    *model,
            const Wrong *wrong,
            const char  *missing)
{
  const struct { const char *key; guint n; gboolean is_int; } right[] = {
    { KEY ("scales"), N_SITES, FALSE }, { KEY ("shadows"), N_SITES, TRUE },
    { KEY ("n_hot"), N_SITES, TRUE }, { KEY ("hot"), N_SITES, TRUE }, { KEY ("losses"), 4, FALSE },
  };
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);

  llm_test_gguf_add_string (gguf, "general.type", "companion");
  llm_test_gguf_add_int (gguf, "llmsvc.companion.version", LLM_GGUF_UINT32, 1);
  llm_test_gguf_add_string (gguf, "llmsvc.companion.weights", llm_model_get_weight_identity (model));
  for (guint i = 0; i < G_N_ELEMENTS (right); i++)
    {
      gboolean is_wrong = wrong != NULL && g_str_equal (right[i].key, wrong->key);
      guint n = is_wrong ? wrong->n : right[i].n;
      float numbers[N_SITES + 1];
      gint64 ints[N_SITES + 1];

      for (guint k = 0; k < n; k++)
        {
          numbers[k] = is_wrong ? wrong->number : 1;
          ints[k] = is_wrong ? (gint64) wrong->number : 1;
        }
      if (g_strcmp0 (missing, right[i].key) == 0)
        continue;
      if (is_wrong ? wrong->is_int : right[i].is_int)
        llm_test_gguf_add_ints (gguf, right[i].key, LLM_GGUF_UINT32, ints, n);
      else
        llm_test_gguf_add_floats (gguf, right[i].key, LLM_GGUF_FLOAT32, numbers, n);
    }
  if (g_strcmp0 (missing, KEY ("scored")) != 0)
    llm_test_gguf_add_int (gguf, KEY ("scored"), LLM_GGUF_UINT32, 1);
  return llm_test_gguf_end (gguf);
}

static void
expect_refused (LlmModel   *model,
                GBytes     *bytes,
                const char *part)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (bytes, "bad.gguf", &error);

  g_assert_no_error (error);
  g_assert_null (llm_companion_new_for_gguf (gguf, model, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
  if (strstr (error->message, part) == NULL || strstr (error->message, "llmsvc.prefill.") == NULL
      || strstr (error->message, "bad.gguf") == NULL)
    g_error ("“%s” is not in: %s", part, error->message);
}

static void
test_wrong (void)
{
  static const char *const keys[] = {
    KEY ("shadows"), KEY ("n_hot"), KEY ("hot"), KEY ("losses"), KEY ("scored"),
  };
  g_autofree char *folder = llm_test_folder_new ();
  g_autoptr(LlmModel) model = open_model (folder);

  for (guint i = 0; i < G_N_ELEMENTS (wrongs); i++)
    {
      g_autoptr(GBytes) bytes = make_wrong (model, &wrongs[i], NULL);

      expect_refused (model, bytes, wrongs[i].part);
    }
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      g_autoptr(GBytes) bytes = make_wrong (model, NULL, keys[i]);

      expect_refused (model, bytes, keys[i]);
    }
  llm_test_folder_remove (folder);
}

/* --- the weights --- */

/* The panels of a segment, as the definition packs what the mapped file shows of it. */
static void
check_matrix (LlmW8Weights         *prepared,
              LlmWeights           *mapped,
              const LlmCalibration *calibration,
              LlmOperator           op,
              guint                 layer,
              guint                 segment)
{
  const LlmW8Site *site = &calibration->sites[llm_w8_site_at (layer, llm_w8_kind_of (op))];
  const LlmActivation none = { 0 };
  LlmWeightView view = { 0 };
  LlkW8Matrix found;
  g_autofree float *values = NULL;
  g_autofree guint16 *hot_of = NULL;
  guint n_hot;
  gsize bytes;

  g_assert_cmpint (llm_weights_acquire (mapped, op, layer, segment, &none, &view, NULL), ==, LLM_READY);
  g_assert_cmpint (llm_w8_weights_find (prepared, op, layer, segment, &found), ==,
                   site->scale > 0 && view.in_count > 0 && view.out_count > 0);
  if (site->scale > 0 && view.in_count > 0 && view.out_count > 0)
    {
      LlkW8Matrix wanted = { view.in_count, view.out_count };
      int8_t *panel;

      hot_of = llm_w8_cut_hot (site, view.in_first, view.in_count, &n_hot);
      wanted.hot_of = hot_of;
      wanted.n_hot = n_hot;
      values = read_values (&view);
      bytes = llk_w8_panel_bytes (view.in_count, n_hot);
      panel = g_aligned_alloc (1, bytes, 64);
      g_assert_cmpuint (found.n_in, ==, view.in_count);
      g_assert_cmpuint (found.n_out, ==, view.out_count);
      g_assert_cmpuint (found.n_hot, ==, n_hot);
      for (guint first = 0; first < view.out_count; first += LLK_W8_OUTPUTS)
        {
          llk_w8_pack (&wanted, values + (gsize) first * view.in_count, view.in_count,
                       MIN (LLK_W8_OUTPUTS, view.out_count - first), panel);
          g_assert_cmpmem (found.panels + first / LLK_W8_OUTPUTS * bytes, bytes, panel, bytes);
        }
      g_aligned_free (panel);
    }
  llm_weights_release (mapped, &view);
}

static void
check_all (LlmW8Weights         *prepared,
           LlmModel             *model,
           const LlmSubModels   *table,
           const LlmCalibration *calibration)
{
  static const LlmOperator ops[] = {
    LLM_OP_QUERY, LLM_OP_KEY, LLM_OP_VALUE, LLM_OP_ATTENTION_OUT, LLM_OP_FFN_GATE, LLM_OP_FFN_UP,
    LLM_OP_FFN_DOWN,
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmWeights) mapped =
    llm_weights_new_mapped (llm_model_get_gguf (model), llm_model_get_hparams (model), table, NULL,
                            &error);

  g_assert_no_error (error);
  for (guint layer = 0; layer < N_LAYERS; layer++)
    for (guint i = 0; i < G_N_ELEMENTS (ops); i++)
      for (guint segment = 0; segment < mapped->sub_models->n_levels; segment++)
        check_matrix (prepared, mapped, calibration, ops[i], layer, segment);
}

static LlmW8Weights *
prepare (LlmModel             *model,
         const LlmSubModels   *table,
         const LlmCalibration *calibration,
         LlmRepackedCache     *cache,
         LlmLedger            *ledger)
{
  g_autoptr(GError) error = NULL;
  LlmW8Weights *made =
    llm_w8_weights_new (llm_model_get_gguf (model), llm_model_get_hparams (model), table,
                        calibration, cache, 1, ledger, &error);

  g_assert_no_error (error);
  llm_repacked_wait_for_all ();
  return made;
}

static void
test_weights (void)
{
  g_autofree char *folder = llm_test_folder_new_on_disk ();
  g_autofree char *cache_folder = g_build_filename (folder, "cache", NULL);
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (cache_folder, FALSE, NULL, 0);
  g_autoptr(LlmModel) model = open_model (folder);
  const LlmHparams *hparams = llm_model_get_hparams (model);
  g_autoptr(LlmCalibration) calibration = make_calibration (hparams);
  g_autoptr(LlmLedger) ledger = llm_ledger_new ();

  for (guint n_levels = 1; n_levels <= 3; n_levels += 2)
    {
      g_autoptr(LlmSubModels) table =
        n_levels > 1 ? llm_test_levels_new (hparams, n_levels, 64, TRUE) : NULL;
      g_autoptr(LlmW8Weights) made = prepare (model, table, calibration, cache, ledger);
      guint64 bytes = llm_w8_weights_get_bytes (made);

      g_assert_cmpuint (bytes, ==, llm_w8_weights_measure (llm_model_get_gguf (model), hparams, table,
                                                           calibration, NULL));
      check_all (made, model, table, calibration);
      g_assert_cmpuint (llm_ledger_get (ledger, LLM_LEDGER_SPARE), ==, bytes);
      /* the room of others is as if they were not there */
      g_assert_cmpuint (llm_ledger_get_used_backed (ledger), ==, 0);
      g_assert_cmpuint (llm_ledger_get_anonymous (ledger), ==, 0);
      g_assert_cmpuint (llm_ledger_get_total (ledger), ==, bytes);
      g_assert_cmpuint (llm_w8_weights_drop (made), ==, bytes);
      g_assert_cmpuint (llm_w8_weights_drop (made), ==, 0);
      g_assert_cmpuint (llm_ledger_get_total (ledger), ==, 0);
      check_all (made, model, table, calibration);
      llm_w8_weights_take (made);
      g_assert_true (llm_w8_weights_read_ahead (made, 0, bytes));
      g_assert_false (llm_w8_weights_read_ahead (made, bytes, 1));
      g_assert_true (llm_w8_weights_check (made, NULL));
      llm_w8_weights_free (g_steal_pointer (&made));
      g_assert_cmpuint (llm_ledger_get_total (ledger), ==, 0);

      /* from the file that was made; nothing of it is held before it is used */
      made = llm_w8_weights_find_file (llm_model_get_gguf (model), hparams, table, calibration, cache,
                                       ledger);
      g_assert_nonnull (made);
      g_assert_false (llm_w8_weights_are_held (made));
      g_assert_cmpuint (llm_ledger_get_total (ledger), ==, 0);
      check_all (made, model, table, calibration);
      llm_w8_weights_take (made);
      g_assert_cmpuint (llm_ledger_get_total (ledger), ==, bytes);
      llm_w8_weights_free (g_steal_pointer (&made));
      /* of other scales there is another one */
      calibration->sites[0].scale /= 2;
      g_assert_null (llm_w8_weights_find_file (llm_model_get_gguf (model), hparams, table, calibration,
                                               cache, ledger));
      made = prepare (model, table, calibration, cache, ledger);
      check_all (made, model, table, calibration);
    }
  llm_test_folder_remove (folder);
}

/* Nowhere to keep them. */
static void
test_nowhere (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (NULL, FALSE, NULL, 0);
  g_autoptr(LlmModel) model = open_model (folder);
  const LlmHparams *hparams = llm_model_get_hparams (model);
  g_autoptr(LlmCalibration) calibration = make_calibration (hparams);
  g_autoptr(LlmCalibration) empty = llm_calibration_new (hparams);
  g_autoptr(GError) error = NULL;

  g_assert_null (llm_w8_weights_new (llm_model_get_gguf (model), hparams, NULL, calibration, cache, 1,
                                     NULL, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_clear_error (&error);
  g_assert_null (llm_w8_weights_new (llm_model_get_gguf (model), hparams, NULL, empty, cache, 1,
                                     NULL, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
  llm_test_folder_remove (folder);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/calibration/round-trip", test_round_trip);
  g_test_add_func ("/calibration/copy", test_copy);
  g_test_add_func ("/calibration/wrong", test_wrong);
  g_test_add_func ("/calibration/weights", test_weights);
  g_test_add_func ("/calibration/nowhere", test_nowhere);

  return g_test_run ();
}
