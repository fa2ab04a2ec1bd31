/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "base/llm-fail.h"
#include "kv/llm-kv-private.h"

#include "common/llmsvc-error.h"

/* More than any model has, little enough that sizes can't overflow. */
#define MAX_LAYERS 4096
#define MAX_KV_HEADS 4096

/* Relative squared errors of each width until some were measured. */
static const double first_errors[LLK_N_KV_FORMATS] = { 0, 0, 3.5e-5, 6e-3, 0.095 };

static gboolean
check_layout (const LlmKvLayout *layout,
              GError           **error)
{
  if (layout->kind != LLM_KV_FULL && layout->kind != LLM_KV_WINDOW)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "Context memory of kind %d is not supported: full and window are",
                     (int) layout->kind);
  if (layout->format != LLK_KV_F32 && layout->format != LLK_KV_F16)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "Context memory in format %d is not supported: only F32 and F16 are",
                     (int) layout->format);
  if (layout->n_layers < 1 || layout->n_layers > MAX_LAYERS || layout->n_kv_heads < 1
      || layout->n_kv_heads > MAX_KV_HEADS || layout->head_dim < 1
      || layout->head_dim > LLK_MAX_HEAD_DIM || layout->chunk_slots < 1
      || layout->chunk_slots > LLK_ATTENTION_MAX_SLOTS)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "Context memory for %u layers of %u heads of %u values in chunks of %u "
                     "positions is not supported: at most %u layers, %u heads, %u values, %u "
                     "positions are", layout->n_layers, layout->n_kv_heads, layout->head_dim,
                     layout->chunk_slots, MAX_LAYERS, MAX_KV_HEADS, LLK_MAX_HEAD_DIM,
                     LLK_ATTENTION_MAX_SLOTS);
  if (layout->chunk_slots % LLK_ATTENTION_GROUP != 0)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "Context memory in chunks of %u positions is not supported: only multiples of "
                     "%u are", layout->chunk_slots, LLK_ATTENTION_GROUP);

  return TRUE;
}

static void
measure_form (LlmKvStore *self,
              LlmKvForm   form)
{
  const gsize *parts = self->part_bytes[LLM_KV_FORM_FORMAT (form)];
  gsize layer_bytes = (parts[LLK_KV_KEYS] + parts[LLK_KV_VALUES]) * self->layout.n_kv_heads;
  gsize *offsets = g_new (gsize, self->layout.n_layers + 1);

  offsets[0] = 0;
  for (guint layer = 0; layer < self->layout.n_layers; layer++)
    {
      gboolean is_left_out = LLM_KV_FORM_IS_BEHIND (form) && self->windows[layer] > 0;

      offsets[layer + 1] = offsets[layer] + (is_left_out ? 0 : layer_bytes);
    }
  self->shape.offsets[form] = offsets;
  llm_kv_arena_init (&self->arenas[form], offsets[self->layout.n_layers]);
}

static void
measure_forms (LlmKvStore *self)
{
  for (LlkKvFormat format = LLK_KV_F32; format < LLK_N_KV_FORMATS; format++)
    {
      if (format != self->layout.format && !llk_kv_is_packed (format))
        continue;

      for (LlkKvPart part = LLK_KV_KEYS; part <= LLK_KV_VALUES; part++)
        self->part_bytes[format][part] = llk_kv_part_bytes (format, part, self->layout.head_dim,
                                                            self->layout.chunk_slots);
      measure_form (self, LLM_KV_FORM (format, FALSE));
      if (self->window > 0)
        measure_form (self, LLM_KV_FORM (format, TRUE));
    }
}

LlmKvStore *
llm_kv_store_new (const LlmKvLayout *layout,
                  const LlmKvPolicy *policy,
                  LlmLedger         *ledger,
                  GError           **error)
{
  LlmKvStore *self;

  if (!check_layout (layout, error))
    return NULL;

  self = g_new0 (LlmKvStore, 1);
  self->layout = *layout;
  self->shape.n_layers = layout->n_layers;
  self->shape.chunk_slots = layout->chunk_slots;
  self->policy = policy != NULL ? *policy : *llm_kv_policy_find ("keep");
  self->ledger = ledger != NULL ? llm_ledger_ref (ledger) : NULL;
  self->ops = llk_ops_best ();
  if (layout->windows != NULL)
    {
      self->windows = g_memdup2 (layout->windows, layout->n_layers * sizeof (guint));
      for (guint i = 0; i < layout->n_layers; i++)
        self->window = MAX (self->window, self->windows[i]);
    }
  self->layout.windows = self->windows;
  measure_forms (self);
  self->values = g_new (float, layout->head_dim * layout->chunk_slots);
  self->values_again = g_new (float, layout->head_dim * layout->chunk_slots);
  for (guint i = 0; i < LLK_N_KV_FORMATS; i++)
    self->errors[i] = first_errors[i];
  self->queue.by_bits = self->policy.by_bits;
  return self;
}

void
llm_kv_store_free (LlmKvStore *self)
{
  if (self == NULL)
    return;

  g_assert (self->sequences.length == 0 && self->bytes == 0 && self->n_batches == 0);
  for (guint i = 0; i < LLM_KV_N_FORMS; i++)
    {
      llm_kv_arena_clear (&self->arenas[i]);
      g_free ((gpointer) self->shape.offsets[i]);
    }
  g_free (self->values);
  g_free (self->values_again);
  g_free (self->windows);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  g_free (self);
}

void
llm_kv_store_set_storage (LlmKvStore   *self,
                          LlmKvStorage *storage,
                          guint64       identity)
{
  g_return_if_fail (self->sequences.length == 0);

  self->storage = storage;
  self->shape.identity = identity;
}

guint64
llm_kv_store_get_chunk_bytes (LlmKvStore *self,
                              LlkKvFormat format)
{
  g_return_val_if_fail (llm_kv_store_has_form (self, LLM_KV_FORM (format, FALSE)), 0);

  return self->arenas[LLM_KV_FORM (format, FALSE)].bytes;
}

/* The worst case: the last chunk has one slot left and is shared or quantized, so it is copied. */
guint64
llm_kv_store_price (LlmKvStore *self,
                    guint       n_slots)
{
  guint slots = self->layout.chunk_slots;

  if (n_slots == 0)
    return 0;

  return (1 + ((guint64) n_slots - 1 + slots - 1) / slots)
         * self->arenas[llm_kv_store_float_form (self)].bytes;
}

gboolean
llm_kv_store_has_form (LlmKvStore *self,
                       guint       form)
{
  return form < LLM_KV_N_FORMS && self->shape.offsets[form] != NULL;
}

gboolean
llm_kv_store_has_room (LlmKvStore *self,
                       guint64     bytes)
{
  return self->ledger == NULL || bytes == 0 || llm_ledger_has_room (self->ledger, bytes);
}

void
llm_kv_store_wait (LlmKvStore *self,
                   gint64      timeout_us)
{
  if (self->storage != NULL)
    llm_disk_poll (llm_kv_storage_get_disk (self->storage), timeout_us);
}
