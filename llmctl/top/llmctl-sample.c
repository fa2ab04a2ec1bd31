/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/top/llmctl-sample.h"

#include <string.h>

#include "llmctl/bus/llmctl-service.h"
#include "llmctl/output/llmctl-json.h"

#define GENERATIONS_PATH     LLMCTL_SERVICE_PATH "/generations"
#define GENERATION_INTERFACE "org.llm.Service.Generation"
#define PROPERTIES_INTERFACE "org.freedesktop.DBus.Properties"

/* A service that answers later than this is shown as one that does not. */
#define CALL_LIMIT_MS 4000

/* More would not be shown, and each is a call. */
#define MAX_MEMORIES 16
#define MAX_STATES   32

/* Of the history. */
#define SPAN_US (60 * G_USEC_PER_SEC)

typedef struct
{
  GDBusConnection *bus;
  GCancellable *cancellable;
  gboolean is_over;           /* it is silent, or nobody waits: no more calls */
} Look;

/* (transfer full) (nullable): the one value, of @type, that it replies. */
static GVariant *
call (Look       *look,
      const char *path,
      const char *method,
      GVariant   *arguments,
      const char *type)
{
  g_autoptr(GVariant) owned = arguments != NULL ? g_variant_ref_sink (arguments) : NULL;
  g_autoptr(GError) error = NULL;
  GVariant *value = NULL;

  if (!look->is_over)
    value = llmctl_service_ask (look->bus, LLMCTL_SERVICE_NAME, path, method, owned, type,
                                CALL_LIMIT_MS, look->cancellable, &error);
  look->is_over |= g_error_matches (error, G_IO_ERROR, G_IO_ERROR_TIMED_OUT) ||
                   g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);

  return value;
}

/* The same of a method that takes options and is given none. */
static GVariant *
call_plain (Look       *look,
            const char *path,
            const char *method,
            const char *type)
{
  return call (look, path, method, g_variant_new ("(a{sv})", NULL), type);
}

static GVariant *
get_all (Look       *look,
         const char *path,
         const char *interface)
{
  g_autoptr(GVariant) properties = call (look, path, PROPERTIES_INTERFACE ".GetAll",
                                         g_variant_new ("(s)", interface), "a{sv}");

  return properties != NULL ? g_variant_ref_sink (llmctl_json_rename_keys (properties)) : NULL;
}

static GVariant *
look_at_contexts (Look *look)
{
  g_autoptr(GVariant) list = call_plain (look, LLMCTL_SERVICE_PATH,
                                         LLMCTL_SERVICE_INTERFACE ".ListContexts", "a(oa{sv})");
  GVariantBuilder builder;
  GVariantIter iter;
  const char *path;
  GVariant *properties;
  static const char *const sizes[] = { "memory-bytes", "storage-bytes" };
  guint n = 0;

  if (list == NULL)
    return NULL;
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  g_variant_iter_init (&iter, list);
  while (g_variant_iter_loop (&iter, "(&o@a{sv})", &path, &properties))
    {
      g_autoptr(GVariant) renamed = g_variant_ref_sink (llmctl_json_rename_keys (properties));
      g_autoptr(GVariantDict) dict = g_variant_dict_new (renamed);
      g_autoptr(GVariant) memory = NULL;

      if (g_str_has_prefix (path, LLMCTL_SERVICE_PATH "/contexts/") && n++ < MAX_MEMORIES)
        memory = call_plain (look, path, LLMCTL_CONTEXT_INTERFACE ".GetMemory", "a{sv}");
      g_variant_dict_insert (dict, "path", "s", path);
      for (gsize i = 0; memory != NULL && i < G_N_ELEMENTS (sizes); i++)
        g_variant_dict_insert (dict, sizes[i], "t", llmctl_dict_get_number (memory, sizes[i]));
      g_variant_builder_add_value (&builder, g_variant_dict_end (dict));
    }

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

static GVariant *
look_at_states (Look *look)
{
  g_autoptr(GVariant) xml = call (look, GENERATIONS_PATH,
                                  "org.freedesktop.DBus.Introspectable.Introspect", NULL, "s");
  g_autoptr(GDBusNodeInfo) node =
      xml != NULL ? g_dbus_node_info_new_for_xml (g_variant_get_string (xml, NULL), NULL) : NULL;
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_STRING_ARRAY);
  for (guint i = 0, n = 0; n < MAX_STATES && node != NULL && node->nodes != NULL &&
                           node->nodes[i] != NULL; i++)
    {
      g_autofree char *path = g_strconcat (GENERATIONS_PATH "/", node->nodes[i]->path, NULL);
      g_autoptr(GVariant) boxed = NULL;
      g_autoptr(GVariant) state = NULL;

      if (!g_variant_is_object_path (path))
        continue;
      n++;
      boxed = call (look, path, PROPERTIES_INTERFACE ".Get",
                    g_variant_new ("(ss)", GENERATION_INTERFACE, "State"), "v");
      state = boxed != NULL ? g_variant_get_variant (boxed) : NULL;
      if (state != NULL && g_variant_is_of_type (state, G_VARIANT_TYPE_STRING))
        g_variant_builder_add_value (&builder, state);
    }

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

/* Whether anything was done since the look before. */
static gboolean
has_moved (GVariant *statistics,
           GVariant *before)
{
  g_autoptr(GVariant) old = g_variant_lookup_value (before, "statistics", G_VARIANT_TYPE_VARDICT);
  static const char *const keys[] = { "requests", "failed", "cancelled", "contexts", "calls",
                                      "steps", "rows", "trims", "kv-evicted-chunks",
                                      "kv-packed-chunks", "kv-narrow-chunks",
                                      "kv-storage-bytes" };

  for (gsize i = 0; i < G_N_ELEMENTS (keys) && old != NULL; i++)
    if (llmctl_dict_get_number (old, keys[i]) != llmctl_dict_get_number (statistics, keys[i]))
      return TRUE;

  return old == NULL;
}

GVariant *
llmctl_sample_take (GDBusConnection *bus,
                    GVariant        *before,
                    GCancellable    *cancellable)
{
  enum { SERVICE, MODEL, MEMORY, STATISTICS, APPS, CONTEXTS, STATES, N_PARTS };
  static const char *const names[N_PARTS] = { "service",    "model", "memory",
                                              "statistics", "apps",  "contexts", "states" };
  Look look = { .bus = bus, .cancellable = cancellable };
  GVariant *parts[N_PARTS] = { NULL };
  GVariantBuilder builder;

  if (bus != NULL)
    parts[SERVICE] = get_all (&look, LLMCTL_SERVICE_PATH, LLMCTL_SERVICE_INTERFACE);
  if (parts[SERVICE] != NULL)
    {
      const char *path = llmctl_dict_get_string (parts[SERVICE], "active-model");

      parts[MEMORY] = get_all (&look, LLMCTL_SERVICE_PATH, LLMCTL_MEMORY_INTERFACE);
      parts[STATISTICS] = call_plain (&look, LLMCTL_SERVICE_PATH,
                                      LLMCTL_SERVICE_INTERFACE ".GetStatistics", "a{sv}");
      if (before != NULL &&
          g_str_equal (path, llmctl_dict_get_string (before, "service/active-model")))
        parts[MODEL] = g_variant_lookup_value (before, names[MODEL], NULL);
      if (parts[MODEL] == NULL && g_variant_is_object_path (path) && !g_str_equal (path, "/"))
        parts[MODEL] = get_all (&look, path, LLMCTL_MODEL_INTERFACE);

      if (before == NULL || parts[STATISTICS] == NULL || has_moved (parts[STATISTICS], before))
        {
          parts[APPS] = call_plain (&look, LLMCTL_SERVICE_PATH, LLMCTL_ADMIN_INTERFACE ".ListApps",
                                    "aa{sv}");
          parts[CONTEXTS] = look_at_contexts (&look);
          parts[STATES] = look_at_states (&look);
        }
      else
        for (guint i = APPS; i < N_PARTS; i++)
          parts[i] = g_variant_lookup_value (before, names[i], NULL);
    }
  if (bus != NULL && parts[STATES] == NULL)
    parts[STATES] = g_variant_ref_sink (g_variant_new_strv (NULL, 0));

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  llmctl_json_add (&builder, "running", g_variant_new_boolean (bus != NULL));
  for (guint i = 0; i < N_PARTS; i++)
    if (parts[i] != NULL)
      {
        llmctl_json_add (&builder, names[i], parts[i]);
        g_variant_unref (parts[i]);
      }
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

/* --- the last minute --- */

/* A look: when it was, and its counters. */
#define LOOK_TYPE "(x@a{sv})"

void
llmctl_history_clear (LlmctlHistory *self)
{
  g_queue_clear_full (&self->looks, (GDestroyNotify) g_variant_unref);
}

static gint64
get_time (GVariant *look)
{
  gint64 time_us;

  g_variant_get_child (look, 0, "x", &time_us);
  return time_us;
}

void
llmctl_history_add (LlmctlHistory *self,
                    gint64         time_us,
                    GVariant      *statistics)
{
  GVariant *second;

  g_queue_push_tail (&self->looks,
                     g_variant_ref_sink (g_variant_new (LOOK_TYPE, time_us, statistics)));
  /* the oldest one is as old as the span or older, so that there is something to compare with */
  while ((second = g_queue_peek_nth (&self->looks, 1)) != NULL &&
         time_us - get_time (second) >= SPAN_US)
    g_variant_unref (g_queue_pop_head (&self->looks));
}

/* From the look @from (nullable) to the last one. */
static guint64
get_growth (LlmctlHistory *self,
            GVariant      *from,
            const char    *key)
{
  GVariant *const looks[] = { from, g_queue_peek_tail (&self->looks) };
  guint64 counts[2] = { 0 };

  for (guint i = 0; i < 2 && from != NULL; i++)
    {
      g_autoptr(GVariant) statistics = g_variant_get_child_value (looks[i], 1);

      counts[i] = llmctl_dict_get_number (statistics, key);
    }
  return counts[1] > counts[0] ? counts[1] - counts[0] : 0;
}

/* Microseconds between the last two looks; 0 when nobody knows. */
static gint64
get_distance (LlmctlHistory *self)
{
  GList *last = self->looks.tail;

  return last != NULL && last->prev != NULL ? get_time (last->data) - get_time (last->prev->data)
                                            : 0;
}

gboolean
llmctl_history_has_rates (LlmctlHistory *self)
{
  return get_distance (self) > 0;
}

double
llmctl_history_get_rate (LlmctlHistory *self,
                         const char    *key)
{
  gint64 distance_us = get_distance (self);

  return distance_us > 0 ? (double) get_growth (self, self->looks.tail->prev->data, key) *
                               G_USEC_PER_SEC / (double) distance_us
                         : 0;
}

guint64
llmctl_history_get_recent (LlmctlHistory *self,
                           const char    *key)
{
  return get_growth (self, g_queue_peek_head (&self->looks), key);
}
