/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * llmctl monitor: what changes at the service, a line each, over its restarts. It
 * listens and calls nothing, so that it neither starts nor keeps the service.
 */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>

#include "llmctl/bus/llmctl-service.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/output/llmctl-words.h"
#include "llmctl/top/llmctl-watch.h"

/* As people or programs read it. */
static const char *
get_time (void)
{
  static char *time;
  g_autoptr(GDateTime) now = llmctl_globals.is_json ? g_date_time_new_now_utc ()
                                                    : g_date_time_new_now_local ();

  g_free (time);
  time = llmctl_globals.is_json ? g_date_time_format_iso8601 (now)
                                : g_date_time_format (now, "%H:%M:%S");
  return time;
}

/* One line: @text for people, or @event, which is floating. Takes both. */
static void
show (LlmctlWatch *watch,
      LlmctlStyle  style,
      char        *text,
      GVariant    *event)
{
  g_autofree char *line = text;
  g_autoptr(GVariant) owned = g_variant_ref_sink (event);
  gboolean is_there = llmctl_globals.is_json
                          ? llmctl_output_json_line (owned)
                          : llmctl_output_printf (LLMCTL_STYLE_DIM, "%s  ", get_time ()) &&
                                llmctl_output_printf (style, "%s\n", line);

  if (!is_there || !llmctl_output_flush ())
    watch->is_over = TRUE;
}

static void
on_state (LlmctlWatch *watch)
{
  show (watch, LLMCTL_STYLE_BOLD,
        g_strdup (watch->is_running ? _("The service is running")
                                    : _("The service is not running")),
        llmctl_json_object ("time:s", get_time (),
                            "event:s", watch->is_running ? "running" : "not-running", NULL));
}

/* (transfer full): for people; words in their language, sizes in their units. */
static char *
format_value (const char *interface,
              const char *name,
              GVariant   *value)
{
  g_autoptr(GString) sizes = g_string_new (NULL);
  GVariantIter iter;
  const char *key;
  guint64 size;

  if (g_variant_is_of_type (value, G_VARIANT_TYPE_STRING)
      && (g_str_equal (name, "Availability") || g_str_equal (name, "Pressure")))
    return g_strdup (llmctl_words_say (g_variant_get_string (value, NULL)));
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
    return g_variant_dup_string (value, NULL);
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_UINT64) &&
      g_str_equal (interface, LLMCTL_MEMORY_INTERFACE))
    return llmctl_format_bytes (g_variant_get_uint64 (value));
  if (!g_variant_is_of_type (value, G_VARIANT_TYPE ("a{st}")))
    return g_variant_print (value, FALSE);

  g_variant_iter_init (&iter, value);
  while (g_variant_iter_next (&iter, "{&st}", &key, &size))
    {
      g_autofree char *formatted = llmctl_format_bytes (size);

      g_string_append_printf (sizes, "%s%s %s", sizes->len > 0 ? ", " : "",
                              llmctl_words_say_cost (key), formatted);
    }
  return g_string_free (g_steal_pointer (&sizes), FALSE);
}

/* @value: (nullable): NULL for one that was only said to be another. */
static void
show_property (LlmctlWatch *watch,
               const char  *path,
               const char  *interface,
               const char  *name,
               GVariant    *value)
{
  g_autofree char *formatted = value != NULL ? format_value (interface, name, value) : g_strdup ("?");

  show (watch, LLMCTL_STYLE_PLAIN, g_strdup_printf ("%s: %s", name, formatted),
        llmctl_json_object ("time:s", get_time (), "event:s", "property", "path:s", path,
                            "interface:s", interface, "name:s", name, "value:*", value, NULL));
}

static void
on_signal (GDBusConnection *bus,
           const char      *sender,
           const char      *path,
           const char      *interface,
           const char      *name,
           GVariant        *arguments,
           gpointer         data)
{
  g_autoptr(GVariant) changed = NULL;
  g_autofree const char **invalidated = NULL;
  const char *of;

  if (g_str_equal (name, "PropertiesChanged") &&
      g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(sa{sv}as)")))
    {
      GVariantIter iter;
      const char *property;
      GVariant *value;

      g_variant_get (arguments, "(&s@a{sv}^a&s)", &of, &changed, &invalidated);
      g_variant_iter_init (&iter, changed);
      while (g_variant_iter_loop (&iter, "{&sv}", &property, &value))
        show_property (data, path, of, property, value);
      for (gsize i = 0; invalidated[i] != NULL; i++)
        show_property (data, path, of, invalidated[i], NULL);
    }
  else if (g_str_equal (name, "InterfacesAdded") &&
           g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(oa{sa{sv}})")))
    {
      g_autoptr(GVariant) model = NULL;
      const char *id;

      g_variant_get (arguments, "(&o@a{sa{sv}})", &of, &changed);
      model = g_variant_lookup_value (changed, LLMCTL_MODEL_INTERFACE, G_VARIANT_TYPE_VARDICT);
      if (model == NULL)
        return;
      id = llmctl_dict_get_string (model, "Id");
      show (data, LLMCTL_STYLE_PLAIN, g_strdup_printf (_("Model added: %s"), id),
            llmctl_json_object ("time:s", get_time (), "event:s", "model-added", "path:s", of,
                                "id:s", id, NULL));
    }
  else if (g_str_equal (name, "InterfacesRemoved") &&
           g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(oas)")))
    {
      g_variant_get_child (arguments, 0, "&o", &of);
      show (data, LLMCTL_STYLE_PLAIN, g_strdup_printf (_("Model removed: %s"), of),
            llmctl_json_object ("time:s", get_time (), "event:s", "model-removed", "path:s", of,
                                NULL));
    }
  else
    {
      g_autofree char *printed = g_variant_print (arguments, FALSE);

      show (data, LLMCTL_STYLE_PLAIN, g_strdup_printf ("%s.%s %s", interface, name, printed),
            llmctl_json_object ("time:s", get_time (), "event:s", "signal", "path:s", path,
                                "interface:s", interface, "name:s", name,
                                "arguments:*", arguments, NULL));
    }
}

static LlmctlExit
run (int       argc,
     char    **argv,
     GError  **error)
{
  g_auto(LlmctlWatch) watch = { NULL };
  LlmctlExit status = llmctl_watch_begin (&watch, on_state);
  guint subscription;

  if (status != LLMCTL_EXIT_OK)
    return status;

  subscription = g_dbus_connection_signal_subscribe (watch.bus, LLMCTL_SERVICE_NAME, NULL, NULL,
                                                     NULL, NULL, G_DBUS_SIGNAL_FLAGS_NONE,
                                                     on_signal, &watch, NULL);
  llmctl_watch_run (&watch);
  g_dbus_connection_signal_unsubscribe (watch.bus, subscription);
  if (!watch.is_bus_gone)
    return LLMCTL_EXIT_OK;

  llmctl_complain (_("The connection to the bus has ended; start “llmctl monitor” again when it "
                     "is back"));
  return LLMCTL_EXIT_NOT_AVAILABLE;
}

const LlmctlCommand llmctl_monitor_command = {
  .name = "monitor",
  .summary = N_("Print what changes at the service"),
  .description = N_("Availability, memory, models and signals, a line each, also while the service "
                    "restarts. Does not start it. Ends with 0 by Ctrl-C or when --timeout is "
                    "over.\n"
                    "--json: one object a line: time, event (running, not-running, property, "
                    "model-added, model-removed, signal), and by event path, interface, name, "
                    "value, id, arguments."),
  .run = run,
};
