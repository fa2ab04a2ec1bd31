/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A context of 32768 tokens: quantized, written, evicted, read back, bit for bit. */

#include "kv-rig.h"

#define LONG 32768
#define CALL 4096

/* Of all that rows of the layer would see. */
static guint64
hash_layer (LlmKvSeq *seq,
            guint     layer)
{
  guint64 hash = G_GUINT64_CONSTANT (0xcbf29ce484222325);

  for (guint chunk = 0; chunk < LONG / RIG_SLOTS; chunk++)
    {
      const guint8 *bytes;
      LlmKvView view;

      llm_kv_seq_view (seq, layer, chunk, &view);
      bytes = view.k;
      for (gsize i = 0; i < RIG_HEADS * view.head_bytes; i++)
        hash = (hash ^ bytes[i]) * G_GUINT64_CONSTANT (0x100000001b3);
    }
  return hash;
}

static void
append (LlmKvSeq *seq,
        guint     n)
{
  float values[RIG_VALUES];
  guint first = seq->length;
  g_autoptr(GError) error = NULL;

  g_assert_true (llm_kv_seq_append (seq, n, &error));
  g_assert_no_error (error);
  for (guint slot = first; slot < first + n; slot++)
    for (guint layer = 0; layer < RIG_LAYERS; layer++)
      {
        for (guint i = 0; i < RIG_VALUES; i++)
          values[i] = (float) ((slot * 7919 + layer * 104729 + i * 31) % 2003) / 1000 - 1;
        llm_kv_seq_write (seq, layer, slot, values, values);
      }
  for (guint chunk = 0; chunk < seq->length / RIG_SLOTS; chunk++)
    llm_kv_seq_add_density (seq, chunk, (chunk * 37 % 101) * LLM_KV_DENSITY_ONE / 100,
                            RIG_SLOTS);
}

static void
test_long (gconstpointer data)
{
  g_autofree gint32 *tokens = g_new (gint32, LONG);
  guint64 hashes[RIG_LAYERS];
  g_autoptr(GError) error = NULL;
  LlmKvPlan plan;
  LlmKvSeq *seq;
  Rig rig;

  for (guint i = 0; i < LONG; i++)
    tokens[i] = (gint32) (i * 2654435761u >> 16);
  rig_open (&rig, "llms", data, LLK_KV_F16, NULL);
  seq = llm_kv_seq_new (rig.store, "app", "long");
  while (seq->length < LONG)
    {
      g_assert_true (llm_kv_seq_begin_call (seq, CALL, &plan, &error));
      append (seq, CALL);
      llm_kv_seq_end_call (seq, tokens, seq->length);
      rig_settle (&rig);
    }
  for (guint layer = 0; layer < RIG_LAYERS; layer++)
    hashes[layer] = hash_layer (seq, layer);

  /* within the service's life, and after a restart */
  for (guint round = 0; round < 2; round++)
    {
      if (round == 1)
        {
          llm_kv_seq_free (seq);
          rig_close_store (&rig);
          rig_open_store (&rig);
          seq = llm_kv_seq_new (rig.store, "app", "long");
          while (!llm_kv_seq_is_open (seq))
            llm_kv_store_wait (rig.store, G_USEC_PER_SEC);
          g_assert_cmpuint (llm_kv_seq_attach (seq, tokens, LONG), ==, LONG);
        }
      else
        llm_kv_store_evict (rig.store, G_MAXUINT64, TRUE);
      g_assert_cmpuint (rig.store->bytes, ==, 0);

      g_assert_true (llm_kv_seq_begin_call (seq, 32, &plan, &error));
      g_assert_cmpuint (plan.n_read, ==, LONG / RIG_SLOTS);
      for (guint layer = 0; layer < RIG_LAYERS; layer++)
        while (llm_kv_seq_make_resident (seq, layer, &error) == LLM_PENDING)
          llm_kv_store_wait (rig.store, G_USEC_PER_SEC);
      g_assert_no_error (error);
      for (guint layer = 0; layer < RIG_LAYERS; layer++)
        g_assert_cmpuint (hash_layer (seq, layer), ==, hashes[layer]);
      llm_kv_seq_end_call (seq, tokens, seq->length);
    }
  g_assert_cmpuint (rig.store->counters.n_restored, ==, LONG / RIG_SLOTS);
  g_assert_cmpuint (rig.store->counters.n_recomputed, ==, 0);
  g_assert_cmpuint (rig.store->counters.n_faulted, ==, 0);
  llm_kv_seq_free (seq);
  rig_close (&rig);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/kv-long/uring", "uring", test_long);
  g_test_add_data_func ("/kv-long/threads", "threads", test_long);
  return g_test_run ();
}
