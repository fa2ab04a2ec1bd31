/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Repacked weights by channel: where bundles are, and what is in them. */

#include "weights/llm-repacked-private.h"

#include <string.h>
#include <xxhash.h>

#include "kernels/llk-channels.h"
#include "kernels/llk-run.h"

/* Bundles begin at multiples of it, and records are such. */
#define BUNDLE_ALIGNMENT ((guint64) 4096)
#define RECORD_ALIGNMENT 16
/* Inputs that are taken apart together: a run of all outputs. */
#define CHUNK_INPUTS LLK_RUN

static LlmRepackedBundle *
get_bundle (const LlmRepackedPlan *plan,
            guint                  index)
{
  return &g_array_index (plan->bundles, LlmRepackedBundle, index);
}

/* The number of the bundle that the matrix belongs to, a new one if need be. */
static guint
find_bundle (LlmRepackedPlan         *self,
             const LlmRepackedMatrix *matrix)
{
  LlmRepackedBundle bundle = {
    .input = llm_input_of (matrix->op),
    .layer = matrix->layer,
    .in_first = matrix->shape.in_first,
    .in_count = matrix->shape.in_count,
  };

  for (guint i = 0; i < self->bundles->len; i++)
    if (get_bundle (self, i)->layer == matrix->layer && get_bundle (self, i)->input == bundle.input)
      return i;
  g_array_append_val (self->bundles, bundle);
  return self->bundles->len - 1;
}

/* Segments that have other inputs of the same outputs have the same place, each in the records of its
 * inputs: such a matrix of an earlier segment, or NULL. */
static const LlmRepackedMatrix *
find_sharing (const LlmRepackedPlan   *self,
              const LlmRepackedMatrix *matrix)
{
  const LlmRepackedMatrix *first = (const LlmRepackedMatrix *) (gpointer) self->matrices->data;

  for (const LlmRepackedMatrix *other = first; other < matrix; other++)
    if (other->layer == matrix->layer && other->op == matrix->op
        && other->shape.in_first != matrix->shape.in_first)
      return other;
  return NULL;
}

/* Segments come in their order: what is cut by inputs goes on where the one before ended. */
void
llm_repacked_plan_bundle (LlmRepackedPlan *self)
{
  for (guint i = 0; i < self->matrices->len; i++)
    {
      LlmRepackedMatrix *matrix = &g_array_index (self->matrices, LlmRepackedMatrix, i);
      const LlmRepackedMatrix *sharing = find_sharing (self, matrix);
      LlmRepackedBundle *bundle;

      matrix->bundle = find_bundle (self, matrix);
      bundle = get_bundle (self, matrix->bundle);
      bundle->in_count = MAX (bundle->in_count,
                              matrix->shape.in_first + matrix->shape.in_count - bundle->in_first);
      matrix->codes_at = sharing != NULL ? sharing->codes_at : bundle->codes_bytes;
      if (sharing == NULL)
        bundle->codes_bytes += (guint) (matrix->n_panels * llk_channel_bytes (matrix->part.type));
    }
  for (guint i = 0; i < self->bundles->len; i++)
    {
      LlmRepackedBundle *bundle = get_bundle (self, i);

      bundle->record_bytes = (bundle->codes_bytes + (guint) sizeof (guint64) + RECORD_ALIGNMENT - 1)
                             / RECORD_ALIGNMENT * RECORD_ALIGNMENT;
      self->bytes = (self->bytes + BUNDLE_ALIGNMENT - 1) / BUNDLE_ALIGNMENT * BUNDLE_ALIGNMENT;
      bundle->offset = self->bytes;
      self->bytes += (guint64) bundle->in_count * bundle->record_bytes;
    }
  /* reads of the last ones go to the end of a block */
  self->bytes = (self->bytes + BUNDLE_ALIGNMENT - 1) / BUNDLE_ALIGNMENT * BUNDLE_ALIGNMENT;
}

guint64
llm_repacked_hash_channels (LlkType       type,
                            const guint8 *panel,
                            gsize         n)
{
  gsize head_bytes, codes_bytes, stride;
  g_autofree guint8 *parts = NULL;

  if (!llk_channels_have (type))
    return 0;
  stride = llk_channel_bytes (type);
  head_bytes = llk_channels_head_bytes (type, 0, n);
  codes_bytes = n * stride;
  parts = g_malloc (head_bytes + codes_bytes);
  llk_channels_split (type, panel, 0, n, parts, parts + head_bytes, stride);
  return XXH3_64bits_withSeed (parts, head_bytes + codes_bytes, type);
}

static gsize
get_panel_bytes (const LlmRepackedMatrix *matrix)
{
  return llk_panel_bytes (matrix->part.type, 0, CHUNK_INPUTS);
}

gsize
llm_repacked_measure_channels (const LlmRepackedPlan *plan)
{
  gsize most_records = 0, most_panel = 0;

  for (guint i = 0; i < plan->bundles->len; i++)
    most_records = MAX (most_records, (gsize) CHUNK_INPUTS * get_bundle (plan, i)->record_bytes);
  for (guint i = 0; i < plan->matrices->len; i++)
    most_panel = MAX (most_panel,
                      get_panel_bytes (&g_array_index (plan->matrices, LlmRepackedMatrix, i)));
  return most_records + most_panel;
}

static gsize
get_checked_bytes (const LlmRepackedMatrix *matrix)
{
  return llk_channels_head_bytes (matrix->part.type, matrix->shape.in_first, matrix->shape.in_count);
}

gsize
llm_repacked_get_heads_bytes (const LlmTensorPart   *part,
                              const LlmSegmentShape *shape)
{
  return (llk_channels_head_bytes (part->type, shape->in_first, shape->in_count) + sizeof (guint64)
          + RECORD_ALIGNMENT - 1) / RECORD_ALIGNMENT * RECORD_ALIGNMENT;
}

void
llm_repacked_seal_heads (const LlmRepackedMatrix *matrix,
                         guint8                  *heads)
{
  const gsize bytes = get_checked_bytes (matrix);
  const guint64 checksum = XXH3_64bits (heads, bytes);

  memset (heads + bytes, 0, matrix->panel_bytes - bytes);
  memcpy (heads + bytes, &checksum, sizeof checksum);
}

gboolean
llm_repacked_check_heads (const LlmRepackedMatrix *matrix,
                          const guint8            *heads)
{
  const gsize bytes = get_checked_bytes (matrix);
  const guint64 checksum = XXH3_64bits (heads, bytes);

  return memcmp (heads + bytes, &checksum, sizeof checksum) == 0;
}

static guint64
make_checksum (const LlmRepackedBundle *bundle,
               const guint8            *record)
{
  return XXH3_64bits (record, bundle->codes_bytes);
}

gboolean
llm_repacked_check_record (const LlmRepackedBundle *bundle,
                           const guint8            *record)
{
  const guint64 checksum = make_checksum (bundle, record);

  return memcmp (record + bundle->codes_bytes, &checksum, sizeof checksum) == 0;
}

/* The records of the inputs [@first, @end) of the bundle, counted from its first, in @records. */
static void
pack_chunk (const LlmRepackedPlan *plan,
            guint                  index,
            guint                  first,
            guint                  end,
            guint8                *records,
            guint8                *panel)
{
  const LlmRepackedBundle *bundle = get_bundle (plan, index);
  const guint8 *data = llm_file_map_get_data (plan->gguf->map);

  memset (records, 0, (gsize) (end - first) * bundle->record_bytes);
  for (guint i = 0; i < plan->matrices->len; i++)
    {
      const LlmRepackedMatrix *matrix = &g_array_index (plan->matrices, LlmRepackedMatrix, i);
      const LlmTensorPart *part = &matrix->part;
      const LlmSegmentShape *shape = &matrix->shape;
      const guint from = MAX (bundle->in_first + first, shape->in_first);
      const guint to = MIN (bundle->in_first + end, shape->in_first + shape->in_count);

      for (guint p = 0; matrix->bundle == index && from < to && p < matrix->n_panels; p++)
        {
          llk_panel_pack (part->type, data + part->offset, part->row_bytes, part->n_in,
                          shape->out_first + shape->out_count,
                          shape->out_first + p * LLK_PANEL_OUTPUTS, from, to - from, panel);
          llk_channels_split (part->type, panel, from, to - from, NULL,
                              records + (gsize) (from - bundle->in_first - first) * bundle->record_bytes
                                + matrix->codes_at + p * llk_channel_bytes (part->type),
                              bundle->record_bytes);
        }
    }
  for (guint i = 0; i < end - first; i++)
    {
      guint8 *record = records + (gsize) i * bundle->record_bytes;
      const guint64 checksum = make_checksum (bundle, record);

      memcpy (record + bundle->codes_bytes, &checksum, sizeof checksum);
    }
}

/* Chunks begin where runs do. */
static void
pack_bundle (const LlmRepackedPlan *plan,
             guint                  index,
             guint64                begin,
             guint64                end,
             guint8                *piece,
             guint8                *scratch)
{
  const LlmRepackedBundle *bundle = get_bundle (plan, index);
  guint8 *panel = scratch + (gsize) CHUNK_INPUTS * bundle->record_bytes;
  guint next;

  for (guint first = 0; first < bundle->in_count; first = next)
    {
      guint64 at = bundle->offset + (guint64) first * bundle->record_bytes;
      guint64 from, to;

      next = MIN ((bundle->in_first + first) / CHUNK_INPUTS * CHUNK_INPUTS + CHUNK_INPUTS
                    - bundle->in_first,
                  bundle->in_count);
      from = MAX (at, begin);
      to = MIN (bundle->offset + (guint64) next * bundle->record_bytes, end);
      if (from >= to)
        continue;
      pack_chunk (plan, index, first, next, scratch, panel);
      memcpy (piece + (from - begin), scratch + (from - at), to - from);
    }
}

void
llm_repacked_pack_bundles (const LlmRepackedPlan *plan,
                           guint64                begin,
                           guint64                end,
                           guint8                *piece,
                           guint8                *scratch)
{
  for (guint i = 0; i < plan->bundles->len; i++)
    {
      const LlmRepackedBundle *bundle = get_bundle (plan, i);

      if (bundle->offset < end
          && bundle->offset + (guint64) bundle->in_count * bundle->record_bytes > begin)
        pack_bundle (plan, i, begin, end, piece, scratch);
    }
}
