/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Panels that were taken apart into channels and put together again: all of them is the panel that
 * was; some of them, with a row that is zero at the others, the bits of the whole panel's product,
 * for every set and type, whatever the pieces.
 */

#include "kernels/llk-channels.h"
#include "products-rig.h"

#define N_OUT 37

static gsize
get_inputs (LlkType type)
{
  return llk_type_block_size (type) == 32 ? 1120 : 1280;
}

/* What becomes of a piece whose inputs are at @codes_at, of codes @stride apart. */
static void
gather_piece (Problem       *p,
              gsize          piece,
              gsize          in_first,
              const guint32 *codes_at,
              gsize          stride)
{
  const LlkType type = p->w.type;
  const gsize n = p->pieces[piece].n_in, bytes = llk_panel_bytes (type, in_first, n);
  const gsize head_bytes = llk_channels_head_bytes (type, in_first, n);
  guint8 *heads = rig_alloc (head_bytes), *codes = rig_alloc (n * stride);

  for (gsize i = 0; i < p->n_panels; i++)
    {
      guint8 *panel = (guint8 *) p->pieces[piece].panels + i * bytes;

      llk_channels_split (type, panel, in_first, n, heads, codes, stride);
      for (gsize j = 0; j < n; j++)
        if (codes_at[j] == LLK_NO_CHANNEL)
          memset (codes + j * stride, 0xff, llk_channel_bytes (type));
      memset (panel, 0xff, bytes);
      llk_channels_gather (type, heads, in_first, n, codes, codes_at, panel);
    }
  rig_free (heads);
  rig_free (codes);
}

/* @active: of each input, in percent. */
static void
check_active (const ProductCase *of,
              gsize              n_rows,
              guint              active,
              gsize              n_pieces)
{
  const gsize n_in = get_inputs (of->type), stride = llk_channel_bytes (of->type) + 5;
  gsize sizes[RIG_MAX_PIECES], all[RIG_MAX_PIECES], in_first = 0;
  g_autofree guint32 *codes_at = g_new (guint32, n_in);
  g_autofree gfloat *expected = NULL, *y = NULL;
  Problem p;

  init_problem (&p, of, n_in, N_OUT, n_rows);
  fill_problem (&p, RIG_NORMAL, RIG_ROWS_OUTLIERS);
  for (gsize i = 0; i < n_pieces; i++)
    {
      sizes[i] = i + 1 < n_pieces ? n_in / n_pieces / 64 * 64 : n_in - in_first;
      all[i] = G_MAXSIZE;
      in_first += sizes[i];
    }
  cut_problem (&p, sizes, all, n_pieces);
  for (gsize i = 0; i < n_in; i++)
    {
      gboolean is_there = (guint) g_test_rand_int_range (0, 100) < active && i / 64 != 3;

      codes_at[i] = is_there ? (guint32) (i * stride) : LLK_NO_CHANNEL;
      for (gsize r = 0; !is_there && r < n_rows; r++)
        p.x[r * n_in + i] = 0;
    }
  prepare_rows (&p);
  expected = multiply_all (&p);

  in_first = 0;
  for (gsize i = 0; i < n_pieces; in_first += sizes[i], i++)
    {
      g_autofree guint32 *of_piece = g_memdup2 (codes_at + in_first, sizes[i] * sizeof (guint32));

      for (gsize j = 0; j < sizes[i]; j++)
        of_piece[j] -= of_piece[j] != LLK_NO_CHANNEL ? (guint32) (in_first * stride) : 0;
      gather_piece (&p, i, in_first, of_piece, stride);
    }
  y = multiply_all (&p);
  assert_same (y, expected, n_rows * N_OUT);
  clear_problem (&p);
}

static void
test_active (gconstpointer data)
{
  const ProductCase *of = data;

  if (!llk_channels_have (of->type))
    return;
  check_active (of, 1, 50, 1);
  check_active (of, 1, 5, 3);
  check_active (of, 7, 30, 5);
  check_active (of, 40, 0, 1);
}

static void
test_all (gconstpointer data)
{
  const ProductCase *of = data;
  const gsize n_in = get_inputs (of->type), stride = llk_channel_bytes (of->type);
  g_autofree guint32 *codes_at = g_new (guint32, n_in);
  g_autofree guint8 *before = NULL;
  gsize bytes;
  Problem p;

  if (!llk_channels_have (of->type))
    return;
  init_problem (&p, of, n_in, N_OUT, 1);
  fill_problem (&p, RIG_ANY, RIG_ROWS_NORMAL);
  bytes = p.n_panels * llk_panel_bytes (of->type, 0, n_in);
  before = g_memdup2 (p.pieces[0].panels, bytes);
  for (gsize i = 0; i < n_in; i++)
    codes_at[i] = (guint32) (i * stride);
  gather_piece (&p, 0, 0, codes_at, stride);
  g_assert_cmpmem (p.pieces[0].panels, bytes, before, bytes);
  clear_problem (&p);
}

int
main (int   argc,
      char *argv[])
{
  static const ProductTest tests[] = {
    { "active", test_active },
    { "all", test_all },
  };

  g_test_init (&argc, &argv, NULL);
  add_tests ("channels", tests, G_N_ELEMENTS (tests));

  return g_test_run ();
}
