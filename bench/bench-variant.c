/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-variant.h"

BenchVariant *
bench_variant_new (BenchEngine *engine,
                   const char  *name,
                   gboolean     collects_density)
{
  BenchVariant *self = g_new0 (BenchVariant, 1);

  self->name = g_strdup (name);
  self->engine = engine;
  self->collects_density = collects_density;
  self->position_bytes = (double) engine->costs.position_bytes;
  return self;
}

BenchVariant *
bench_variant_new_packed (BenchEngine  *engine,
                          const char   *name,
                          const char   *policy,
                          gboolean      collects_density,
                          GError      **error)
{
  const LlmKvPolicy *found = llm_kv_policy_find (policy);
  BenchVariant *self;

  if (found == NULL)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "There is no policy “%s”",
                   policy);
      return NULL;
    }
  self = bench_variant_new (engine, name, collects_density);
  self->store = bench_engine_new_store (engine, found, error);
  if (self->store != NULL)
    return self;
  bench_variant_free (self);
  return NULL;
}

void
bench_variant_free (BenchVariant *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < self->n_filled; i++)
    llm_kv_seq_free (self->filled[i]);
  g_free (self->filled);
  g_clear_pointer (&self->store, llm_kv_store_free);
  g_free (self->name);
  g_free (self);
}

void
bench_variant_fill (BenchVariant *self,
                    guint         n,
                    guint         depth)
{
  LlmKvStore *store = self->store != NULL ? self->store : self->engine->store;

  self->filled = g_new0 (LlmKvSeq *, n);
  self->n_filled = n;
  /* Bits are chosen by densities. */
  llm_forward_set_density (self->engine->forward, self->store != NULL);
  for (guint i = 0; i < n; i++)
    {
      g_autoptr(GError) error = NULL;
      LlmKvPlan plan;

      self->filled[i] = llm_kv_seq_new (store, NULL, NULL);
      if (depth == 0)
        continue;
      if (!llm_kv_seq_begin_call (self->filled[i], depth, &plan, &error))
        g_error ("%s", error->message);
      bench_engine_prompt (self->engine, self->filled[i], depth, NULL);
      bench_engine_end_call (store, self->filled[i]);
    }
  if (self->store != NULL && depth > 0)
    self->position_bytes = (double) llm_kv_store_get_bytes (store) / ((double) n * depth);
}
