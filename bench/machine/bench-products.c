/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of many rows with weights that are in the cache: W8A8 beside those of packed types, one
 * thread, in turns, with preparing the rows and writing the results.
 */

#include "machine/bench-limits.h"

#include "kernels/llk.h"

static int opt_inputs = 2048, opt_outputs = 256, opt_runs = 9;

static const GOptionEntry entries[] = {
  { "inputs", 0, 0, G_OPTION_ARG_INT, &opt_inputs, "Inputs of the matrix (2048)", "N" },
  { "outputs", 0, 0, G_OPTION_ARG_INT, &opt_outputs, "Its outputs (256)", "N" },
  { "runs", 0, 0, G_OPTION_ARG_INT, &opt_runs, "Samples of each figure (9)", "N" },
  G_OPTION_ENTRY_NULL
};

static const guint row_counts[] = { 64, 256, 512 };
#define MAX_ROWS 512
/* Of one sample. */
#define MIN_US 20000

typedef struct
{
  const LlkOps *ops;
  gsize n_in, n_out, n_panels;
  float *x, *y;
  guint8 *rows;
  LlkW8Matrix w8;
} Products;

static gpointer
new_bytes (GRand *random,
           gsize  n)
{
  guint8 *bytes = g_aligned_alloc (n, 1, 64);

  /* none of them makes a scale that is no number */
  for (gsize i = 0; i < n; i++)
    bytes[i] = (guint8) g_rand_int_range (random, 0, 60);
  return bytes;
}

static LlkW8Matrix
new_w8 (GRand *random,
        gsize  n_in,
        gsize  n_out)
{
  gsize n_panels = (n_out + LLK_W8_OUTPUTS - 1) / LLK_W8_OUTPUTS;
  gsize panel_bytes = llk_w8_panel_bytes (n_in, 0);
  int8_t *panels = g_aligned_alloc (n_panels, panel_bytes, 64);
  LlkW8Matrix made = { .n_in = n_in, .n_out = n_out, .panels = panels };
  g_autofree float *w = g_new (float, LLK_W8_OUTPUTS * n_in);

  for (gsize i = 0; i < LLK_W8_OUTPUTS * n_in; i++)
    w[i] = (float) g_rand_double_range (random, -1, 1);
  for (gsize p = 0; p < n_panels; p++)
    llk_w8_pack (&made, w, n_in, LLK_W8_OUTPUTS, panels + p * panel_bytes);
  return made;
}

static void
run_w8 (const Products *p,
        guint           n_rows)
{
  gsize bytes = llk_w8_row_bytes (p->n_in);

  for (guint r = 0; r < n_rows; r++)
    p->ops->w8->quantize (p->x + r * p->n_in, p->n_in, 1 / 127.0f,
                          (gpointer) (p->rows + r * bytes));
  p->ops->w8->multiply (&p->w8, 0, p->n_panels, (gpointer) p->rows, n_rows, p->y, p->n_out, FALSE);
}

static void
run_panels (const Products   *p,
            const LlkMatrix  *w,
            const LlkProduct *product,
            gpointer          scratch,
            guint             n_rows)
{
  gsize bytes = llk_activation_bytes (product->activation, p->n_in);

  for (guint r = 0; r < n_rows; r++)
    p->ops->product->prepare (product->activation, p->x + r * p->n_in, p->n_in, p->n_in,
                              p->rows + r * bytes);
  product->multiply (w, 0, p->n_panels, p->rows, n_rows, p->y, p->n_out, FALSE, scratch);
}

/* Operations in a microsecond, in thousands: Gop/s. @type: LLK_TYPE_LIMIT for W8A8. */
static double
measure (const Products *p,
         guint           type,
         gconstpointer   panels,
         guint           n_rows)
{
  const LlkPiece piece = { panels, p->n_in, n_rows };
  const LlkMatrix w = { type, p->n_in, p->n_out, &piece, 1 };
  const LlkProduct *product = type == LLK_TYPE_LIMIT ? NULL : p->ops->product->find (type);
  gpointer scratch = g_aligned_alloc (product != NULL ? product->scratch + 64 : 64, 1, 64);
  gint64 begin = g_get_monotonic_time (), now;
  guint n = 0;

  do
    {
      if (product == NULL)
        run_w8 (p, n_rows);
      else
        run_panels (p, &w, product, scratch, n_rows);
      n++;
      now = g_get_monotonic_time ();
    }
  while (now - begin < MIN_US);
  g_aligned_free (scratch);
  return 2.0 * n * n_rows * (double) p->n_in * (double) p->n_out / (double) (now - begin) / 1000;
}

static gboolean
run (Bench   *bench,
     GError **error)
{
  static const LlkType types[] = { LLK_Q8_0, LLK_Q4_0 };
  g_autoptr(GRand) random = g_rand_new_with_seed (1);
  Products p = { .ops = llk_ops_best () };
  gpointer panels[G_N_ELEMENTS (types)];

  if (opt_inputs < 256 || opt_inputs % 256 != 0 || opt_inputs > LLK_W8_MAX_INPUTS
      || opt_outputs < 16 || opt_outputs > 1 << 20 || opt_runs < 1)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                   "--inputs is a multiple of 256 up to %d, --outputs from 16 on, --runs 1 or more",
                   LLK_W8_MAX_INPUTS);
      return FALSE;
    }
  p.n_in = (gsize) opt_inputs;
  p.n_out = (gsize) opt_outputs;
  p.n_panels = (p.n_out + LLK_PANEL_OUTPUTS - 1) / LLK_PANEL_OUTPUTS;
  p.w8 = new_w8 (random, p.n_in, p.n_out);
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    panels[i] = new_bytes (random, p.n_panels * llk_panel_bytes (types[i], 0, p.n_in));
  p.x = g_aligned_alloc (MAX_ROWS * p.n_in, sizeof (float), 64);
  p.y = g_aligned_alloc (MAX_ROWS * p.n_out, sizeof (float), 64);
  p.rows = g_aligned_alloc (MAX_ROWS, 2 * p.n_in + 1024, 64);
  for (gsize i = 0; i < MAX_ROWS * p.n_in; i++)
    p.x[i] = (float) g_rand_double_range (random, -1, 1);

  for (int r = 0; r < opt_runs; r++)
    for (guint i = 0; i < G_N_ELEMENTS (row_counts); i++)
      {
        const BenchSet *set;
        const BenchPeak *peak = bench_set_find_peak (p.ops->name, "int8", &set);
        double w8 = measure (&p, LLK_TYPE_LIMIT, NULL, row_counts[i]);

        if (peak != NULL && i == 0)
          bench_add (bench, "Gop/s", bench_compute (peak, 1).steady / 1e9, "limit of %s",
                     peak->instruction);
        bench_add (bench, "Gop/s", w8, "W8A8, %u rows", row_counts[i]);
        for (guint t = 0; t < G_N_ELEMENTS (types); t++)
          {
            double packed = measure (&p, types[t], panels[t], row_counts[i]);

            bench_add (bench, "Gop/s", packed, "%s, %u rows", llk_type_name (types[t]),
                       row_counts[i]);
            bench_add (bench, "times", w8 / packed, "W8A8 beside %s, %u rows",
                       llk_type_name (types[t]), row_counts[i]);
          }
      }
  g_aligned_free ((gpointer) p.w8.panels);
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    g_aligned_free (panels[i]);
  g_aligned_free (p.x);
  g_aligned_free (p.y);
  g_aligned_free (p.rows);
  return TRUE;
}

const BenchCommand bench_products_command = {
  .name = "products",
  .summary = "products of many rows in the cache: W8A8 beside packed types",
  .entries = entries,
  .run = run,
};
