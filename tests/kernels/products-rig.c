/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "products-rig.h"

void
prepare_row (Problem *p,
             gsize    r,
             gsize    n)
{
  gsize bytes = llk_activation_bytes (p->product->activation, p->w.n_in);

  p->ops->product->prepare (p->product->activation, p->x + r * p->w.n_in, n, p->w.n_in,
                            (guint8 *) p->rows + r * bytes);
}

void
prepare_rows (Problem *p)
{
  for (gsize r = 0; r < p->n_rows; r++)
    prepare_row (p, r, p->w.n_in);
}

static void
free_panels (Problem *p)
{
  for (gsize i = 0; i < p->w.n_pieces; i++)
    rig_free ((gpointer) p->pieces[i].panels);
}

guint8 *
get_panel (const Problem *p,
           gsize          i)
{
  return (guint8 *) p->pieces[0].panels + i * llk_panel_bytes (p->w.type, 0, p->pieces[0].n_in);
}

void
pack_panels (Problem *p)
{
  gsize in_first = 0;

  for (gsize i = 0; i < p->w.n_pieces; in_first += p->pieces[i].n_in, i++)
    {
      gsize n = p->pieces[i].n_in;
      gsize bytes = llk_panel_bytes (p->w.type, in_first, n);

      for (gsize panel = 0; panel < p->n_panels; panel++)
        llk_panel_pack (p->w.type, p->blocks, p->file_row_bytes, p->w.n_in, p->w.n_out,
                        panel * LLK_PANEL_OUTPUTS, in_first, n,
                        (guint8 *) p->pieces[i].panels + panel * bytes);
    }
}

void
cut_problem (Problem     *p,
             const gsize *n_in,
             const gsize *n_rows,
             gsize        n_pieces)
{
  gsize in_first = 0;

  free_panels (p);
  for (gsize i = 0; i < n_pieces; in_first += n_in[i], i++)
    p->pieces[i] = (LlkPiece) {
      .panels = rig_alloc (p->n_panels * llk_panel_bytes (p->w.type, in_first, n_in[i])),
      .n_in = n_in[i],
      .n_rows = n_rows[i],
    };
  g_assert_cmpuint (in_first, ==, p->w.n_in);
  p->w.n_pieces = n_pieces;
  pack_panels (p);
}

void
init_problem (Problem           *p,
              const ProductCase *of,
              gsize              n_in,
              gsize              n_out,
              gsize              n_rows)
{
  gsize n_blocks = n_in / llk_type_block_size (of->type);

  *p = (Problem) { .ops = of->ops, .n_rows = n_rows };
  p->product = of->ops->product->find (of->type);
  g_assert_nonnull (p->product);
  p->n_panels = (n_out + LLK_PANEL_OUTPUTS - 1) / LLK_PANEL_OUTPUTS;
  p->file_row_bytes = n_blocks * llk_type_block_bytes (of->type);
  p->blocks = g_malloc0 (p->file_row_bytes * n_out);
  p->x = g_new0 (gfloat, n_rows * n_in);
  p->rows = rig_alloc (n_rows * llk_activation_bytes (p->product->activation, n_in));
  p->w = (LlkMatrix) { .type = of->type, .n_in = n_in, .n_out = n_out, .pieces = p->pieces };
  cut_problem (p, &n_in, &(gsize) { G_MAXSIZE }, 1);
}

void
fill_problem (Problem *p,
              RigFill  weights,
              RigRows  rows)
{
  rig_fill_weights (p->w.type, weights, p->blocks,
                    p->w.n_out * p->w.n_in / llk_type_block_size (p->w.type));
  pack_panels (p);
  rig_fill_rows (rows, p->x, p->n_rows, p->w.n_in);
  prepare_rows (p);
}

void
clear_problem (Problem *p)
{
  free_panels (p);
  g_free (p->blocks);
  g_free (p->x);
  rig_free (p->rows);
}

void
multiply (const Problem *p,
          gsize          first_panel,
          gsize          n_panels,
          gsize          first_row,
          gsize          n_rows,
          gfloat        *y,
          gsize          y_stride,
          gboolean       is_added)
{
  gsize bytes = n_rows <= LLK_FEW_ROWS ? p->product->few_scratch : p->product->scratch;
  gsize row_bytes = llk_activation_bytes (p->product->activation, p->w.n_in);
  guint8 *scratch = rig_alloc (bytes + 64);

  p->product->multiply (&p->w, first_panel, n_panels, (guint8 *) p->rows + first_row * row_bytes,
                        n_rows, y, y_stride, is_added, bytes > 0 ? scratch : NULL);
  for (gsize i = 0; i < 64; i++)
    g_assert_cmphex (scratch[bytes + i], ==, 0xff);
  rig_free (scratch);
}

gfloat *
multiply_all (const Problem *p)
{
  gfloat *y = g_new (gfloat, p->n_rows * p->w.n_out);

  multiply (p, 0, p->n_panels, 0, p->n_rows, y, p->w.n_out, FALSE);
  return y;
}

void
assert_same (const gfloat *a,
             const gfloat *b,
             gsize         n)
{
  for (gsize i = 0; i < n; i++)
    if (!rig_is_same (a[i], b[i]))
      {
        g_test_message ("value %zu of %zu: %a, %a expected", i, n, (gdouble) a[i], (gdouble) b[i]);
        g_test_fail ();
        g_assert_not_reached ();
      }
}

void
add_tests (const gchar       *prefix,
           const ProductTest *tests,
           gsize              n_tests)
{
  for (const char *const *name = llk_ops_list (); *name != NULL; name++)
    for (guint type = 0; type < RIG_N_TYPES; type++)
      for (gsize i = 0; i < n_tests; i++)
        {
          ProductCase *data = g_new (ProductCase, 1);
          g_autofree gchar *path =
            g_strdup_printf ("/%s/%s/%s/%s", prefix, *name, llk_type_name (rig_types[type]),
                             tests[i].name);

          *data = (ProductCase) { llk_ops_find (*name), rig_types[type] };
          g_test_add_data_func_full (path, data, tests[i].func, g_free);
        }
}
