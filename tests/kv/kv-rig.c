/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kv-rig.h"

#include <glib/gstdio.h>
#include <string.h>

#include "base/llm-clock.h"
#include "kernels/llk.h"
#include "policies/bench-kv-policies.h"
#include "support/llm-test-folder.h"

#define WAIT_US (100 * 1000)

/* As models have them that have windows. */
static const LlmKvLayer uneven[RIG_LAYERS] = { { 1, 16 }, { 2, 16 }, { 1, 8 }, { 2, 8 } };

void
rig_open_store (Rig *rig)
{
  LlmKvLayout layout = {
    .kind = LLM_KV_FULL,
    .format = rig->format,
    .n_layers = RIG_LAYERS,
    .n_kv_heads = RIG_HEADS,
    .head_dim = RIG_HEAD_DIM,
    .chunk_slots = RIG_SLOTS,
    .layers = rig->windows != NULL ? uneven : NULL,
    .windows = rig->windows,
  };
  g_autoptr (GError) error = NULL;

  rig->store = llm_kv_store_new (&layout, rig->policy.name != NULL ? &rig->policy : NULL,
                                 rig->ledger, &error);
  g_assert_no_error (error);
  if (rig->storage != NULL)
    llm_kv_store_set_storage (rig->store, rig->storage, RIG_IDENTITY);
}

void
rig_open (Rig         *rig,
          const char  *policy,
          const char  *disk,
          LlkKvFormat  format,
          const guint *windows)
{
  g_autoptr (GError) error = NULL;

  *rig = (Rig) { 0 };
  rig->ledger = llm_ledger_new ();
  rig->format = format;
  rig->windows = windows;
  if (policy != NULL)
    rig->policy = *bench_kv_policy_find (policy);
  if (disk != NULL)
    {
      LlmDisk *queue = llm_disk_new (disk, &error);

      g_assert_no_error (error);
      rig->folder = llm_test_folder_new ();
      rig->storage = llm_kv_storage_new (rig->folder, queue, 0, 0, &error);
      g_assert_no_error (error);
    }
  rig_open_store (rig);
}

void
rig_close_store (Rig *rig)
{
  g_clear_pointer (&rig->store, llm_kv_store_free);
  g_assert_cmpuint (llm_ledger_get_total (rig->ledger), ==, 0);
}

void
rig_close (Rig *rig)
{
  rig_close_store (rig);
  g_clear_pointer (&rig->storage, llm_kv_storage_free);
  g_clear_pointer (&rig->ledger, llm_ledger_unref);
  if (rig->folder != NULL)
    llm_test_folder_remove (rig->folder);
  g_clear_pointer (&rig->folder, g_free);
}

void
rig_settle (Rig *rig)
{
  while (!llm_kv_store_is_settled (rig->store))
    if (!llm_kv_store_work (rig->store, llm_clock_now_us () + 1000))
      llm_kv_store_wait (rig->store, WAIT_US);
}

guint
rig_damage (Rig        *rig,
            const char *id,
            double      share)
{
  g_autofree char *folder = g_build_filename (rig->folder, id, NULL);
  GDir *dir = g_dir_open (folder, 0, NULL);
  const char *name;
  guint n = 0;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (folder, name, NULL);
      g_autofree char *text = NULL;
      gsize length;
      FILE *file;

      if (!g_str_has_suffix (name, ".kv") || !g_file_get_contents (path, &text, &length, NULL)
          || length == 0)
        continue;

      file = g_fopen (path, "r+");
      g_assert_nonnull (file);
      fseek (file, (long) (share * (double) (length - 1)), SEEK_SET);
      fputc (text[(gsize) (share * (double) (length - 1))] ^ 0x5a, file);
      fclose (file);
      n++;
    }
  if (dir != NULL)
    g_dir_close (dir);
  return n;
}

void
rig_make_computing_cheap (Rig *rig)
{
  LlmKvProfile profile = { 0 };

  profile.read_latency_us = 1000;
  profile.read_bytes_per_us = 0.001;
  profile.write_bytes_per_us = 1;
  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    profile.prompt_us[i] = 0.01 * llm_kv_profile_rows[i];
  g_assert_true (llm_kv_profile_is_measured (&profile));
  rig->store->profile = profile;
}

void
twin_open (Twin       *twin,
           Rig        *rig,
           const char *id)
{
  *twin = (Twin) { .rig = rig };
  g_strlcpy (twin->id, id, sizeof twin->id);
  twin->seq = llm_kv_seq_new (rig->store, rig->storage != NULL ? "app" : NULL, id);
  twin->rows = g_array_new (FALSE, FALSE, sizeof (guint));
}

guint
twin_attach (Twin *twin)
{
  while (!llm_kv_seq_is_open (twin->seq))
    llm_kv_store_wait (twin->rig->store, G_MAXINT64);
  return llm_kv_seq_attach (twin->seq, twin->tokens, twin->n_tokens);
}

void
twin_close (Twin *twin)
{
  g_clear_pointer (&twin->seq, llm_kv_seq_free);
  g_clear_pointer (&twin->rows, g_array_unref);
}

void
twin_add_tokens (Twin *twin,
                 guint n)
{
  g_assert_cmpuint (twin->n_tokens + n, <=, RIG_MAX_TOKENS);
  for (guint i = 0; i < n; i++)
    {
      twin->places[twin->n_tokens] = twin->n_tokens;
      twin->tokens[twin->n_tokens++] = g_test_rand_int_range (0, 32000);
    }
}

guint
twin_length (const Twin *twin)
{
  return twin->n_tokens - twin->n_slid;
}

static guint
get_token (const Twin *twin,
           guint       slot)
{
  return slot < twin->n_sinks ? slot : slot + twin->n_slid;
}

void
twin_make_rough (Twin *twin)
{
  if (twin->rig->policy.name == NULL || twin->rig->policy.compression == LLM_KV_KEEP)
    return;

  for (guint slot = 0; slot < twin_length (twin) / RIG_SLOTS * RIG_SLOTS; slot++)
    twin->is_rough[get_token (twin, slot)] = TRUE;
}

/* --- what should be --- */

static guint64
mix (guint64 x)
{
  x = (x ^ (x >> 30)) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* About as normal as the sum of four numbers, and exact in halves. */
static float
get_value (guint64 x)
{
  gint sum = 0;

  for (guint i = 0; i < 4; i++)
    sum += (gint) (x >> (16 * i) & 0x1ff) - 0x100;
  return (float) sum / 256;
}

void
twin_expect (const Twin *twin,
             guint       layer,
             guint       slot,
             gboolean    is_value,
             float      *values)
{
  gboolean is_sink = slot < twin->n_sinks;
  guint token = get_token (twin, slot);
  guint position = twin->places[token] + (is_sink ? twin->n_slid : 0);
  guint64 seed = mix ((guint64) twin->tokens[token] << 32 | (guint64) position << 8 | layer << 1
                      | (is_value ? 1 : 0));

  for (guint i = 0; i < RIG_VALUES; i++)
    values[i] = get_value (mix (seed + i));
}

/* --- what is --- */

/* One layer of a chunk as floats: by slot, K and then V. */
typedef struct
{
  float values[RIG_SLOTS][2][RIG_VALUES];
} Floats;

static void
read_view (const LlmKvLayer *shape,
           const LlmKvView  *view,
           Floats           *floats)
{
  for (guint head = 0; head < shape->n_kv_heads; head++)
    for (LlkKvPart part = LLK_KV_KEYS; part <= LLK_KV_VALUES; part++)
      {
        float values[RIG_SLOTS * RIG_HEAD_DIM];
        const guint8 *data = (const guint8 *) (part == LLK_KV_VALUES ? view->v : view->k)
                             + head * view->head_bytes;

        llk_ops_best ()->kv->unpack (view->format, part, shape->head_dim, RIG_SLOTS, data, values,
                                     false);
        for (guint slot = 0; slot < RIG_SLOTS; slot++)
          for (guint d = 0; d < shape->head_dim; d++)
            floats->values[slot][part][head * shape->head_dim + d]
                = part == LLK_KV_VALUES ? values[slot * shape->head_dim + d]
                                        : values[d * RIG_SLOTS + slot];
      }
}

/* Relative, squared. Of a slot that is not the right one it is about 2; with 2 bits, or less when
 * they have been unpacked and packed again, about 0.15. */
static double
get_allowed_error (LlkKvFormat format,
                   gboolean    is_rough)
{
  return is_rough || llk_kv_is_packed (format) ? 0.7 : 0;
}

static void
compare_slot (Twin            *twin,
              const LlmKvView *view,
              const Floats    *floats,
              guint            layer,
              guint            slot)
{
  const LlmKvLayer *shape = &twin->rig->store->layers[layer];
  gboolean is_rough = twin->is_rough[get_token (twin, slot)];
  double error = 0, sum = 0;

  for (guint is_value = 0; is_value < 2; is_value++)
    {
      const float *found = floats->values[slot - view->first_slot][is_value];
      float expected[RIG_VALUES];

      twin_expect (twin, layer, slot, is_value, expected);
      for (guint i = 0; i < shape->n_kv_heads * shape->head_dim; i++)
        {
          error += ((double) found[i] - expected[i]) * ((double) found[i] - expected[i]);
          sum += (double) expected[i] * expected[i];
        }
    }
  if (!(error <= get_allowed_error (view->format, is_rough) * sum))
    g_error ("Layer %u slot %u of %s differs by %g in format %u", layer, slot, twin->id,
             error / sum, view->format);
}

/* What the rows of the step see in this layer is there, and right. */
static void
compare_layer (Twin *twin,
               guint layer)
{
  guint window = twin->rig->windows != NULL ? twin->rig->windows[layer] : 0;
  guint n_slots = twin->seq->length;
  g_autofree guint8 *is_seen = g_new0 (guint8, n_slots + 1);

  for (guint r = 0; r < twin->rows->len; r++)
    {
      guint row = g_array_index (twin->rows, guint, r);

      for (guint slot = window > 0 && row + 1 > window ? row + 1 - window : 0; slot <= row; slot++)
        is_seen[slot] = 1;
    }
  for (guint chunk = 0; chunk < twin->seq->holds->len; chunk++)
    {
      LlmKvView view;
      Floats floats;

      llm_kv_seq_view (twin->seq, layer, chunk, &view);
      g_assert_cmpuint (view.first_slot, ==, chunk * RIG_SLOTS);
      g_assert_cmpuint (view.n_slots, ==, MIN (RIG_SLOTS, n_slots - chunk * RIG_SLOTS));
      if (view.k != NULL)
        read_view (&twin->rig->store->layers[layer], &view, &floats);
      for (guint i = 0; i < view.n_slots; i++)
        if (is_seen[view.first_slot + i])
          {
            g_assert_nonnull (view.k);
            compare_slot (twin, &view, &floats, layer, view.first_slot + i);
          }
    }
}

/* --- a call --- */

/* The missing slots, then the new ones. */
static void
begin_step (Twin *twin)
{
  g_autoptr (GError) error = NULL;

  g_array_set_size (twin->rows, 0);
  llm_kv_seq_get_missing (twin->seq, twin->rows);
  g_assert_false (twin->seq->has_fault);
  for (guint i = 1; i < twin->rows->len; i++)
    g_assert_cmpuint (g_array_index (twin->rows, guint, i), >,
                      g_array_index (twin->rows, guint, i - 1));
  g_assert_true (llm_kv_seq_append (twin->seq, twin->n_new, &error));
  g_assert_no_error (error);
  for (guint i = 0; i < twin->n_new; i++)
    {
      guint slot = twin->length + i;

      g_array_append_val (twin->rows, slot);
    }
  twin->layer = 0;
}

void
twin_begin (Twin      *twin,
            guint      n_new,
            LlmKvPlan *plan)
{
  g_autoptr (GError) error = NULL;
  LlmKvPlan unused;

  twin->length = twin->seq->length;
  g_assert_cmpuint (twin->length, ==, twin_length (twin));
  memcpy (twin->was_rough, twin->is_rough, sizeof twin->was_rough);
  g_assert_true (llm_kv_seq_begin_call (twin->seq, n_new, plan != NULL ? plan : &unused, &error));
  g_assert_no_error (error);
  twin_add_tokens (twin, n_new);
  twin->n_new = n_new;
  begin_step (twin);
}

gboolean
twin_step (Twin *twin)
{
  g_autoptr (GError) error = NULL;

  if (twin->layer == RIG_LAYERS)
    return FALSE;

  switch (llm_kv_seq_make_resident (twin->seq, twin->layer, &error))
    {
    case LLM_PENDING:
      llm_kv_store_wait (twin->rig->store, WAIT_US);
      return TRUE;
    case LLM_FAILED:
      g_assert_nonnull (error);
      g_assert_true (twin->seq->has_fault);
      llm_kv_seq_truncate (twin->seq, twin->length);
      begin_step (twin);
      return TRUE;
    case LLM_READY:
    default:
      break;
    }

  for (guint r = 0; r < twin->rows->len; r++)
    {
      guint slot = g_array_index (twin->rows, guint, r);
      float k[RIG_VALUES], v[RIG_VALUES];

      twin_expect (twin, twin->layer, slot, FALSE, k);
      twin_expect (twin, twin->layer, slot, TRUE, v);
      llm_kv_seq_write (twin->seq, twin->layer, slot, k, v);
      twin->is_rough[get_token (twin, slot)] = FALSE;
    }
  compare_layer (twin, twin->layer);
  twin->layer++;
  return twin->layer < RIG_LAYERS;
}

/* What is left of a chunk that was packed lies on storage as it was, and may come back from there
 * although a call has computed it again. */
static void
remember_rough (Twin *twin)
{
  if (twin->rig->storage == NULL)
    return;

  for (guint slot = 0; slot < twin->length; slot++)
    twin->is_rough[get_token (twin, slot)] |= twin->was_rough[get_token (twin, slot)];
}

void
twin_end (Twin *twin)
{
  remember_rough (twin);
  llm_kv_seq_end_call (twin->seq, twin->tokens, twin->n_tokens);
  twin_make_rough (twin);
  g_assert_false (twin->seq->is_locked);
}

void
twin_call (Twin *twin,
           guint n_new)
{
  twin_begin (twin, n_new, NULL);
  while (twin_step (twin))
    ;
  twin_end (twin);
}

void
twin_give_up (Twin *twin)
{
  llm_kv_seq_truncate (twin->seq, twin->length);
  twin->n_tokens = twin->length + twin->n_slid;
  remember_rough (twin);
  twin_make_rough (twin);
  if (g_test_rand_bit ())
    llm_kv_seq_preempt (twin->seq);
  else
    twin_end (twin);
}

guint
twin_bits (Twin *twin,
           guint chunk)
{
  LlmKvChunkInfo info;

  llm_kv_seq_get_info (twin->seq, chunk, &info);
  return info.bits;
}

char *
twin_map (Twin *twin)
{
  GString *map = g_string_new (NULL);

  for (guint i = 0; i < twin->seq->holds->len; i++)
    {
      LlmKvChunkInfo info;

      llm_kv_seq_get_info (twin->seq, i, &info);
      if (i > 0)
        g_string_append_c (map, ' ');
      if (info.bits == 0)
        g_string_append_c (map, '-');
      else
        g_string_append_printf (map, info.is_in_memory ? "%u%s" : "(%u%s)", info.bits,
                                info.is_on_storage ? "s" : "");
    }
  return g_string_free (map, FALSE);
}
