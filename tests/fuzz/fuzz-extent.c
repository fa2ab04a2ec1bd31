/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Any bytes as the header of an extent, and over a good one whose checksum is then made right
 * again: what is taken lies within the file, and what it prints is taken again. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <xxhash.h>

#include "kv/disk/llm-kv-extent.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

#define N_LAYERS 3
#define N_CHUNKS 5
#define CHECKSUM_OFFSET 16

typedef struct
{
  gsize offsets[2][N_LAYERS + 1];
  LlmKvShape shape;
  guint8 *bytes;
  gsize length;
  guint64 file_bytes;
} Good;

static const Good *
get_good (void)
{
  static Good good;
  LlmKvRecord records[N_CHUNKS];
  LlmKvExtent *extent;

  if (good.bytes != NULL)
    return &good;
  for (guint i = 0; i <= N_LAYERS; i++)
    {
      /* large enough for some groups; and a form without bytes in the middle layer */
      good.offsets[0][i] = i * 80000;
      good.offsets[1][i] = i * 32 - (i > 1 ? 32 : 0);
    }
  good.shape = (LlmKvShape) { .identity = 7, .n_layers = N_LAYERS, .chunk_slots = 16 };
  good.shape.offsets[LLM_KV_FORM (LLK_KV_Q4, FALSE)] = good.offsets[0];
  good.shape.offsets[LLM_KV_FORM (LLK_KV_Q2, TRUE)] = good.offsets[1];
  for (guint i = 0; i < N_CHUNKS; i++)
    {
      LlmKvForm form = i == 2 ? LLM_KV_FORM (LLK_KV_Q2, TRUE) : LLM_KV_FORM (LLK_KV_Q4, FALSE);

      records[i] = (LlmKvRecord) { i, i + 100, form, 0.5f, 3 };
    }
  extent = llm_kv_extent_new (&good.shape, records, N_CHUNKS);
  good.length = extent->header_bytes;
  good.file_bytes = extent->file_bytes;
  good.bytes = g_malloc (good.length);
  llm_kv_extent_print (extent, &good.shape, NULL, good.bytes);
  llm_kv_extent_unref (extent);
  return &good;
}

static void
check (const Good   *good,
       const guint8 *bytes,
       gsize         length,
       guint64       file_bytes)
{
  const char *reason;
  g_autoptr(LlmKvExtent) extent = llm_kv_extent_parse (bytes, length, file_bytes, &good->shape,
                                                       &reason);
  g_autofree guint8 *again = NULL;

  g_assert_true ((extent == NULL) == (reason != NULL));
  if (extent == NULL)
    return;

  g_assert_cmpuint (extent->header_bytes, <=, length);
  g_assert_cmpuint (extent->file_bytes, ==, file_bytes);
  for (guint i = 0; i < extent->n_groups; i++)
    {
      guint64 at = extent->group_offsets[i];

      for (guint j = 0; j < extent->n_chunks; j++)
        {
          gsize begin;
          gsize part = llm_kv_extent_get_part (extent, &good->shape, j, i, &begin);

          at += part;
          g_assert_cmpuint (begin + part, <=,
                            good->shape.offsets[extent->records[j].form][N_LAYERS]);
        }
      g_assert_cmpuint (at, <=, extent->group_offsets[i + 1]);
      g_assert_cmpuint (extent->group_offsets[i + 1], <=, file_bytes);
    }
  again = g_malloc (extent->header_bytes);
  llm_kv_extent_print (extent, &good->shape, extent->dead, again);
  llm_kv_extent_unref (g_steal_pointer (&extent));
  extent = llm_kv_extent_parse (again, length, file_bytes, &good->shape, &reason);
  g_assert_nonnull (extent);
}

static void
seal (guint8 *bytes,
      gsize   length)
{
  guint64 hash;

  memset (bytes + CHECKSUM_OFFSET, 0, sizeof hash);
  hash = GUINT64_TO_LE (XXH3_64bits (bytes, length));
  memcpy (bytes + CHECKSUM_OFFSET, &hash, sizeof hash);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data,
                        size_t         size)
{
  const Good *good = get_good ();
  g_autofree guint8 *alone = g_memdup2 (data, MAX (size, 1));
  g_autofree guint8 *over = NULL;
  gsize offset;

  check (good, alone, size, size);
  if (size < 2)
    return 0;

  /* the first two bytes say where the others go */
  offset = (data[0] | (gsize) data[1] << 8) % good->length;
  size = MIN (size - 2, good->length - offset);
  over = g_memdup2 (good->bytes, good->length);
  memcpy (over + offset, data + 2, size);
  check (good, over, good->length, good->file_bytes);
  seal (over, good->length);
  check (good, over, good->length, good->file_bytes);
  check (good, over, good->length - 1, good->file_bytes);
  return 0;
}
