/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Any bytes as the head of a prepared file, and over a good one: only the good one is
 * taken, and what is taken lies within the file. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "weights/llm-repacked-private.h"
#include "support/llm-test-gguf.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

typedef struct
{
  LlmRepackedPlan *plan;
  guint8 *file;          /* a good one, with zeros as matrices */
  gsize head_bytes;
} Good;

static const Good *
get_good (void)
{
  static Good good;
  const LlmTestModel model = { .n_vocab = 20, .n_layers = 1 };
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(LlmGguf) gguf = NULL;
  g_autoptr(GBytes) head = NULL;
  g_autofree guint64 *checksums = NULL;
  LlmHparams hparams;

  if (good.plan != NULL)
    return &good;
  bytes = llm_test_model_new (&model);
  gguf = llm_gguf_new_for_bytes (bytes, "fuzz.gguf", NULL);
  g_assert_true (llm_hparams_read (gguf, &hparams, NULL));
  good.plan = llm_repacked_plan_new (gguf, &hparams, NULL, NULL, NULL);
  g_assert_nonnull (good.plan);
  checksums = g_new0 (guint64, good.plan->n_pieces);
  head = llm_repacked_head_new (good.plan, checksums, 1, 1);
  good.head_bytes = g_bytes_get_size (head);
  good.file = g_malloc0 (good.plan->file_bytes);
  memcpy (good.file, g_bytes_get_data (head, NULL), good.head_bytes);
  return &good;
}

static gboolean
check (const Good   *good,
       const guint8 *data,
       gsize         size)
{
  LlmRepackedHead head;
  const char *reason;
  guint64 sum = 0;

  if (!llm_repacked_head_check (good->plan, data, size, &head, &reason))
    {
      g_assert_nonnull (reason);
      return FALSE;
    }
  for (guint i = 0; i < good->plan->n_pieces; i++)
    sum += head.checksums[i];
  g_assert_cmpuint (sum, ==, 0);
  return TRUE;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data,
                        size_t         size)
{
  const Good *good = get_good ();
  g_autofree guint8 *alone = g_memdup2 (data, MAX (size, 1));
  g_autofree guint8 *over = NULL;
  gsize offset;
  gboolean is_same;

  g_assert_false (check (good, alone, size) && size < good->head_bytes);
  if (size < 2)
    return 0;

  /* the first two bytes say where the others go */
  offset = (data[0] | (gsize) data[1] << 8) % good->head_bytes;
  size = MIN (size - 2, good->head_bytes - offset);
  over = g_memdup2 (good->file, good->plan->file_bytes);
  memcpy (over + offset, data + 2, size);
  is_same = memcmp (over, good->file, good->head_bytes) == 0;
  g_assert_cmpint (check (good, over, good->plan->file_bytes), ==, is_same);
  g_assert_false (check (good, over, good->plan->file_bytes - 1));
  return 0;
}
