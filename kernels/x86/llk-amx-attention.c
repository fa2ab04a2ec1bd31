/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Attention with bfloat16 tiles. A run's keys and values become
 * tiles once for all queries; then for each 32 queries: scores of two groups of
 * slots at a time, the softmax by vectors, weights × values. A row of a tile
 * product depends on no other row, so a query's result is its own. Tiles of queries
 * have as many rows as there are queries: fewer rows take the unit less time.
 *
 * Products of split factors are low × high + high × high + high × low, the smallest
 * product of all left out.
 */

#include "kernels/llk-attention-unpack.h"
#include "kernels/x86/llk-amx-attention-tiles.h"
#include "kernels/x86/llk-amx-attention-softmax.h"

static Parts
lay_out (const LlkAttentionShape *shape,
         char                    *scratch)
{
  size_t steps = count_steps (shape->head_dim) * TILE_BYTES;
  size_t columns = count_columns (shape->head_dim);
  Parts parts;
  char *next = scratch;

  parts.k_high = next;
  next += RUN / GROUP * steps;
  parts.k_low = next;
  next += RUN / GROUP * steps;
  parts.v_high = next;
  next += N_PAIRS * columns * TILE_BYTES;
  parts.v_low = next;
  next += N_PAIRS * columns * TILE_BYTES;
  parts.q_high = next;
  next += BLOCK / TILE_ROWS * steps;
  parts.q_low = next;
  next += BLOCK / TILE_ROWS * steps;
  parts.scores = (float *) (void *) next;
  next += BLOCK * STRIDE * sizeof (float);
  parts.acc = (float *) (void *) next;
  next += BLOCK * columns * 16 * sizeof (float);
  parts.unpacked = (float *) (void *) next;
  next += llk_attention_get_unpacked (shape);
  parts.bytes = (size_t) (next - scratch);
  return parts;
}

static size_t
get_scratch (const LlkAttentionShape *shape)
{
  return lay_out (shape, NULL).bytes;
}

/* Where the groups of a run are: divisions that would otherwise be made for each
 * row and group. */
static void
find_groups (Run *run)
{
  size_t groups = run->shape->chunk_slots / GROUP;

  run->n_groups = run->n_chunks * groups;
  for (size_t i = 0; i < run->n_groups; i++)
    {
      run->groups[i].chunk = (uint8_t) (i / groups);
      run->groups[i].first = (uint8_t) (i % groups * GROUP);
    }
}

/* --- keys and values to tiles --- */

/* What any of the queries sees. */
static void
join_masks (const LlkAttentionQuery *queries,
            size_t                   n_queries,
            size_t                   n_chunks,
            uint64_t                *seen)
{
  memset (seen, 0, n_chunks * sizeof *seen);
  for (size_t i = 0; i < n_queries; i++)
    if (i == 0 || queries[i].masks != queries[i - 1].masks)
      for (size_t c = 0; c < n_chunks; c++)
        seen[c] |= queries[i].masks[c];
}

INLINE void
pack_pair (Run     *run,
           size_t   pair,
           uint32_t bits,
           bool     is_half)
{
  const LlkAttentionShape *shape = run->shape;
  size_t value_bytes = is_half ? sizeof (uint16_t) : sizeof (float);
  size_t row_bytes = shape->chunk_slots * value_bytes;
  size_t slot_bytes = shape->head_dim * value_bytes;
  size_t steps = count_steps (shape->head_dim) * TILE_BYTES;
  size_t columns = count_columns (shape->head_dim) * TILE_BYTES;
  char *v_high = run->parts.v_high + pair * columns;
  char *v_low = run->parts.v_low + pair * columns;
  const char *slots[2 * GROUP] = { NULL };

  for (size_t i = 0; i < 2; i++)
    {
      size_t group = 2 * pair + i;
      const LlkAttentionChunk *chunk = &run->chunks[run->groups[group].chunk];
      size_t first = run->groups[group].first;

      if ((bits >> 16 * i & 0xffff) == 0)
        {
          memset (run->parts.k_high + group * steps, 0, steps);
          memset (run->parts.k_low + group * steps, 0, steps);
          continue;
        }
      pack_keys ((const char *) chunk->k + first * value_bytes, row_bytes, shape->head_dim,
                 run->parts.k_high + group * steps, run->parts.k_low + group * steps, is_half);
      for (size_t s = 0; s < GROUP; s++)
        if (bits >> (16 * i + s) & 1)
          slots[i * GROUP + s] = (const char *) chunk->v + (first + s) * slot_bytes;
    }

  if (pack_values (slots, shape->head_dim, v_high, v_low, is_half))
    return;

  /* Each slot alone tells which of them it is. */
  for (size_t s = 0; s < 2 * GROUP; s++)
    {
      const char *alone[2 * GROUP] = { [0] = slots[s] };

      if (!pack_values (alone, shape->head_dim, v_high, v_low, is_half))
        {
          run->special.slots[run->special.n++] = (uint16_t) (pair * 2 * GROUP + s);
          slots[s] = NULL;
        }
    }
  pack_values (slots, shape->head_dim, v_high, v_low, is_half);
}

/* --- one block of queries --- */

static void
pack_queries (Run   *run,
              float  scale)
{
  size_t steps = count_steps (run->shape->head_dim) * TILE_BYTES;

  for (size_t j = 0; j < run->n_queries; j++)
    pack_query (run->queries[j].q, run->shape->head_dim, scale, j % TILE_ROWS,
                run->parts.q_high + j / TILE_ROWS * steps,
                run->parts.q_low + j / TILE_ROWS * steps);
}

/* Tiles 0 to 3: sums of both halves of the block with two tiles of keys or values; 4, 5: of
 * the halves; 6, 7: keys or values. */

INLINE void
clear_sums (bool has_lower,
            bool is_double)
{
  _tile_zero (0);
  if (is_double)
    _tile_zero (1);
  if (has_lower)
    _tile_zero (2);
  if (has_lower && is_double)
    _tile_zero (3);
}

INLINE void
add_products (bool has_lower,
              bool is_double)
{
  _tile_dpbf16ps (0, 4, 6);
  if (is_double)
    _tile_dpbf16ps (1, 4, 7);
  if (has_lower)
    _tile_dpbf16ps (2, 5, 6);
  if (has_lower && is_double)
    _tile_dpbf16ps (3, 5, 7);
}

/* Rows of the lower half lie TILE_ROWS behind those of the upper one. */
INLINE void
store_sums (float *sums,
            size_t stride,
            bool   has_lower,
            bool   is_double)
{
  _tile_stored (0, sums, stride * sizeof (float));
  if (is_double)
    _tile_stored (1, sums + 16, stride * sizeof (float));
  if (has_lower)
    _tile_stored (2, sums + TILE_ROWS * stride, stride * sizeof (float));
  if (has_lower && is_double)
    _tile_stored (3, sums + TILE_ROWS * stride + 16, stride * sizeof (float));
}

/* The scores of the pair of groups at @index of those seen. */
INLINE void
score_pair (const Run *run,
            size_t     index,
            bool       has_lower)
{
  size_t steps = count_steps (run->shape->head_dim) * TILE_BYTES;
  const char *k_high = run->parts.k_high + 2 * run->pairs[index] * steps;
  const char *k_low = run->parts.k_low + 2 * run->pairs[index] * steps;

  clear_sums (has_lower, true);
  for (size_t at = 0; at < steps; at += TILE_BYTES)
    {
      _tile_loadd (4, run->parts.q_low + at, 64);
      if (has_lower)
        _tile_loadd (5, run->parts.q_low + steps + at, 64);
      _tile_loadd (6, k_high + at, 64);
      _tile_loadd (7, k_high + steps + at, 64);
      add_products (has_lower, true);
      _tile_loadd (4, run->parts.q_high + at, 64);
      if (has_lower)
        _tile_loadd (5, run->parts.q_high + steps + at, 64);
      add_products (has_lower, true);
      _tile_loadd (6, k_low + at, 64);
      _tile_loadd (7, k_low + steps + at, 64);
      add_products (has_lower, true);
    }
  store_sums (run->parts.scores + index * 2 * GROUP, STRIDE, has_lower, true);
}

/* Weights × values of one or two columns. */
INLINE void
sum_columns (const Run *run,
             size_t     column,
             bool       has_lower,
             bool       is_double)
{
  const size_t row_bytes = STRIDE * sizeof (float);
  size_t n_columns = count_columns (run->shape->head_dim);

  clear_sums (has_lower, is_double);
  for (size_t i = 0; i < run->n_pairs; i++)
    {
      const char *upper = (const char *) run->parts.scores + i * 128;
      const char *lower = upper + TILE_ROWS * row_bytes;
      size_t at = (run->pairs[i] * n_columns + column) * TILE_BYTES;

      _tile_loadd (4, upper + 64, row_bytes);
      if (has_lower)
        _tile_loadd (5, lower + 64, row_bytes);
      _tile_loadd (6, run->parts.v_high + at, 64);
      if (is_double)
        _tile_loadd (7, run->parts.v_high + at + TILE_BYTES, 64);
      add_products (has_lower, is_double);
      _tile_loadd (4, upper, row_bytes);
      if (has_lower)
        _tile_loadd (5, lower, row_bytes);
      add_products (has_lower, is_double);
      _tile_loadd (6, run->parts.v_low + at, 64);
      if (is_double)
        _tile_loadd (7, run->parts.v_low + at + TILE_BYTES, 64);
      add_products (has_lower, is_double);
    }
  store_sums (run->parts.acc + column * 16, n_columns * 16, has_lower, is_double);
}

/* Adds slots that the tiles left out, for a query that sees them. */
static void
add_special (const Run               *run,
             const LlkAttentionQuery *query,
             const uint16_t          *weights,
             float                   *acc)
{
  const LlkAttentionShape *shape = run->shape;

  for (size_t i = 0; i < run->special.n; i++)
    {
      size_t slot = run->special.slots[i];
      size_t pair = slot / (2 * GROUP);
      size_t at = slot % shape->chunk_slots * shape->head_dim;
      const void *v = run->chunks[slot / shape->chunk_slots].v;
      const uint16_t *weight;
      float factor;
      size_t index = 0;

      if ((get_bits (run, query->masks, pair) >> slot % (2 * GROUP) & 1) == 0)
        continue;
      while (run->pairs[index] != pair)
        index++;
      weight = &weights[index * 4 * GROUP + 2 * (slot % GROUP) + slot / GROUP % 2];
      factor = llk_float_of_bits ((uint32_t) weight[0] << 16) +
               llk_float_of_bits ((uint32_t) weight[2 * GROUP] << 16);
      for (size_t d = 0; d < shape->head_dim; d++)
        acc[d] += factor * (run->is_half ? llk_float_of_half (((const uint16_t *) v)[at + d])
                                         : ((const float *) v)[at + d]);
    }
}

INLINE void
attend_block (Run   *run,
              float  scale,
              bool   has_lower)
{
  size_t n_columns = count_columns (run->shape->head_dim);
  uint64_t seen[RUN / GROUP];
  float sums[BLOCK];
  size_t column = 0;

  join_masks (run->queries, run->n_queries, run->n_chunks, seen);
  run->n_pairs = 0;
  for (size_t pair = 0; pair < N_PAIRS; pair++)
    if (get_bits (run, seen, pair) != 0)
      run->pairs[run->n_pairs++] = pair;

  pack_queries (run, scale);
  compile_barrier ();
  for (size_t i = 0; i < run->n_pairs; i++)
    score_pair (run, i, has_lower);
  soften (run, sums);
  compile_barrier ();

  for (; column + 2 <= n_columns; column += 2)
    sum_columns (run, column, has_lower, true);
  if (column < n_columns)
    sum_columns (run, column, has_lower, false);

  for (size_t j = 0; j < run->n_queries; j++)
    {
      LlkAttentionQuery *query = &run->queries[j];
      float *acc = run->parts.acc + j * n_columns * 16;
      LlkAttentionState state = { query->max, sums[j], acc };

      if (run->special.n > 0)
        add_special (run, query, (const uint16_t *) (const void *) (run->parts.scores + j * STRIDE),
                     acc);
      llk_attention_fold (query->state, &state, run->shape->head_dim);
    }
}

/* --- a run --- */

static void
attend (const LlkAttentionShape *shape,
        const LlkAttentionChunk *chunks,
        size_t                   n_chunks,
        LlkAttentionQuery       *queries,
        size_t                   n_queries,
        void                    *scratch)
{
  Run run = { .shape = shape, .chunks = chunks, .n_chunks = n_chunks };
  LlkAttentionChunk unpacked[RUN / GROUP];
  float scale = shape->softcap != 0 ? shape->scale : shape->scale * LLK_LOG2_E;
  uint64_t seen[RUN / GROUP];

  find_groups (&run);
  run.parts = lay_out (shape, scratch);
  run.is_half = shape->is_half;
  if (llk_attention_unpack (&llk_avx512_kv, shape, chunks, n_chunks, queries, n_queries, unpacked,
                            run.parts.unpacked))
    {
      run.chunks = unpacked;
      run.is_half = false;
    }
  join_masks (queries, n_queries, n_chunks, seen);
  for (size_t pair = 0; pair < N_PAIRS; pair++)
    {
      uint32_t bits = get_bits (&run, seen, pair);

      if (bits == 0)
        continue;
      if (run.is_half)
        pack_pair (&run, pair, bits, true);
      else
        pack_pair (&run, pair, bits, false);
    }

  for (size_t first = 0; first < n_queries; first += BLOCK)
    {
      run.queries = queries + first;
      run.n_queries = n_queries - first < BLOCK ? n_queries - first : BLOCK;
      if (first == 0 || run.n_queries < BLOCK)
        configure_tiles (run.n_queries);
      if (run.n_queries > TILE_ROWS)
        attend_block (&run, scale, true);
      else
        attend_block (&run, scale, false);
    }
  _tile_release ();
}

const LlkAttention llk_amx_attention = { 256, get_scratch, attend };
