/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Attention over context memory: who sees what, windows and caps against a
 * reference in double; the same bits whatever runs beside a row. */

#include <math.h>
#include <string.h>

#include "forward/llm-attention.h"

#define N_HEADS 6
#define N_KV_HEADS 2
#define HEAD_DIM 32
#define N_SEQUENCES 3
#define N_VALUES (N_KV_HEADS * HEAD_DIM)

static const guint lengths[N_SEQUENCES] = { 1307, 40, 530 };

/* Context memory of one layer, and what was written into it. */
typedef struct
{
  LlmKvStore *store;
  LlmKvSeq *sequences[N_SEQUENCES];
  float *k[N_SEQUENCES];     /* [slot × N_VALUES] */
  float *v[N_SEQUENCES];
  GArray *views;             /* (element-type LlmKvView) */
  guint first_view[N_SEQUENCES + 1];
} Memory;

typedef struct
{
  LlmRow rows[LLM_BATCH_MAX_ROWS];
  guint n_rows;
  float *q;
  float *out;
} Batch;

typedef struct
{
  float softcap;
  guint window;
} Variant;

static void
set_up (Memory     *memory,
        guint       chunk_slots,
        LlkKvFormat format)
{
  LlmKvLayout layout = { LLM_KV_FULL, format, 1, N_KV_HEADS, HEAD_DIM, chunk_slots };
  g_autoptr(GError) error = NULL;

  memory->store = llm_kv_store_new (&layout, NULL, NULL, &error);
  g_assert_no_error (error);
  memory->views = g_array_new (FALSE, FALSE, sizeof (LlmKvView));
  for (guint s = 0; s < N_SEQUENCES; s++)
    {
      gsize n = (gsize) lengths[s] * N_VALUES;

      memory->sequences[s] = llm_kv_seq_new (memory->store, NULL, NULL);
      g_assert_true (llm_kv_seq_append (memory->sequences[s], lengths[s], NULL));
      memory->k[s] = g_new (float, n);
      memory->v[s] = g_new (float, n);
      for (gsize i = 0; i < n; i++)
        {
          /* Halves hold them. */
          memory->k[s][i] = (float) g_test_rand_int_range (-2048, 2048) / 512;
          memory->v[s][i] = (float) g_test_rand_int_range (-1024, 1024) / 1024;
        }
      for (guint slot = 0; slot < lengths[s]; slot++)
        llm_kv_seq_write (memory->sequences[s], 0, slot, memory->k[s] + (gsize) slot * N_VALUES,
                          memory->v[s] + (gsize) slot * N_VALUES);

      memory->first_view[s] = memory->views->len;
      for (guint chunk = 0; chunk < memory->sequences[s]->holds->len; chunk++)
        {
          LlmKvView view;

          llm_kv_seq_view (memory->sequences[s], 0, chunk, &view);
          g_array_append_val (memory->views, view);
        }
    }
  memory->first_view[N_SEQUENCES] = memory->views->len;
}

static void
tear_down (Memory *memory)
{
  for (guint s = 0; s < N_SEQUENCES; s++)
    {
      llm_kv_seq_free (memory->sequences[s]);
      g_free (memory->k[s]);
      g_free (memory->v[s]);
    }
  g_array_unref (memory->views);
  llm_kv_store_free (memory->store);
}

static void
add_row (Batch            *batch,
         guint             sequence,
         guint             slot,
         gboolean          is_counted,
         LlmVisibilityKind visibility)
{
  LlmRow *row = &batch->rows[batch->n_rows++];

  *row = (LlmRow) { .sequence = sequence, .slot = slot, .position = slot };
  row->is_counted = is_counted;
  row->visibility.kind = visibility;
  if (visibility == LLM_VISIBLE_WINDOW)
    {
      row->visibility.window = 100;
      row->visibility.sinks = 3;
    }
  if (visibility == LLM_VISIBLE_TREE)
    {
      row->visibility.base = slot - 20;
      row->visibility.ancestors = (G_GUINT64_CONSTANT (1) << 20) | 0x1249;
    }
}

static void
fill_queries (Batch *batch)
{
  gsize n = (gsize) batch->n_rows * N_HEADS * HEAD_DIM;

  batch->q = g_new (float, n);
  batch->out = g_new (float, n);
  for (gsize i = 0; i < n; i++)
    batch->q[i] = (float) g_test_rand_double_range (-1, 1);
}

static void
clear_batch (Batch *batch)
{
  g_free (batch->q);
  g_free (batch->out);
}

/* Attention of the batch's rows in the order given, on scratch full of garbage. */
static void
run_rows (const Memory  *memory,
          const LlkOps  *kernels,
          guint          n_threads,
          const Variant *variant,
          const Batch   *batch,
          const guint   *order,
          const guint   *n_groups,
          guint          n_rows,
          float         *out,
          guint64       *received)
{
  g_autoptr(LlmWorkerPool) pool = llm_worker_pool_new (n_threads);
  gsize row = N_HEADS * HEAD_DIM;
  g_autofree float *q = g_new (float, n_rows * row);
  g_autofree guint64 *parts = g_new0 (guint64, n_threads * memory->views->len);
  g_autofree guint *first_mass = g_new (guint, n_rows);
  LlmAttention attention = {
    .kernels = kernels,
    .pool = pool,
    .n_heads = N_HEADS,
    .n_kv_heads = N_KV_HEADS,
    .head_dim = HEAD_DIM,
    .chunk_slots = memory->store->layout.chunk_slots,
    .format = memory->store->layout.format,
    .collects_density = received != NULL,
    .scale = 0.25f,
    .softcap = variant->softcap,
    .density_share = 1,
    .window = variant->window,
    .rows = batch->rows,
    .order = order,
    .n_groups = n_groups,
    .n_rows = n_rows,
    .first_view = memory->first_view,
    .views = (const LlmKvView *) (gconstpointer) memory->views->data,
    .n_views = memory->views->len,
    .q = q,
    .out = out,
  };
  gsize n_scratch = llm_attention_get_scratch (&attention);
  g_autofree guint8 *block = g_malloc (n_scratch + 64);

  for (guint i = 0; i < n_rows; i++)
    memcpy (q + i * row, batch->q + order[i] * row, row * sizeof (float));
  memset (block, 0xff, n_scratch + 64);
  attention.scratch = block + (64 - (guintptr) block % 64) % 64;
  for (guint i = 0; i < n_rows; i++)
    first_mass[i] = memory->first_view[batch->rows[order[i]].sequence];
  attention.received = parts;
  attention.first_mass = first_mass;
  attention.n_masses = memory->views->len;
  llm_attention_run (&attention);
  for (guint i = 0; received != NULL && i < n_threads * memory->views->len; i++)
    received[i % memory->views->len] += parts[i];
}

/* Where decoding would have put what a row sees in @slot. */
static guint
get_place (const LlmRow *row,
           guint         slot)
{
  const LlmVisibility *v = &row->visibility;
  guint place = v->base;

  if (v->kind != LLM_VISIBLE_TREE || slot < v->base)
    return slot;
  for (guint i = 0; i < MIN (slot - v->base, 64); i++)
    place += v->ancestors >> i & 1;
  return place;
}

/* Said once more, by slot. */
static gboolean
sees (const LlmRow  *row,
      const Variant *variant,
      guint          slot)
{
  const LlmVisibility *v = &row->visibility;
  guint place = get_place (row, slot);
  guint distance = get_place (row, row->slot) - place;   /* in positions */
  gboolean is_seen;

  switch (v->kind)
    {
    case LLM_VISIBLE_CAUSAL:
      is_seen = slot <= row->slot;
      break;
    case LLM_VISIBLE_WINDOW:
      is_seen = slot <= row->slot && (slot < v->sinks || distance < v->window);
      break;
    case LLM_VISIBLE_TREE:
      is_seen = slot < v->base
                || (slot - v->base < 64 && (v->ancestors >> (slot - v->base) & 1) != 0);
      is_seen = is_seen && (v->window == 0 || place < v->sinks || distance < v->window);
      break;
    case LLM_VISIBLE_SEGMENT:
      is_seen = TRUE;
      distance = slot < row->slot ? row->slot - slot : slot - row->slot;
      break;
    default:
      g_assert_not_reached ();
    }

  return is_seen && (variant->window == 0 || distance < variant->window);
}

static void
compute_reference (const Memory  *memory,
                   const LlmRow  *row,
                   const Variant *variant,
                   const float   *q,
                   guint          head,
                   double        *shares,
                   double        *out)
{
  guint length = lengths[row->sequence];
  gsize at = head / (N_HEADS / N_KV_HEADS) * HEAD_DIM;
  double max = -INFINITY, sum = 0;

  for (guint slot = 0; slot < length; slot++)
    {
      const float *k = memory->k[row->sequence] + (gsize) slot * N_VALUES + at;
      double score = 0;

      for (guint d = 0; d < HEAD_DIM; d++)
        score += (double) q[d] * k[d] * 0.25;
      if (variant->softcap != 0)
        score = variant->softcap * tanh (score / variant->softcap);
      shares[slot] = sees (row, variant, slot) ? score : -INFINITY;
      max = MAX (max, shares[slot]);
    }
  memset (out, 0, HEAD_DIM * sizeof *out);
  for (guint slot = 0; slot < length; slot++)
    sum += shares[slot] = exp (shares[slot] - max);
  for (guint slot = 0; slot < length; slot++)
    {
      shares[slot] /= sum;
      for (guint d = 0; d < HEAD_DIM; d++)
        out[d] += shares[slot]
                  * memory->v[row->sequence][(gsize) slot * N_VALUES + at + d];
    }
}

static void
assert_near (double found,
             double expected,
             double tolerance)
{
  if (!(fabs (found - expected) <= tolerance))
    g_error ("%.9g instead of %.9g, more than %g away", found, expected, tolerance);
}

static const Variant variants[] = { { 0, 0 }, { 5, 0 }, { 0, 70 }, { 2, 3 }, { 0, 5000 } };

/* All kinds of rows and sight in one batch; every chunk's attention as well. */
static void
test_reference (gconstpointer data)
{
  const LlkOps *kernels = data;
  static const guint chunk_slots[] = { 16, 48, 64 };

  for (guint i = 0; i < G_N_ELEMENTS (variants) * G_N_ELEMENTS (chunk_slots); i++)
    {
      const Variant *variant = &variants[i % G_N_ELEMENTS (variants)];
      guint slots = chunk_slots[i / G_N_ELEMENTS (variants)];
      Memory memory;
      Batch batch = { .n_rows = 0 };
      guint order[LLM_BATCH_MAX_ROWS];
      g_autofree guint64 *received = NULL;
      g_autofree double *expected_mass = NULL;
      double shares[1307], expected[HEAD_DIM];

      set_up (&memory, slots, i % 2 == 0 ? LLK_KV_F16 : LLK_KV_F32);
      for (guint counted = 0; counted < 2; counted++)
        {
          for (guint slot = 500; slot < 540; slot += 3)
            add_row (&batch, 0, slot, counted, LLM_VISIBLE_CAUSAL);
          add_row (&batch, 0, 1306, counted, LLM_VISIBLE_CAUSAL);
          add_row (&batch, 0, 1200, counted, LLM_VISIBLE_WINDOW);
          add_row (&batch, 0, 1040, counted, LLM_VISIBLE_TREE);
          add_row (&batch, 1, 0, counted, LLM_VISIBLE_CAUSAL);
          add_row (&batch, 1, 30, counted, LLM_VISIBLE_SEGMENT);
          add_row (&batch, 2, 529, counted, LLM_VISIBLE_CAUSAL);
        }
      fill_queries (&batch);
      for (guint r = 0; r < batch.n_rows; r++)
        order[r] = r;
      received = g_new0 (guint64, memory.views->len);
      expected_mass = g_new0 (double, memory.views->len);
      run_rows (&memory, kernels, 2, variant, &batch, order, NULL, batch.n_rows, batch.out,
                received);

      for (guint r = 0; r < batch.n_rows; r++)
        for (guint head = 0; head < N_HEADS; head++)
          {
            const LlmRow *row = &batch.rows[r];
            gsize at = ((gsize) r * N_HEADS + head) * HEAD_DIM;
            double tolerance = g_str_has_prefix (kernels->name, "amx") ? 3e-4 : 3e-5;

            compute_reference (&memory, row, variant, batch.q + at, head, shares, expected);
            for (guint d = 0; d < HEAD_DIM; d++)
              assert_near (batch.out[at + d], expected[d], tolerance);
            for (guint slot = 0; row->is_counted && slot < lengths[row->sequence]; slot++)
              expected_mass[memory.first_view[row->sequence] + get_place (row, slot) / slots]
                += shares[slot];
          }
      for (guint v = 0; v < memory.views->len; v++)
        assert_near ((double) received[v] / LLM_KV_DENSITY_ONE, expected_mass[v],
                     1e-3 * (1 + expected_mass[v]));
      clear_batch (&batch);
      tear_down (&memory);
    }
}

/* Threads, order, company, more generated rows than are split, and whether density
 * is collected: none of it changes a bit. */
static void
test_same_bits (gconstpointer data)
{
  const LlkOps *kernels = data;
  const gsize row = N_HEADS * HEAD_DIM;
  const Variant variant = { 0, 0 };
  Memory memory;
  Batch batch = { .n_rows = 0 };
  g_autofree float *found = NULL;
  g_autofree guint64 *received = NULL;
  g_autofree guint64 *other_mass = NULL;
  guint order[LLM_BATCH_MAX_ROWS];

  set_up (&memory, 16, LLK_KV_F16);
  for (guint i = 0; i < 60; i++)
    add_row (&batch, 0, 1000 + i, i < 30, LLM_VISIBLE_CAUSAL);
  for (guint i = 0; i < 40; i++)
    add_row (&batch, 1, i, i % 2, LLM_VISIBLE_CAUSAL);
  add_row (&batch, 2, 512, TRUE, LLM_VISIBLE_CAUSAL);
  add_row (&batch, 2, 400, FALSE, LLM_VISIBLE_WINDOW);
  fill_queries (&batch);
  found = g_new (float, batch.n_rows * row);

  /* Each alone. */
  for (guint r = 0; r < batch.n_rows; r++)
    run_rows (&memory, kernels, 1, &variant, &batch, &r, NULL, 1, batch.out + r * row, NULL);

  received = g_new0 (guint64, memory.views->len);
  for (guint round = 0; round < 12; round++)
    {
      guint n_rows = round < 4 ? batch.n_rows : (guint) g_test_rand_int_range (2, 40);

      for (guint i = 0; i < batch.n_rows; i++)
        order[i] = i;
      for (guint i = 0; round > 0 && i < batch.n_rows; i++)
        {
          guint j = (guint) g_test_rand_int_range ((gint) i, (gint) batch.n_rows);
          guint index = order[i];

          order[i] = order[j];
          order[j] = index;
        }
      run_rows (&memory, kernels, 1 + round % 3, &variant, &batch, order, NULL, n_rows, found,
                round == 0 ? received : NULL);
      for (guint i = 0; i < n_rows; i++)
        g_assert_cmpmem (found + i * row, row * sizeof (float), batch.out + order[i] * row,
                         row * sizeof (float));
    }

  other_mass = g_new0 (guint64, memory.views->len);
  run_rows (&memory, kernels, 3, &variant, &batch, order, NULL, batch.n_rows, found, other_mass);
  g_assert_cmpmem (received, memory.views->len * sizeof *received, other_mass,
                   memory.views->len * sizeof *received);
  clear_batch (&batch);
  tear_down (&memory);
}

/* Rows with fewer heads have what those heads give, nothing else is touched, and density is shared
 * among them. */
static void
test_groups (gconstpointer data)
{
  const LlkOps *kernels = data;
  const gsize row = N_HEADS * HEAD_DIM, group = row / N_KV_HEADS;
  const Variant variant = { 0, 0 };
  Memory memory;
  Batch batch = { .n_rows = 0 };
  guint order[60], n_groups[60];
  g_autofree float *found = NULL;
  g_autofree guint64 *received = NULL;

  set_up (&memory, 16, LLK_KV_F16);
  for (guint s = 0; s < N_SEQUENCES; s++)
    for (guint i = 0; i < 20; i++)
      {
        n_groups[batch.n_rows] = (i / 3 + s) % (N_KV_HEADS + 1);
        order[batch.n_rows] = batch.n_rows;
        add_row (&batch, s, (s == 0 ? 1200 : 10) + i, TRUE, LLM_VISIBLE_CAUSAL);
      }
  fill_queries (&batch);
  found = g_new (float, batch.n_rows * row);
  received = g_new0 (guint64, memory.views->len);
  run_rows (&memory, kernels, 1, &variant, &batch, order, NULL, batch.n_rows, batch.out, NULL);

  for (guint n_rows = 1; n_rows <= batch.n_rows; n_rows += n_rows < 20 ? 1 : 20)
    {
      guint64 sum = 0, expected = 0;

      for (gsize i = 0; i < n_rows * row; i++)
        found[i] = -77;
      memset (received, 0, memory.views->len * sizeof *received);
      run_rows (&memory, kernels, 1 + n_rows % 3, &variant, &batch, order, n_groups, n_rows, found,
                received);
      for (guint r = 0; r < n_rows; r++)
        {
          gsize n = n_groups[r] * group;

          g_assert_cmpmem (found + r * row, n * sizeof (float), batch.out + r * row,
                           n * sizeof (float));
          for (gsize i = n; i < row; i++)
            g_assert_cmpfloat (found[r * row + i], ==, -77);
          expected += n_groups[r] > 0 ? N_HEADS * LLM_KV_DENSITY_ONE : 0;
        }
      for (guint i = 0; i < memory.views->len; i++)
        sum += received[i];
      assert_near ((double) sum, (double) expected, 1e-5 * (double) expected);
    }
  clear_batch (&batch);
  tear_down (&memory);
}

/* Chunks behind the window may be gone, between others that may be packed. */
static void
test_gone (gconstpointer data)
{
  const LlkOps *kernels = data;
  const gsize row = N_HEADS * HEAD_DIM;
  const Variant variant = { 0, 70 };
  Memory memory;
  Batch batch = { .n_rows = 0 };
  guint order[40];
  g_autofree float *found = NULL;

  set_up (&memory, 16, LLK_KV_F16);
  for (guint i = 0; i < 20; i++)
    {
      add_row (&batch, 0, 620 + i, i % 2, LLM_VISIBLE_CAUSAL);
      order[i] = i;
    }
  fill_queries (&batch);
  found = g_new (float, batch.n_rows * row);
  run_rows (&memory, kernels, 2, &variant, &batch, order, NULL, batch.n_rows, found, NULL);

  for (guint chunk = 0; chunk < (620 - 69) / 16; chunk++)
    {
      LlmKvView *view = &g_array_index (memory.views, LlmKvView, chunk);

      view->k = NULL;
      view->v = NULL;
      view->format = chunk % 3 == 0 ? LLK_KV_Q4 : LLK_KV_F16;
    }
  run_rows (&memory, kernels, 2, &variant, &batch, order, NULL, batch.n_rows, batch.out, NULL);
  g_assert_cmpmem (found, batch.n_rows * row * sizeof (float), batch.out,
                   batch.n_rows * row * sizeof (float));
  clear_batch (&batch);
  tear_down (&memory);
}

/* The other way round: behind the end of a tree's path, a slot that no row sees. */
static guint
get_slot (const LlmRow *row,
          guint         place)
{
  const LlmVisibility *v = &row->visibility;
  guint slot = v->base;

  if (v->kind != LLM_VISIBLE_TREE || place < v->base)
    return place;
  for (guint64 path = v->ancestors; path != 0; path &= path - 1)
    if (place-- == v->base)
      return slot + (guint) __builtin_ctzll (path);
  return slot + LLM_TREE_MAX_NODES;
}

/* Any chunk of any size: bit by bit. */
static void
test_masks (void)
{
  for (guint round = 0; round < 20000; round++)
    {
      LlmRow row = { .slot = (guint) g_test_rand_int_range (0, 300) };
      Variant variant = { 0, g_test_rand_bit () ? (guint) g_test_rand_int_range (0, 40) : 0 };
      guint first = 16 * (guint) g_test_rand_int_range (0, 20);
      guint n_slots = (guint) g_test_rand_int_range (1, 65);
      guint64 mask;

      row.visibility = (LlmVisibility) {
        .kind = (LlmVisibilityKind) g_test_rand_int_range (0, 4),
        .window = (guint) g_test_rand_int_range (0, 80),
        .sinks = (guint) g_test_rand_int_range (0, 80),
        .base = (guint) g_test_rand_int_range (0, 200),
        .ancestors = (guint64) g_test_rand_int () << 32 | (guint32) g_test_rand_int (),
      };
      if (row.visibility.kind == LLM_VISIBLE_TREE)
        {
          row.slot = row.visibility.base + (guint) g_test_rand_int_range (0, 64);
          row.visibility.ancestors = (row.visibility.ancestors | G_GUINT64_CONSTANT (1) << 63)
                                     >> (63 - (row.slot - row.visibility.base));
          row.visibility.window *= (guint) g_test_rand_bit ();
        }
      g_assert_true (llm_visibility_is_valid (&row.visibility, row.slot));
      mask = llm_visibility_mask (&row.visibility, row.slot, variant.window, first, n_slots);
      for (guint i = 0; i < 64; i++)
        g_assert_cmpint (mask >> i & 1, ==,
                         i < n_slots && sees (&row, &variant, get_slot (&row, first + i)));
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/attention/masks", test_masks);
  for (const char *const *name = llk_ops_list (); *name != NULL; name++)
    {
      g_autofree char *reference = g_strdup_printf ("/attention/reference/%s", *name);
      g_autofree char *same_bits = g_strdup_printf ("/attention/same-bits/%s", *name);
      g_autofree char *groups = g_strdup_printf ("/attention/groups/%s", *name);
      g_autofree char *gone = g_strdup_printf ("/attention/gone/%s", *name);

      g_test_add_data_func (reference, llk_ops_find (*name), test_reference);
      g_test_add_data_func (same_bits, llk_ops_find (*name), test_same_bits);
      g_test_add_data_func (groups, llk_ops_find (*name), test_groups);
      g_test_add_data_func (gone, llk_ops_find (*name), test_gone);
    }

  return g_test_run ();
}
