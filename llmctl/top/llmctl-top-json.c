/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-json.h"
#include "llmctl/bus/llmctl-service.h"
#include "llmctl/top/llmctl-top-view.h"

static GVariant *
make_rates (const LlmctlTopView *self)
{
  static const char *const keys[] = { "prompt-tokens", "reused-tokens", "output-tokens",
                                      "read-tokens", "written-tokens", "rows", "steps" };
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  for (gsize i = 0; i < G_N_ELEMENTS (keys) && llmctl_history_has_rates (self->history); i++)
    if (llmctl_sample_has (self->sample, keys[i]))
      llmctl_json_add (&builder, keys[i],
                       g_variant_new_double (llmctl_history_get_rate (self->history, keys[i])));

  return g_variant_builder_end (&builder);
}

static void
add_recent (GVariantBuilder *builder,
            LlmctlHistory   *history,
            const char      *key)
{
  llmctl_json_add (builder, key, g_variant_new_uint64 (llmctl_history_get_recent (history, key)));
}

static GVariant *
make_recent (const LlmctlTopView *self)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  for (const LlmctlTopClass *class = llmctl_top_classes; class->name != NULL; class++)
    if (llmctl_sample_has (self->sample, class->met))
      {
        add_recent (&builder, self->history, class->met);
        add_recent (&builder, self->history, class->missed);
      }

  return g_variant_builder_end (&builder);
}

static GVariant *
make_contexts (const LlmctlSample *sample)
{
  GVariantBuilder builder;
  GVariantIter iter;
  const char *path;
  GVariant *context;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  g_variant_iter_init (&iter, sample->contexts);
  while (g_variant_iter_loop (&iter, "(&o@a{sv})", &path, &context))
    {
      g_autoptr(GVariant) renamed = g_variant_ref_sink (llmctl_json_rename_keys (context));
      g_autoptr(GVariantDict) dict = g_variant_dict_new (renamed);
      GVariant *memory = g_hash_table_lookup (sample->memories, path);

      g_variant_dict_insert (dict, "path", "s", path);
      if (memory != NULL)
        {
          g_variant_dict_insert (dict, "memory-bytes", "t",
                                 llmctl_dict_get_number (memory, "memory-bytes"));
          g_variant_dict_insert (dict, "storage-bytes", "t",
                                 llmctl_dict_get_number (memory, "storage-bytes"));
        }
      g_variant_builder_add_value (&builder, g_variant_dict_end (dict));
    }

  return g_variant_builder_end (&builder);
}

GVariant *
llmctl_top_view_make_json (const LlmctlTopView *self)
{
  const LlmctlSample *sample = self->sample;
  g_autoptr(GDateTime) now = g_date_time_new_now_utc ();
  g_autofree char *time = g_date_time_format_iso8601 (now);
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  llmctl_json_add_string (&builder, "time", time);
  llmctl_json_add_boolean (&builder, "running", sample->is_running);
  if (sample->service != NULL)
    llmctl_json_add (&builder, "service", llmctl_json_rename_keys (sample->service));
  if (sample->model != NULL)
    llmctl_json_add (&builder, "model", llmctl_json_rename_keys (sample->model));
  if (sample->memory != NULL)
    llmctl_json_add (&builder, "memory", llmctl_json_rename_keys (sample->memory));
  if (sample->statistics != NULL)
    {
      llmctl_json_add (&builder, "statistics", sample->statistics);
      llmctl_json_add (&builder, "rates", make_rates (self));
      llmctl_json_add (&builder, "last-minute", make_recent (self));
    }
  if (sample->apps != NULL)
    llmctl_json_add (&builder, "apps", sample->apps);
  if (sample->contexts != NULL)
    llmctl_json_add (&builder, "contexts", make_contexts (sample));
  if (sample->is_running)
    llmctl_json_add (&builder, "states",
                     g_variant_new_strv ((const char *const *) sample->states->pdata,
                                         (gssize) sample->states->len));

  return g_variant_builder_end (&builder);
}
