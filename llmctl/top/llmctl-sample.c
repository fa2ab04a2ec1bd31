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

/* Contexts, applications and calls are asked for when a counter has moved, and so many looks
 * later at the latest. */
#define FRESH_LOOKS 10

/* Of the history. */
#define SPAN_US (60 * G_USEC_PER_SEC)

typedef struct
{
  GDBusConnection *bus;
  GCancellable *cancellable;
  gboolean is_over;           /* it is silent, or nobody waits: no more calls */
} Look;

void
llmctl_sample_free (LlmctlSample *self)
{
  GVariant *const held[] = { self->service, self->model,    self->memory, self->statistics,
                             self->apps,    self->contexts, self->states };

  for (gsize i = 0; i < G_N_ELEMENTS (held); i++)
    if (held[i] != NULL)
      g_variant_unref (held[i]);
  g_free (self);
}

guint64
llmctl_sample_count (const LlmctlSample *self,
                     const char         *key)
{
  return self->statistics != NULL ? llmctl_dict_get_number (self->statistics, key) : 0;
}

gboolean
llmctl_sample_has (const LlmctlSample *self,
                   const char         *key)
{
  return self->statistics != NULL && g_variant_lookup (self->statistics, key, "t", NULL);
}

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
has_moved (const LlmctlSample *self,
           const LlmctlSample *before)
{
  static const char *const keys[] = { "requests", "failed", "cancelled", "contexts", "calls",
                                      "steps", "rows", "trims", "kv-evicted-chunks",
                                      "kv-packed-chunks", "kv-storage-bytes" };

  if (before == NULL || before->statistics == NULL || self->statistics == NULL)
    return TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
    if (llmctl_sample_count (before, keys[i]) != llmctl_sample_count (self, keys[i]))
      return TRUE;

  return FALSE;
}

static GVariant *
ref (GVariant *value)
{
  return value != NULL ? g_variant_ref (value) : NULL;
}

LlmctlSample *
llmctl_sample_take (GDBusConnection    *bus,
                    const LlmctlSample *before,
                    GCancellable       *cancellable)
{
  Look look = { .bus = bus, .cancellable = cancellable };
  LlmctlSample *self = g_new0 (LlmctlSample, 1);
  const char *path;

  self->is_running = bus != NULL;
  if (self->is_running)
    self->service = get_all (&look, LLMCTL_SERVICE_PATH, LLMCTL_SERVICE_INTERFACE);
  if (self->service != NULL)
    {
      self->memory = get_all (&look, LLMCTL_SERVICE_PATH, LLMCTL_MEMORY_INTERFACE);
      self->statistics = call_plain (&look, LLMCTL_SERVICE_PATH,
                                     LLMCTL_SERVICE_INTERFACE ".GetStatistics", "a{sv}");
      path = llmctl_dict_get_string (self->service, "active-model");
      if (before != NULL && before->service != NULL &&
          g_str_equal (path, llmctl_dict_get_string (before->service, "active-model")))
        self->model = ref (before->model);
      if (self->model == NULL && g_variant_is_object_path (path) && !g_str_equal (path, "/"))
        self->model = get_all (&look, path, LLMCTL_MODEL_INTERFACE);

      self->n_looks = before != NULL ? before->n_looks + 1 : 0;
      if (has_moved (self, before) || self->n_looks >= FRESH_LOOKS)
        {
          self->n_looks = 0;
          self->apps = call_plain (&look, LLMCTL_SERVICE_PATH, LLMCTL_ADMIN_INTERFACE ".ListApps",
                                   "aa{sv}");
          self->contexts = look_at_contexts (&look);
          self->states = look_at_states (&look);
        }
      else
        {
          self->apps = ref (before->apps);
          self->contexts = ref (before->contexts);
          self->states = ref (before->states);
        }
    }
  self->time_us = g_get_monotonic_time ();

  return self;
}

/* --- the last minute --- */

typedef struct
{
  gint64 time_us;
  GVariant *statistics;
} Entry;

static void
entry_free (gpointer data)
{
  Entry *self = data;

  g_variant_unref (self->statistics);
  g_free (self);
}

void
llmctl_history_clear (LlmctlHistory *self)
{
  g_queue_clear_full (&self->looks, entry_free);
}

void
llmctl_history_add (LlmctlHistory *self,
                    gint64         time_us,
                    GVariant      *statistics)
{
  Entry *added = g_new (Entry, 1);
  Entry *second;

  added->time_us = time_us;
  added->statistics = g_variant_ref (statistics);
  g_queue_push_tail (&self->looks, added);
  /* the oldest one is as old as the span or older, so that there is something to compare with */
  while ((second = g_queue_peek_nth (&self->looks, 1)) != NULL &&
         time_us - second->time_us >= SPAN_US)
    entry_free (g_queue_pop_head (&self->looks));
}

/* From the look @from (nullable) to the last one. */
static guint64
get_growth (LlmctlHistory *self,
            const Entry   *from,
            const char    *key)
{
  const Entry *last = g_queue_peek_tail (&self->looks);
  guint64 before = from != NULL ? llmctl_dict_get_number (from->statistics, key) : 0;
  guint64 after = from != NULL ? llmctl_dict_get_number (last->statistics, key) : 0;

  return after > before ? after - before : 0;
}

/* Microseconds between the last two looks; 0 when nobody knows. */
static gint64
get_distance (LlmctlHistory *self)
{
  GList *last = self->looks.tail;

  return last != NULL && last->prev != NULL
             ? ((Entry *) last->data)->time_us - ((Entry *) last->prev->data)->time_us
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
