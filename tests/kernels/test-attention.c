/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Attention of every set, against a reference in double that
 * knows nothing of runs, and against itself with other company. */

#include <float.h>
#include <glib.h>
#include <math.h>
#include <string.h>

#include "kernels/llk.h"

#define MAX_QUERIES 40

/* One KV head of a sequence, and queries that each see something of it. */
typedef struct
{
  const LlkAttention *attention;
  gboolean has_tiles;
  LlkAttentionShape shape;
  gsize n_chunks;            /* of all runs */
  gsize n_queries;
  gsize value_bytes;

  float *k;                  /* [slot × head_dim], what the chunks hold */
  float *v;
  guint8 *data;              /* K and V of each chunk */
  GPtrArray *packed;         /* parts of packed chunks */
  LlkAttentionChunk *chunks;
  float *q;                  /* [n_queries × head_dim] */
  guint64 *masks;            /* [n_queries × n_chunks] */
} Case;

/* What became of the queries. */
typedef struct
{
  LlkAttentionState states[MAX_QUERIES];
  float *acc;                /* [n_queries × head_dim] */
  float *received;               /* [n_queries × n_chunks] */
  float *maxima;             /* [n_queries × n_chunks]: of the run of each chunk */
} Result;

static gsize
count_slots (const Case *c)
{
  return c->n_chunks * c->shape.chunk_slots;
}

static gboolean
sees (const Case *c,
      gsize       query,
      gsize       slot)
{
  return c->masks[query * c->n_chunks + slot / c->shape.chunk_slots]
         >> slot % c->shape.chunk_slots & 1;
}

static void
write_value (Case  *c,
             void  *place,
             gsize  index,
             float *value)
{
  guint16 half;

  if (!c->shape.is_half)
    {
      ((float *) place)[index] = *value;
      return;
    }
  llk_ops_portable ()->vector->f32_to_f16 (value, &half, 1);
  llk_ops_portable ()->vector->f16_to_f32 (&half, value, 1);
  ((guint16 *) place)[index] = half;
}

/* Puts k and v into the chunks, and what a half makes of them back. */
static void
write_slot (Case *c,
            gsize slot)
{
  gsize slots = c->shape.chunk_slots;
  gsize n = c->shape.head_dim;
  const LlkAttentionChunk *chunk = &c->chunks[slot / slots];

  for (gsize d = 0; d < n; d++)
    {
      write_value (c, (void *) chunk->k, d * slots + slot % slots, &c->k[slot * n + d]);
      write_value (c, (void *) chunk->v, slot % slots * n + d, &c->v[slot * n + d]);
    }
}

static Case *
new_case (const LlkOps *ops,
          gsize         head_dim,
          gsize         chunk_slots,
          gsize         n_chunks,
          gsize         n_queries,
          gboolean      is_half,
          double        spread)
{
  Case *c = g_new0 (Case, 1);
  gsize n, part;

  c->has_tiles = g_str_has_prefix (ops->name, "amx");
  c->attention = ops->attention;
  c->shape = (LlkAttentionShape) {
    .is_half = is_half, .head_dim = head_dim, .chunk_slots = chunk_slots,
    .scale = 1 / sqrtf ((float) head_dim),
  };
  c->n_chunks = n_chunks;
  c->n_queries = n_queries;
  c->value_bytes = is_half ? sizeof (guint16) : sizeof (float);
  n = count_slots (c) * head_dim;
  part = chunk_slots * head_dim * c->value_bytes;

  c->k = g_new (float, n);
  c->v = g_new (float, n);
  c->data = g_malloc (2 * part * n_chunks);
  c->packed = g_ptr_array_new_with_free_func (g_free);
  c->chunks = g_new (LlkAttentionChunk, n_chunks);
  c->q = g_new (float, n_queries * head_dim);
  c->masks = g_new (guint64, n_queries * n_chunks);
  for (gsize i = 0; i < n_chunks; i++)
    c->chunks[i] = (LlkAttentionChunk) { c->data + 2 * i * part, c->data + (2 * i + 1) * part };
  for (gsize i = 0; i < n; i++)
    {
      c->k[i] = (float) (g_test_rand_double_range (-1, 1) * spread);
      c->v[i] = (float) g_test_rand_double_range (-1, 1);
    }
  for (gsize i = 0; i < n_queries * head_dim; i++)
    c->q[i] = (float) g_test_rand_double_range (-1, 1);
  for (gsize slot = 0; slot < count_slots (c); slot++)
    write_slot (c, slot);
  return c;
}

static void
free_case (Case *c)
{
  g_free (c->k);
  g_free (c->v);
  g_free (c->data);
  g_ptr_array_unref (c->packed);
  g_free (c->chunks);
  g_free (c->q);
  g_free (c->masks);
  g_free (c);
}

static guint64
all_slots (const Case *c)
{
  return G_MAXUINT64 >> (64 - c->shape.chunk_slots);
}

/* Packs one part of a chunk, and takes into k or v what is left of it. */
static const void *
pack_part (Case       *c,
           gsize       chunk,
           LlkKvPart   part,
           LlkKvFormat format,
           float      *values)
{
  gsize slots = c->shape.chunk_slots, dim = c->shape.head_dim;
  guint8 *packed = g_malloc (llk_kv_part_bytes (format, part, dim, slots));
  g_autofree float *x = g_new (float, slots * dim);

  g_ptr_array_add (c->packed, packed);
  for (gsize s = 0; s < slots; s++)
    for (gsize d = 0; d < dim; d++)
      x[part == LLK_KV_KEYS ? d * slots + s : s * dim + d] = values[(chunk * slots + s) * dim + d];
  llk_ops_portable ()->kv->pack (format, part, dim, slots, x, NULL, packed);
  llk_ops_portable ()->kv->unpack (format, part, dim, slots, packed, x, false);
  for (gsize s = 0; s < slots; s++)
    for (gsize d = 0; d < dim; d++)
      values[(chunk * slots + s) * dim + d] = x[part == LLK_KV_KEYS ? d * slots + s : s * dim + d];
  return packed;
}

/* Chunks of all formats, whatever comes, or all of @format. */
static void
pack_chunks (Case       *c,
             LlkKvFormat format)
{
  for (gsize i = 0; i < c->n_chunks; i++)
    {
      LlkKvFormat chosen = format;

      if (!llk_kv_is_packed (format))
        chosen = (LlkKvFormat) g_test_rand_int_range (LLK_KV_F16, LLK_N_KV_FORMATS);
      if (!llk_kv_is_packed (chosen))
        continue;
      c->chunks[i].k = pack_part (c, i, LLK_KV_KEYS, chosen, c->k);
      c->chunks[i].v = pack_part (c, i, LLK_KV_VALUES, chosen, c->v);
      c->chunks[i].format = chosen;
    }
}

/* Prompts, holes, chunks that nobody sees. */
static void
fill_masks (Case *c)
{
  for (gsize i = 0; i < c->n_queries; i++)
    for (gsize chunk = 0; chunk < c->n_chunks; chunk++)
      {
        guint64 mask = (guint64) g_test_rand_int () << 32 | (guint32) g_test_rand_int ();

        switch (g_test_rand_int_range (0, 5))
          {
          case 0:
          case 1:
            mask = G_MAXUINT64;
            break;
          case 2:
            mask = 0;
            break;
          case 3:
            if (i > 0)
              mask = c->masks[(i - 1) * c->n_chunks + chunk];
            break;
          default:
            break;
          }
        c->masks[i * c->n_chunks + chunk] = mask & all_slots (c);
      }
}

/* What a slot that nobody sees may hold. */
static void
spoil_hidden (Case *c)
{
  static const float wrong[] = { NAN, INFINITY, -INFINITY, 60000 };

  for (gsize slot = 0; slot < count_slots (c); slot++)
    {
      gboolean is_seen = FALSE;

      for (gsize i = 0; i < c->n_queries; i++)
        is_seen |= sees (c, i, slot);
      if (is_seen)
        continue;
      for (gsize d = 0; d < c->shape.head_dim; d++)
        {
          c->k[slot * c->shape.head_dim + d] = wrong[g_test_rand_int_range (0, 4)];
          c->v[slot * c->shape.head_dim + d] = wrong[g_test_rand_int_range (0, 4)];
        }
      write_slot (c, slot);
    }
}

/* Queries [@first, @first + @n) through all runs. Scratch memory holds garbage. */
static void
run_case (const Case *c,
          gsize       first,
          gsize       n,
          Result     *result)
{
  gsize n_scratch = c->attention->get_scratch (&c->shape);
  guint8 *block = g_malloc (n_scratch + 128);
  guint8 *scratch = block + (64 - (guintptr) block % 64) % 64;
  gsize run = LLK_ATTENTION_RUN / c->shape.chunk_slots;
  LlkAttentionQuery queries[MAX_QUERIES];

  memset (scratch, 0xff, n_scratch);
  memset (scratch + n_scratch, 0x5a, 64);
  result->acc = g_new (float, n * c->shape.head_dim);
  result->received = g_new0 (float, n * c->n_chunks);
  result->maxima = g_new0 (float, n * c->n_chunks);
  for (gsize i = 0; i < n; i++)
    {
      result->states[i].acc = result->acc + i * c->shape.head_dim;
      llk_attention_begin (&result->states[i], c->shape.head_dim);
    }

  for (gsize at = 0; at < c->n_chunks; at += run)
    {
      gsize n_chunks = MIN (run, c->n_chunks - at);

      for (gsize i = 0; i < n; i++)
        queries[i] = (LlkAttentionQuery) {
          c->q + (first + i) * c->shape.head_dim, c->masks + (first + i) * c->n_chunks + at,
          &result->states[i], i % 3 == 1 ? NULL : result->received + i * c->n_chunks + at, NAN,
        };
      c->attention->attend (&c->shape, c->chunks + at, n_chunks, queries, n, scratch);
      for (gsize i = 0; i < n; i++)
        for (gsize chunk = at; chunk < at + n_chunks; chunk++)
          result->maxima[i * c->n_chunks + chunk] = queries[i].max;
    }

  for (gsize i = 0; i < 64; i++)
    g_assert_cmphex (scratch[n_scratch + i], ==, 0x5a);
  g_free (block);
}

static void
clear_result (Result *result)
{
  g_free (result->acc);
  g_free (result->received);
  g_free (result->maxima);
}

/* --- the reference --- */

/* Softmax in double; zeros where nothing is seen. Returns the largest magnitude
 * of a score before it is capped. */
static double
compute_reference (const Case *c,
                   gsize       query,
                   double     *shares,
                   double     *out)
{
  gsize n = c->shape.head_dim;
  double max = -INFINITY, sum = 0, largest = 0;

  for (gsize s = 0; s < count_slots (c); s++)
    if (sees (c, query, s))
      {
        double score = 0, magnitude = 0;

        for (gsize d = 0; d < n; d++)
          {
            double product = (double) c->q[query * n + d] * c->k[s * n + d] * c->shape.scale;

            score += product;
            magnitude += fabs (product);
          }
        largest = MAX (largest, magnitude);
        if (c->shape.softcap != 0)
          score = c->shape.softcap * tanh (score / c->shape.softcap);
        shares[s] = score;
        max = MAX (max, score);
      }
  for (gsize s = 0; s < count_slots (c); s++)
    {
      shares[s] = sees (c, query, s) ? exp (shares[s] - max) : 0;
      sum += shares[s];
    }
  memset (out, 0, n * sizeof *out);
  for (gsize s = 0; s < count_slots (c); s++)
    if (shares[s] > 0)
      {
        shares[s] /= sum;
        for (gsize d = 0; d < n; d++)
          out[d] += shares[s] * c->v[s * n + d];
      }
  return largest;
}

static void
assert_near (double found,
             double expected,
             double tolerance)
{
  if (!(fabs (found - expected) <= tolerance))
    g_error ("%.9g instead of %.9g, more than %g away", found, expected, tolerance);
}

/* As kernels/llk-attention.h states, V being at most 1. */
static double
get_tolerance (const Case *c,
               double      largest)
{
  return c->has_tiles ? 0x1p-15 * (1 + largest) : 1e-6 * (8 + largest);
}

static void
check_query (const Case   *c,
             const Result *result,
             gsize         query)
{
  gsize n = c->shape.head_dim;
  g_autofree double *shares = g_new (double, count_slots (c));
  double expected[LLK_MAX_HEAD_DIM];
  float found[LLK_MAX_HEAD_DIM];
  double tolerance = get_tolerance (c, compute_reference (c, query, shares, expected));
  const LlkAttentionState *state = &result->states[query];

  llk_attention_end (state, found, n);
  for (gsize d = 0; d < n; d++)
    assert_near (found[d], expected[d], tolerance);
  if (query % 3 == 1)
    return;

  for (gsize chunk = 0; chunk < c->n_chunks; chunk++)
    {
      gsize at = query * c->n_chunks + chunk;
      double received = 0, found_mass = 0;

      for (gsize s = 0; s < c->shape.chunk_slots; s++)
        received += shares[chunk * c->shape.chunk_slots + s];
      if (result->received[at] != 0)
        found_mass = result->received[at] * exp ((double) result->maxima[at] - state->max)
                     / state->sum;
      assert_near (found_mass, received, tolerance);
      if (c->masks[at] == 0)
        g_assert_cmpfloat (result->received[at], ==, 0);
    }
}

static void
assert_same (const Case   *c,
             const Result *a,
             gsize         i,
             const Result *b,
             gsize         j)
{
  gsize n = c->shape.head_dim;

  g_assert_cmpmem (&a->states[i].max, sizeof (float), &b->states[j].max, sizeof (float));
  g_assert_cmpmem (&a->states[i].sum, sizeof (float), &b->states[j].sum, sizeof (float));
  g_assert_cmpmem (a->states[i].acc, n * sizeof (float), b->states[j].acc, n * sizeof (float));
}

/* --- tests --- */

static const gsize dims[] = { 1, 5, 16, 31, 32, 64, 80, 96, 112, 128, 256, 512, 576 };
static const gsize chunk_sizes[] = { 16, 32, 48, 64 };

static void
test_reference (gconstpointer data)
{
  static const double spreads[] = { 0, 1, 40, 300 };

  for (guint d = 0; d < G_N_ELEMENTS (dims); d++)
    for (guint s = 0; s < G_N_ELEMENTS (chunk_sizes); s++)
      for (guint p = 0; p < G_N_ELEMENTS (spreads); p++)
        for (guint half = 0; half < 2; half++)
          {
            gsize n_queries = (gsize) g_test_rand_int_range (1, 12);
            gsize n_chunks = (gsize) g_test_rand_int_range (1, dims[d] > 128 ? 8 : 20);
            Case *c = new_case (data, dims[d], chunk_sizes[s], n_chunks, n_queries, half,
                                spreads[p]);
            Result result;

            if (g_test_rand_bit ())
              c->shape.softcap = 20;
            fill_masks (c);
            spoil_hidden (c);
            run_case (c, 0, n_queries, &result);
            for (gsize i = 0; i < n_queries; i++)
              check_query (c, &result, i);
            clear_result (&result);
            free_case (c);
          }
}

/* Slots in several runs, the last of them only begun. */
static void
test_long (gconstpointer data)
{
  for (guint s = 0; s < G_N_ELEMENTS (chunk_sizes); s++)
    {
      gsize n_chunks = 1300 / chunk_sizes[s];
      Case *c = new_case (data, 64, chunk_sizes[s], n_chunks, 5, s % 2, 4);
      Result result;

      for (gsize i = 0; i < 5; i++)
        for (gsize chunk = 0; chunk < n_chunks; chunk++)
          c->masks[i * n_chunks + chunk] = all_slots (c);
      /* A row that sees only the first run, one only the last, one nothing. */
      memset (c->masks + 1 * n_chunks + 4, 0, (n_chunks - 4) * sizeof (guint64));
      memset (c->masks + 2 * n_chunks, 0, (n_chunks - 1) * sizeof (guint64));
      memset (c->masks + 3 * n_chunks, 0, n_chunks * sizeof (guint64));
      run_case (c, 0, 5, &result);
      for (gsize i = 0; i < 5; i++)
        check_query (c, &result, i);
      g_assert_true (result.states[3].sum == 0 && result.states[3].max == -INFINITY);
      clear_result (&result);
      free_case (c);
    }
}

/* Where there are tiles, those in software do what they do. */
static void
test_emulated (gconstpointer data)
{
  for (guint round = 0; round < G_N_ELEMENTS (dims); round++)
    {
      Case *c = new_case (data, dims[round], chunk_sizes[round % 4], 9, 35, round % 2, 4);
      Result real, emulated;

      fill_masks (c);
      run_case (c, 0, 35, &real);
      c->attention = llk_ops_find ("amx-emulated")->attention;
      run_case (c, 0, 35, &emulated);
      for (gsize i = 0; i < 35; i++)
        assert_same (c, &real, i, &emulated, i);
      clear_result (&real);
      clear_result (&emulated);
      free_case (c);
    }
}

/* Any number of queries beside it, and whatever they see: the same bits. */
static void
test_company (gconstpointer data)
{
  for (guint d = 0; d < G_N_ELEMENTS (dims); d++)
    for (guint half = 0; half < 2; half++)
      {
        gsize chunk_slots = chunk_sizes[g_test_rand_int_range (0, 4)];
        Case *c = new_case (data, dims[d], chunk_slots, 1 + 600 / chunk_slots, MAX_QUERIES, half,
                            4);
        Result all;

        fill_masks (c);
        run_case (c, 0, MAX_QUERIES, &all);
        for (gsize first = 0; first < MAX_QUERIES;)
          {
            gsize n = (gsize) g_test_rand_int_range (1, 20);
            Result some;

            n = MIN (n, MAX_QUERIES - first);
            run_case (c, first, n, &some);
            for (gsize i = 0; i < n; i++)
              assert_same (c, &some, i, &all, first + i);
            clear_result (&some);
            first += n;
          }
        clear_result (&all);
        free_case (c);
      }
}

/* What a query sees, of all kinds: nothing, one slot, what is before it, holes, all. */
static void
fill_sights (Case *c)
{
  for (gsize i = 0; i < c->n_queries; i++)
    for (gsize slot = 0; slot < count_slots (c); slot++)
      {
        guint64 *mask = &c->masks[i * c->n_chunks + slot / c->shape.chunk_slots];
        gsize last = count_slots (c) - 1 - i % 7;
        gboolean is_seen = (i % 5 == 1 && slot == last) || (i % 5 == 2 && slot <= last)
                           || (i % 5 == 3 && slot * (i + 3) % 11 < 4) || i % 5 == 4;

        if (slot % c->shape.chunk_slots == 0)
          *mask = 0;
        if (is_seen)
          *mask |= (guint64) 1 << slot % c->shape.chunk_slots;
      }
}

/* A query alone, with anything in the slots that it does not see, has the same bits as among
 * others that see more, less and nothing, and whose scores are larger and smaller by far. */
static void
test_alone (gconstpointer data)
{
  enum { N_QUERIES = 35 };

  for (guint round = 0; round < G_N_ELEMENTS (dims); round++)
    {
      gsize chunk_slots = chunk_sizes[round % 4], n = dims[round];
      Case *c = new_case (data, n, chunk_slots, 560 / chunk_slots, N_QUERIES, round % 2, 4);
      g_autofree float *k = g_memdup2 (c->k, count_slots (c) * n * sizeof (float));
      g_autofree float *v = g_memdup2 (c->v, count_slots (c) * n * sizeof (float));
      g_autofree guint64 *masks = NULL;
      Result all, alone;

      if (round % 3 == 0)
        c->shape.softcap = 20;
      for (gsize i = 0; i < N_QUERIES * n; i++)
        c->q[i] *= powf (10, (float) (i / n % 6) - 3);
      fill_sights (c);
      masks = g_memdup2 (c->masks, N_QUERIES * c->n_chunks * sizeof *masks);
      run_case (c, 0, N_QUERIES, &all);

      for (gsize i = round % 2; i < N_QUERIES; i += 2)
        {
          /* Slots of others are not seen, so they are spoiled. */
          for (gsize j = 0; j < N_QUERIES; j++)
            memcpy (c->masks + j * c->n_chunks, masks + i * c->n_chunks,
                    c->n_chunks * sizeof *masks);
          memcpy (c->k, k, count_slots (c) * n * sizeof (float));
          memcpy (c->v, v, count_slots (c) * n * sizeof (float));
          for (gsize slot = 0; slot < count_slots (c); slot++)
            write_slot (c, slot);
          spoil_hidden (c);
          run_case (c, i, 1, &alone);
          assert_same (c, &alone, 0, &all, i);
          g_assert_cmpmem (alone.maxima, c->n_chunks * sizeof (float),
                           all.maxima + i * c->n_chunks, c->n_chunks * sizeof (float));
          if (i % 3 != 1)
            g_assert_cmpmem (alone.received, c->n_chunks * sizeof (float),
                             all.received + i * c->n_chunks, c->n_chunks * sizeof (float));
          clear_result (&alone);
        }
      clear_result (&all);
      free_case (c);
    }
}

/* What others see, and I don't, may be anything. */
static void
test_hidden (gconstpointer data)
{
  static const float wrong[] = { NAN, INFINITY, -INFINITY, FLT_MAX };

  for (guint round = 0; round < 24; round++)
    {
      Case *c = new_case (data, dims[round % 10], 16, 20, 9, round % 2, 1);
      gsize n = c->shape.head_dim;
      Result before, after;

      fill_masks (c);
      /* The first query sees slot 35 and no other query does. */
      for (gsize i = 0; i < 9; i++)
        c->masks[i * c->n_chunks + 2] &= ~(guint64) 8;
      run_case (c, 0, 9, &before);
      c->masks[2] |= 8;
      c->v[35 * n + n / 2] = wrong[round / 2 % 4];
      if (round % 4 == 0)
        c->k[35 * n] = NAN;
      write_slot (c, 35);
      run_case (c, 0, 9, &after);

      for (gsize i = 1; i < 9; i++)
        assert_same (c, &before, i, &after, i);
      /* Who sees it shows it. */
      if (!isfinite (c->v[35 * n + n / 2]))
        g_assert_false (isfinite (after.states[0].acc[n / 2]));
      clear_result (&before);
      clear_result (&after);
      free_case (c);
    }
}

/* Chunks of one packed format, and of all formats. */
static void
test_packed (gconstpointer data)
{
  for (guint d = 0; d < G_N_ELEMENTS (dims); d++)
    for (guint s = 0; s < G_N_ELEMENTS (chunk_sizes); s++)
      for (LlkKvFormat format = LLK_KV_F16; format <= LLK_KV_Q2; format++)
        {
          gsize n_queries = (gsize) g_test_rand_int_range (1, 12);
          gsize n_chunks = (gsize) g_test_rand_int_range (1, dims[d] > 128 ? 8 : 20);
          Case *c = new_case (data, dims[d], chunk_sizes[s], n_chunks, n_queries, s % 2,
                              d % 3 == 0 ? 40 : 1);
          Result result;

          if (g_test_rand_bit ())
            c->shape.softcap = 20;
          fill_masks (c);
          pack_chunks (c, format);
          run_case (c, 0, n_queries, &result);
          for (gsize i = 0; i < n_queries; i++)
            check_query (c, &result, i);
          clear_result (&result);
          free_case (c);
        }
}

/* Where chunks are unpacked before, they are what floats would be. */
static void
test_unpacked (gconstpointer data)
{
  for (guint round = 0; round < 8; round++)
    {
      Case *c = new_case (data, dims[4 + round], chunk_sizes[round % 4], 14, 5, round % 2, 4);
      gsize n = count_slots (c) * c->shape.head_dim;
      g_autofree float *floats = g_new (float, 2 * n);
      Result packed, unpacked;

      fill_masks (c);
      pack_chunks (c, LLK_KV_F16);
      run_case (c, 0, 5, &packed);
      for (gsize i = 0; i < c->n_chunks; i++)
        {
          gsize part = c->shape.chunk_slots * c->shape.head_dim;

          c->chunks[i] = (LlkAttentionChunk) { floats + 2 * i * part, floats + (2 * i + 1) * part,
                                               LLK_KV_F32 };
        }
      c->shape.is_half = false;
      for (gsize slot = 0; slot < count_slots (c); slot++)
        write_slot (c, slot);
      run_case (c, 0, 5, &unpacked);
      for (gsize i = 0; i < 5; i++)
        assert_same (c, &packed, i, &unpacked, i);
      clear_result (&packed);
      clear_result (&unpacked);
      free_case (c);
    }
}

/* Any number of queries beside it, whatever they see, and packed chunks that it does not: the
 * same bits. */
static void
test_packed_company (gconstpointer data)
{
  for (guint d = 0; d < G_N_ELEMENTS (dims); d++)
    {
      gsize chunk_slots = chunk_sizes[d % 4];
      Case *c = new_case (data, dims[d], chunk_slots, 1 + 600 / chunk_slots, MAX_QUERIES, d % 2, 4);
      Result all;

      fill_masks (c);
      pack_chunks (c, LLK_KV_F16);
      run_case (c, 0, MAX_QUERIES, &all);
      for (gsize first = 0; first < MAX_QUERIES;)
        {
          gsize n = (gsize) g_test_rand_int_range (1, 20);
          Result some;

          n = MIN (n, MAX_QUERIES - first);
          run_case (c, first, n, &some);
          for (gsize i = 0; i < n; i++)
            assert_same (c, &some, i, &all, first + i);
          clear_result (&some);
          first += n;
        }
      clear_result (&all);
      free_case (c);
    }
}

/* Whatever a part from a storage holds, nothing breaks, and who does not see the chunk has the
 * same bits. */
static void
test_packed_damage (gconstpointer data)
{
  for (LlkKvFormat format = LLK_KV_Q8; format <= LLK_KV_Q2; format++)
    {
      Case *c = new_case (data, 64, 16, 12, 6, TRUE, 1);
      Result before, after;

      pack_chunks (c, format);
      for (gsize i = 0; i < 6; i++)
        for (gsize chunk = 0; chunk < 12; chunk++)
          c->masks[i * 12 + chunk] = chunk == 7 && i % 2 == 0 ? 0 : all_slots (c);
      run_case (c, 0, 6, &before);
      memset ((void *) c->chunks[7].k, 0xff,
              llk_kv_part_bytes (format, LLK_KV_KEYS, 64, 16));
      memset ((void *) c->chunks[7].v, 0x7f,
              llk_kv_part_bytes (format, LLK_KV_VALUES, 64, 16));
      run_case (c, 0, 6, &after);
      for (gsize i = 0; i < 6; i += 2)
        assert_same (c, &before, i, &after, i);
      clear_result (&before);
      clear_result (&after);
      free_case (c);
    }
}

/* Chunks that nobody sees need not be there. */
static void
test_absent (gconstpointer data)
{
  Case *c = new_case (data, 64, 16, 20, 3, TRUE, 1);
  Result with, without;

  pack_chunks (c, LLK_KV_F16);
  for (gsize i = 0; i < 3; i++)
    for (gsize chunk = 0; chunk < 20; chunk++)
      c->masks[i * 20 + chunk] = chunk % 3 == 1 ? all_slots (c) : 0;
  run_case (c, 0, 3, &with);
  for (gsize chunk = 0; chunk < 20; chunk++)
    if (chunk % 3 != 1)
      c->chunks[chunk] = (LlkAttentionChunk) { NULL, NULL, chunk % 2 ? LLK_KV_F16 : LLK_KV_Q4 };
  run_case (c, 0, 3, &without);
  for (gsize i = 0; i < 3; i++)
    assert_same (c, &with, i, &without, i);
  clear_result (&with);
  clear_result (&without);
  free_case (c);
}

/* A score that is not a number makes the row's result none, and no other's. */
static void
test_nan (gconstpointer data)
{
  Case *c = new_case (data, 64, 16, 3, 4, TRUE, 1);
  Result before, after;

  for (gsize i = 0; i < 12; i++)
    c->masks[i] = all_slots (c);
  run_case (c, 0, 4, &before);
  c->q[2 * 64 + 7] = NAN;
  run_case (c, 0, 4, &after);
  for (gsize i = 0; i < 4; i++)
    if (i != 2)
      assert_same (c, &before, i, &after, i);
  for (gsize d = 0; d < 64; d++)
    g_assert_true (isnan (after.states[2].acc[d]));
  clear_result (&before);
  clear_result (&after);
  free_case (c);
}

static void
test_states (void)
{
  float a_acc[3] = { 1, -2, 3 }, b_acc[3] = { 10, 0, -0.0f }, empty_acc[3];
  LlkAttentionState a = { 2, 4, a_acc }, b = { 3, 5, b_acc }, empty = { .acc = empty_acc };
  float out[3];

  llk_attention_begin (&empty, 3);
  llk_attention_end (&empty, out, 3);
  for (guint i = 0; i < 3; i++)
    g_assert_cmpfloat (out[i], ==, 0);

  llk_attention_fold (&empty, &b, 3);
  g_assert_true (empty.max == 3 && empty.sum == 5 && empty.acc[0] == 10);
  g_assert_false (signbit (empty.acc[2]));

  llk_attention_fold (&b, &a, 3);
  assert_near (b.sum, 5 + 4 * exp (-1), 1e-6);
  assert_near (b.acc[0], 10 + exp (-1), 1e-6);
  assert_near (b.acc[1], -2 * exp (-1), 1e-6);
  g_assert_cmpfloat (b.max, ==, 3);

  /* Whether the other state was folded into an empty one before makes no difference. */
  a = (LlkAttentionState) { 0, 1, (float[]) { -0.0f } };
  b = (LlkAttentionState) { 0, 1, (float[]) { -0.0f } };
  llk_attention_fold (&a, &b, 1);
  g_assert_false (signbit (a.acc[0]));

  a.acc = a_acc;
  llk_attention_begin (&a, 3);
  llk_attention_fold (&empty, &a, 3);
  g_assert_true (empty.max == 3 && empty.sum == 5 && empty.acc[0] == 10);
}

int
main (int   argc,
      char *argv[])
{
  static const struct { const char *name; GTestDataFunc func; } tests[] = {
    { "reference", test_reference }, { "long", test_long },     { "alone", test_alone },
    { "company", test_company },     { "hidden", test_hidden }, { "absent", test_absent },
    { "nan", test_nan },
    { "packed", test_packed },       { "packed-company", test_packed_company },
    { "packed-damage", test_packed_damage },
  };
  /* The other sets take packed chunks apart as they go. */
  static const char *const unpacking[] = { "portable", "amx", "amx-emulated" };

  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/attention/states", test_states);
  for (const char *const *name = llk_ops_list (); *name != NULL; name++)
    for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
      {
        g_autofree char *path = g_strdup_printf ("/attention/%s/%s", *name, tests[i].name);

        g_test_add_data_func (path, llk_ops_find (*name), tests[i].func);
      }
  for (guint i = 0; i < G_N_ELEMENTS (unpacking); i++)
    if (llk_ops_find (unpacking[i]) != NULL)
      {
        g_autofree char *path = g_strdup_printf ("/attention/%s/unpacked", unpacking[i]);

        g_test_add_data_func (path, llk_ops_find (unpacking[i]), test_unpacked);
      }
  if (llk_ops_find ("amx") != NULL)
    g_test_add_data_func ("/attention/amx/emulated", llk_ops_find ("amx"), test_emulated);

  return g_test_run ();
}
