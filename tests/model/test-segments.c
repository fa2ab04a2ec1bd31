/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Weights in segments, from both providers: what they show is what the whole matrix holds, and the
 * file of packed ones has its order, its table and nothing that is believed unseen. */

#include <string.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "kernels/llk.h"
#include "prepared-rig.h"
#include "support/llm-test-levels.h"

static const char *const kinds[N_KINDS] = { "mapped", "in memory", "in a file" };

/* --- views --- */

/* One segment is right, and goes on where those before it end. Returns the values it has. */
static guint64
check_segment (const LlmWeightView *view,
               const LlmWeightView *whole,
               const float         *whole_values,
               guint               *in_end,
               guint               *out_end)
{
  g_autofree float *values = NULL;

  g_assert_cmpint (view->type, ==, whole->type);
  g_assert_null (view->channels);
  if (view->in_count == 0 || view->out_count == 0)
    {
      g_assert_null (view->data);
      return 0;
    }
  g_assert_nonnull (view->data);
  g_assert_cmpuint (view->in_first, ==, view->in_count == whole->in_count ? 0 : *in_end);
  g_assert_cmpuint (view->out_first, ==, view->out_count == whole->out_count ? 0 : *out_end);
  *in_end = view->in_first + view->in_count;
  *out_end = view->out_first + view->out_count;
  g_assert_cmpuint (*in_end, <=, whole->in_count);
  g_assert_cmpuint (*out_end, <=, whole->out_count);
  if (view->layout == LLM_LAYOUT_PANELS)
    g_assert_cmpuint ((guintptr) view->data % LLK_PANEL_ALIGNMENT, ==, 0);

  values = read_values (view);
  for (guint out = 0; out < view->out_count; out++)
    g_assert_cmpmem (values + (gsize) out * view->in_count, view->in_count * sizeof (float),
                     whole_values + (gsize) (view->out_first + out) * whole->in_count
                       + view->in_first,
                     view->in_count * sizeof (float));
  return (guint64) view->in_count * view->out_count;
}

/* Returns how many segments of it are empty. */
static guint
check_operator (Loaded      *loaded,
                LlmWeights  *mapped,
                LlmOperator  op,
                guint        layer,
                gboolean     is_packed)
{
  g_autoptr(GError) error = NULL;
  g_autofree float *values = NULL;
  LlmWeightView whole;
  guint in_end = 0, out_end = 0, n_empty = 0;
  guint64 n_values = 0;

  g_assert_cmpint (llm_weights_acquire (mapped, op, layer, 0, NULL, &whole, &error), ==, LLM_READY);
  if (whole.data == NULL)
    return loaded->table->n_levels - 1;
  values = is_packed && llm_operator_is_matrix (op) && !llm_operator_is_looked_up (op)
             ? read_packed_values (&whole) : read_values (&whole);
  for (guint segment = 0; segment < loaded->table->n_levels; segment++)
    {
      LlmWeightView view;

      g_assert_cmpint (llm_weights_acquire (loaded->weights, op, layer, segment, NULL, &view,
                                            &error), ==, LLM_READY);
      g_assert_no_error (error);
      if (view.data != NULL)
        g_assert_cmpint (view.layout, ==, is_packed && llm_operator_is_matrix (op)
                                            && !llm_operator_is_looked_up (op)
                                            ? LLM_LAYOUT_PANELS : LLM_LAYOUT_ROWS);
      n_empty += view.data == NULL;
      n_values += check_segment (&view, &whole, values, &in_end, &out_end);
      llm_weights_release (loaded->weights, &view);
    }
  g_assert_cmpuint (n_values, ==, (guint64) whole.in_count * whole.out_count);
  llm_weights_release (mapped, &whole);
  return n_empty;
}

static void
check_views (Loaded  *loaded,
             gboolean is_packed)
{
  static const LlmOperator cut[] = {
    LLM_OP_QUERY, LLM_OP_ATTENTION_OUT, LLM_OP_FFN_GATE, LLM_OP_FFN_UP, LLM_OP_FFN_DOWN,
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmWeights) mapped =
    llm_weights_new_mapped (loaded->gguf, &loaded->hparams, NULL, NULL, &error);
  guint n_levels = loaded->table->n_levels;

  g_assert_no_error (error);
  mapped->keeps_cache = TRUE;
  for (guint op = 0; op < LLM_N_OPS; op++)
    for (guint layer = 0; layer < (llm_operator_is_layered (op) ? loaded->hparams.n_layers : 1);
         layer++)
      {
        guint n_empty = check_operator (loaded, mapped, op, layer, is_packed);
        gboolean is_cut = FALSE;

        for (guint i = 0; i < G_N_ELEMENTS (cut); i++)
          is_cut = is_cut || op == cut[i];
        if (is_cut)
          g_assert_cmpuint (n_empty, <, n_levels);
        else
          g_assert_cmpuint (n_empty, ==, n_levels - 1);
      }
}

typedef struct
{
  const char *name;
  const char *path;       /* (nullable): of a model, below the folder of */
  const char *environment; /* this variable; or else */
  LlmTestModel model;
  guint n_inputs;         /* for packed ones: borders that today's panels allow */
} ViewCase;

/* Nine levels of two or four groups: some add none. */
static const ViewCase view_cases[] = {
  { "8m-q8-0", "llmsvc-demo-8M-Q8_0.gguf", "LLM_MODEL_DIR", { 0 }, 64 },
  { "four-groups-q4-0", NULL, NULL,
    { .n_embd = 256, .n_heads = 8, .n_kv_heads = 4, .n_ff = 640, .n_layers = 3,
      .type = LLK_Q4_0, .is_untied = TRUE }, 64 },
  { "odd-f32", NULL, NULL,
    { .n_embd = 64, .n_heads = 4, .n_kv_heads = 2, .head_dim = 32, .n_ff = 333, .n_layers = 2,
      .type = LLK_F32 }, 64 },
  { "bf16", NULL, NULL,
    { .n_embd = 128, .n_heads = 4, .n_kv_heads = 4, .n_ff = 333, .n_layers = 2,
      .type = LLK_BF16 }, 64 },
  { "q4-k", "formats/Q4_K.gguf", "LLM_TEST_DATA", { 0 }, 256 },
  { "q6-k", "formats/Q6_K.gguf", "LLM_TEST_DATA", { 0 }, 256 },
  { "iq4-xs", "formats/IQ4_XS.gguf", "LLM_TEST_DATA", { 0 }, 256 },
  { "q5-1", "formats/Q5_1.gguf", "LLM_TEST_DATA", { 0 }, 64 },
  { "mxfp4", "formats/MXFP4.gguf", "LLM_TEST_DATA", { 0 }, 64 },
  { "biases", "architectures/phi3-long.gguf", "LLM_TEST_DATA", { 0 }, 64 },
};

static void
test_views (Fixture       *fixture,
            gconstpointer  data)
{
  static const guint n_levels[] = { 1, 2, 9 };
  const ViewCase *c = data;
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autofree char *path = c->path != NULL
                            ? g_build_filename (g_getenv (c->environment), c->path, NULL)
                            : g_build_filename (fixture->folder, "views.gguf", NULL);

  if (c->path == NULL)
    llm_test_model_write (&c->model, path);
  for (guint kind = 0; kind < N_KINDS; kind++)
    for (guint i = 0; i < G_N_ELEMENTS (n_levels); i++)
      {
        Loaded loaded;

        g_test_message ("%s, %u levels", kinds[kind], n_levels[i]);
        load_segments (&loaded, path, kind, n_levels[i], kind == MAPPED ? 64 : c->n_inputs, cache);
        check_views (&loaded, kind != MAPPED);
        unload (&loaded);
        if (kind != IN_FILE)
          continue;
        /* from the file that is there now */
        load_segments (&loaded, path, kind, n_levels[i], c->n_inputs, cache);
        check_views (&loaded, TRUE);
        unload (&loaded);
      }
}

/* --- the file --- */

static LlmRepackedPlan *
make_plan (LlmGguf          *gguf,
           const LlmHparams *hparams,
           guint             n_levels,
           gboolean          is_uneven)
{
  g_autoptr(LlmSubModels) table = llm_test_levels_new (hparams, n_levels, 64, is_uneven);
  g_autoptr(GError) error = NULL;
  LlmRepackedPlan *plan = llm_repacked_plan_new (gguf, hparams, table, NULL, &error);

  g_assert_no_error (error);
  return plan;
}

static const LlmTestModel big_model = {
  .n_embd = 256, .n_heads = 8, .n_kv_heads = 4, .n_ff = 640, .n_layers = 3, .type = LLK_Q8_0,
  .is_untied = TRUE,
};

/* Segment, layer, operator: a segment begins at a page, and has no gaps. */
static void
test_order (void)
{
  g_autoptr(GBytes) bytes = llm_test_model_new (&big_model);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (bytes, "built", &error);
  LlmHparams hparams;
  g_autoptr(LlmRepackedPlan) plan = NULL;
  g_autoptr(LlmRepackedPlan) whole = NULL;
  const LlmRepackedMatrix *last = NULL;
  guint64 at = 0, n_values = 0;
  guint n_shared = 0;

  g_assert_true (llm_hparams_read (gguf, &hparams, &error));
  plan = make_plan (gguf, &hparams, 9, TRUE);
  for (guint i = 0; i < plan->matrices->len; i++)
    {
      const LlmRepackedMatrix *m = &g_array_index (plan->matrices, LlmRepackedMatrix, i);

      if (last == NULL || m->segment != last->segment)
        {
          g_assert_cmpuint (m->segment, ==, last != NULL ? last->segment + 1 : 0);
          g_assert_cmpuint (m->offset % 4096, ==, 0);
          g_assert_cmpuint (m->offset, <, at + 4096);
        }
      else
        {
          g_assert_cmpuint (m->offset, ==, at);
          if (m->op != LLM_OP_OUTPUT)
            g_assert_true (m->layer > last->layer || (m->layer == last->layer && m->op > last->op));
          n_shared += m->offset % 4096 != 0;
        }
      g_assert_cmpuint (m->offset, >=, at);
      g_assert_cmpuint (m->offset % LLK_PANEL_ALIGNMENT, ==, 0);
      g_assert_true (m->op != LLM_OP_KEY || m->segment == 0);
      g_assert_true (llm_repacked_plan_find (plan, m->op, m->layer, m->segment) == m);
      at = m->offset + (guint64) m->n_panels * m->panel_bytes;
      n_values += (guint64) m->shape.in_count * m->shape.out_count;
      last = m;
    }
  g_assert_cmpuint (last->segment, ==, 8);
  g_assert_cmpuint (plan->bytes, ==, at);
  g_assert_cmpuint (n_shared, >, 0);

  /* all of the model */
  whole = make_plan (gguf, &hparams, 1, FALSE);
  for (guint i = 0; i < whole->matrices->len; i++)
    {
      const LlmRepackedMatrix *m = &g_array_index (whole->matrices, LlmRepackedMatrix, i);

      n_values -= (guint64) m->part.n_in * m->part.n_out;
    }
  g_assert_cmpuint (n_values, ==, 0);
}

/* Every byte of the head counts, the table's too, and so does the table that is wanted. */
static void
test_head (void)
{
  static const struct
  {
    guint n_levels;
    gboolean is_uneven;
  } tables[] = { { 9, TRUE }, { 9, FALSE }, { 2, TRUE }, { 2, FALSE }, { 1, FALSE } };
  g_autoptr(GBytes) bytes = llm_test_model_new (&big_model);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (bytes, "built", &error);
  g_autoptr(GHashTable) names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  LlmHparams hparams;

  g_assert_true (llm_hparams_read (gguf, &hparams, &error));
  for (guint i = 0; i < G_N_ELEMENTS (tables); i++)
    {
      g_autoptr(LlmRepackedPlan) plan =
        make_plan (gguf, &hparams, tables[i].n_levels, tables[i].is_uneven);
      g_autofree guint64 *checksums = g_new0 (guint64, plan->n_pieces);
      g_autoptr(GBytes) head = llm_repacked_head_new (plan, checksums, 1234, 5678);
      gsize size = g_bytes_get_size (head);
      g_autofree guint8 *file = g_malloc0 (plan->file_bytes);
      LlmRepackedHead read;
      const char *reason;

      g_assert_true (g_hash_table_add (names, llm_repacked_plan_get_name (plan)));
      memcpy (file, g_bytes_get_data (head, NULL), size);
      g_assert_true (llm_repacked_head_check (plan, file, plan->file_bytes, &read, &reason));
      for (gsize at = 0; at < size; at++)
        {
          file[at] ^= 0x40;
          g_assert_false (llm_repacked_head_check (plan, file, plan->file_bytes, &read, &reason));
          file[at] ^= 0x40;
        }
      for (guint j = 0; j < G_N_ELEMENTS (tables); j++)
        {
          g_autoptr(LlmRepackedPlan) other =
            make_plan (gguf, &hparams, tables[j].n_levels, tables[j].is_uneven);

          g_assert_cmpint (llm_repacked_head_check (other, file, plan->file_bytes, &read, &reason),
                           ==, i == j);
        }
    }
}

/* A head that is right in itself and in its sums, but lays matrices over each other, skips some, or
 * has them in another order: nothing of it is believed. */
static void
test_wrong_places (void)
{
  g_autoptr(GBytes) bytes = llm_test_model_new (&big_model);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (bytes, "built", &error);
  g_autoptr(LlmRepackedPlan) plan = NULL;
  g_autofree guint64 *checksums = NULL;
  LlmHparams hparams;

  g_assert_true (llm_hparams_read (gguf, &hparams, &error));
  plan = make_plan (gguf, &hparams, 9, TRUE);
  checksums = g_new0 (guint64, plan->n_pieces);
  for (guint i = 0; i < 6; i++)
    {
      g_autoptr(LlmRepackedPlan) other = make_plan (gguf, &hparams, 9, TRUE);
      LlmRepackedMatrix *m = &g_array_index (other->matrices, LlmRepackedMatrix, 20);
      g_autofree guint8 *file = g_malloc0 (plan->file_bytes);
      g_autoptr(GBytes) head = NULL;
      LlmRepackedHead read;
      const char *reason;

      if (i == 1)
        m->offset = m[-1].offset;
      else if (i == 2)
        m->segment--;
      else if (i == 3)
        m->shape.in_first += 64;
      else if (i == 4)
        m->shape.out_first += 64;
      else if (i == 5)
        m->offset = plan->bytes;
      head = llm_repacked_head_new (other, checksums, 1234, 5678);
      memcpy (file, g_bytes_get_data (head, NULL), g_bytes_get_size (head));
      g_assert_cmpint (llm_repacked_head_check (plan, file, plan->file_bytes, &read, &reason), ==,
                       i == 0);
    }
}

/* The file of one table under the name of another, a changed table, a short file: made anew. */
static void
test_made_anew (Fixture       *fixture,
                gconstpointer  data)
{
  g_autoptr(LlmRepackedCache) cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  g_autofree char *file = NULL;
  Loaded loaded;

  llm_test_model_write (&big_model, fixture->model);
  load_segments (&loaded, fixture->model, IN_FILE, 2, 64, cache);
  unload (&loaded);
  file = find_file (fixture->cache);
  for (guint i = 0; i < 4; i++)
    {
      g_autofree char *again = NULL;
      g_autofree char *moved = NULL;
      gint64 change;

      if (i == 0)
        {
          /* another table: another name, under which the old file is put */
          g_autoptr(LlmGguf) gguf = llm_gguf_open (fixture->model, NULL);
          g_autoptr(LlmRepackedPlan) plan = NULL;
          g_autofree char *folder = g_path_get_dirname (file);
          g_autofree char *name = NULL;
          LlmHparams hparams;

          g_assert_true (llm_hparams_read (gguf, &hparams, NULL));
          plan = make_plan (gguf, &hparams, 9, TRUE);
          name = llm_repacked_plan_get_name (plan);
          moved = g_build_filename (folder, name, NULL);
          g_assert_cmpstr (moved, !=, file);
          g_assert_cmpint (g_rename (file, moved), ==, 0);
          g_free (file);
          file = g_steal_pointer (&moved);
        }
      else if (i == 1)
        overwrite (file, 600, "wrong", 5, TRUE);
      else if (i == 2)
        g_assert_cmpint (truncate (file, 3 << 20), ==, 0);
      change = get_change (file);
      load_segments (&loaded, fixture->model, IN_FILE, 9, 64, cache);
      check_views (&loaded, TRUE);
      unload (&loaded);
      again = find_file (fixture->cache);
      g_assert_cmpstr (again, ==, file);
      if (i < 3)
        g_assert_cmpint (get_change (file), !=, change);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (view_cases); i++)
    {
      g_autofree char *path = g_strdup_printf ("/segments/views/%s", view_cases[i].name);

      g_test_add (path, Fixture, &view_cases[i], set_up, test_views, tear_down);
    }
  g_test_add_func ("/segments/order", test_order);
  g_test_add_func ("/segments/head", test_head);
  g_test_add_func ("/segments/wrong-places", test_wrong_places);
  g_test_add ("/segments/made-anew", Fixture, NULL, set_up, test_made_anew, tear_down);
  return g_test_run ();
}
