/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * llmctl monitor: what changes at the service, a line each, over its restarts. It
 * listens and calls nothing, so that it neither starts nor keeps the service.
 */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl.h"

#include <glib/gi18n.h>

#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-service.h"
#include "llmctl/bus/llmctl-wait.h"

typedef struct
{
  gboolean is_over;       /* nobody reads on, or the bus is gone */
  gboolean is_bus_gone;
} Monitor;

/* What every line of JSON begins with. */
static void
begin_event (GVariantBuilder *event,
             const char      *kind)
{
  g_autoptr(GDateTime) now = g_date_time_new_now_utc ();
  g_autofree char *time = g_date_time_format_iso8601 (now);

  g_variant_builder_init (event, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (event, "{sv}", "time", g_variant_new_string (time));
  g_variant_builder_add (event, "{sv}", "event", g_variant_new_string (kind));
}

static void
end_event (Monitor         *self,
           GVariantBuilder *event)
{
  if (!llmctl_output_json_line (g_variant_builder_end (event)) || !llmctl_output_flush ())
    self->is_over = TRUE;
}

static void
print_line (Monitor     *self,
            LlmctlStyle  style,
            const char  *text)
{
  g_autoptr(GDateTime) now = g_date_time_new_now_local ();
  g_autofree char *time = g_date_time_format (now, "%H:%M:%S");

  if (!llmctl_output_printf (LLMCTL_STYLE_DIM, "%s  ", time) ||
      !llmctl_output_text (style, text) || !llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n") ||
      !llmctl_output_flush ())
    self->is_over = TRUE;
}

/* --- the service itself --- */

static void
show_state (Monitor    *self,
            const char *event,
            const char *text)
{
  GVariantBuilder builder;

  if (!llmctl_globals.is_json)
    {
      print_line (self, LLMCTL_STYLE_BOLD, text);
      return;
    }
  begin_event (&builder, event);
  end_event (self, &builder);
}

static void
on_appeared (GDBusConnection *bus,
             const char      *name,
             const char      *owner,
             gpointer         data)
{
  show_state (data, "running", _("The service is running"));
}

static void
on_vanished (GDBusConnection *bus,
             const char      *name,
             gpointer         data)
{
  Monitor *self = data;

  /* Without a bus nothing can be said of the service. */
  if (bus != NULL && !g_dbus_connection_is_closed (bus))
    show_state (self, "not-running", _("The service is not running"));
}

/* --- properties --- */

/* (transfer full): for people; sizes in their units. */
static char *
format_value (const char *interface,
              const char *name,
              GVariant   *value)
{
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
    return g_variant_dup_string (value, NULL);
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_UINT64) &&
      g_str_equal (interface, LLMCTL_MEMORY_INTERFACE))
    return llmctl_format_bytes (g_variant_get_uint64 (value));
  if (g_variant_is_of_type (value, G_VARIANT_TYPE ("a{st}")))
    {
      g_autoptr(GString) sizes = g_string_new (NULL);
      GVariantIter iter;
      const char *key;
      guint64 size;

      g_variant_iter_init (&iter, value);
      while (g_variant_iter_next (&iter, "{&st}", &key, &size))
        {
          g_autofree char *formatted = llmctl_format_bytes (size);

          g_string_append_printf (sizes, "%s%s %s", sizes->len > 0 ? ", " : "", key, formatted);
        }
      return g_string_free (g_steal_pointer (&sizes), FALSE);
    }

  return g_variant_print (value, FALSE);
}

static void
show_property (Monitor    *self,
               const char *path,
               const char *interface,
               const char *name,
               GVariant   *value)
{
  GVariantBuilder event;
  g_autofree char *formatted = NULL;
  g_autofree char *line = NULL;

  if (!llmctl_globals.is_json)
    {
      formatted = value != NULL ? format_value (interface, name, value) : g_strdup ("?");
      line = g_strdup_printf ("%s: %s", name, formatted);
      print_line (self, LLMCTL_STYLE_PLAIN, line);
      return;
    }

  begin_event (&event, "property");
  g_variant_builder_add (&event, "{sv}", "path", g_variant_new_string (path));
  g_variant_builder_add (&event, "{sv}", "interface", g_variant_new_string (interface));
  g_variant_builder_add (&event, "{sv}", "name", g_variant_new_string (name));
  if (value != NULL)
    g_variant_builder_add (&event, "{sv}", "value", value);
  end_event (self, &event);
}

static void
show_properties (Monitor    *self,
                 const char *path,
                 GVariant   *arguments)
{
  g_autoptr(GVariant) changed = NULL;
  g_autofree const char **invalidated = NULL;
  GVariantIter iter;
  const char *interface;
  const char *name;
  GVariant *value;

  g_variant_get (arguments, "(&s@a{sv}^a&s)", &interface, &changed, &invalidated);
  g_variant_iter_init (&iter, changed);
  while (g_variant_iter_loop (&iter, "{&sv}", &name, &value))
    show_property (self, path, interface, name, value);
  for (gsize i = 0; invalidated[i] != NULL; i++)
    show_property (self, path, interface, invalidated[i], NULL);
}

/* --- models and everything else --- */

static void
show_model (Monitor    *self,
            const char *path,
            GVariant   *model)
{
  const char *id = model != NULL ? llmctl_dict_get_string (model, "Id") : "";
  g_autofree char *line = NULL;
  GVariantBuilder event;

  if (!llmctl_globals.is_json)
    {
      line = model != NULL ? g_strdup_printf (_("Model added: %s"), id)
                           : g_strdup_printf (_("Model removed: %s"), path);
      print_line (self, LLMCTL_STYLE_PLAIN, line);
      return;
    }

  begin_event (&event, model != NULL ? "model-added" : "model-removed");
  g_variant_builder_add (&event, "{sv}", "path", g_variant_new_string (path));
  if (model != NULL)
    g_variant_builder_add (&event, "{sv}", "id", g_variant_new_string (id));
  end_event (self, &event);
}

static void
show_signal (Monitor    *self,
             const char *path,
             const char *interface,
             const char *name,
             GVariant   *arguments)
{
  GVariantBuilder event;
  g_autofree char *printed = NULL;
  g_autofree char *line = NULL;

  if (!llmctl_globals.is_json)
    {
      printed = g_variant_print (arguments, FALSE);
      line = g_strdup_printf ("%s.%s %s", interface, name, printed);
      print_line (self, LLMCTL_STYLE_PLAIN, line);
      return;
    }

  begin_event (&event, "signal");
  g_variant_builder_add (&event, "{sv}", "path", g_variant_new_string (path));
  g_variant_builder_add (&event, "{sv}", "interface", g_variant_new_string (interface));
  g_variant_builder_add (&event, "{sv}", "name", g_variant_new_string (name));
  g_variant_builder_add (&event, "{sv}", "arguments", arguments);
  end_event (self, &event);
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
  if (g_str_equal (name, "PropertiesChanged") &&
      g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(sa{sv}as)")))
    {
      show_properties (data, path, arguments);
    }
  else if (g_str_equal (name, "InterfacesAdded") &&
           g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(oa{sa{sv}})")))
    {
      g_autoptr(GVariant) interfaces = g_variant_get_child_value (arguments, 1);
      g_autoptr(GVariant) model = g_variant_lookup_value (interfaces, LLMCTL_MODEL_INTERFACE,
                                                          G_VARIANT_TYPE_VARDICT);
      const char *added;

      g_variant_get_child (arguments, 0, "&o", &added);
      if (model != NULL)
        show_model (data, added, model);
    }
  else if (g_str_equal (name, "InterfacesRemoved") &&
           g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(oas)")))
    {
      const char *removed;

      g_variant_get_child (arguments, 0, "&o", &removed);
      show_model (data, removed, NULL);
    }
  else
    {
      show_signal (data, path, interface, name, arguments);
    }
}

static void
on_closed (GDBusConnection *bus,
           gboolean         remote_peer_vanished,
           GError          *error,
           gpointer         data)
{
  Monitor *self = data;

  self->is_bus_gone = TRUE;
  self->is_over = TRUE;
}

static LlmctlExit
run (int    argc,
     char **argv)
{
  LlmctlExit status = llmctl_check_arguments (argv, 0);
  Monitor self = { FALSE };
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  gulong closed_handler;
  guint subscription;
  guint watch;

  if (status != LLMCTL_EXIT_OK)
    return status;

  /* Not llmctl_connect(): the connection has to tell this main loop when it closes. */
  llmctl_wait_begin (TRUE);
  llmsvc_bus_find_async (llmctl_globals.bus_type, llmctl_wait_get_cancellable (),
                         llmctl_wait_take, &result);
  bus = llmsvc_bus_find_finish (llmctl_wait (&result), NULL, NULL, &error);
  if (bus == NULL)
    return llmctl_wait_fail (error);

  closed_handler = g_signal_connect (bus, "closed", G_CALLBACK (on_closed), &self);
  subscription = g_dbus_connection_signal_subscribe (bus, LLMCTL_SERVICE_NAME, NULL, NULL, NULL,
                                                     NULL, G_DBUS_SIGNAL_FLAGS_NONE, on_signal,
                                                     &self, NULL);
  watch = g_bus_watch_name_on_connection (bus, LLMCTL_SERVICE_NAME, G_BUS_NAME_WATCHER_FLAGS_NONE,
                                          on_appeared, on_vanished, &self, NULL);
  while (!self.is_over && llmctl_wait_get_end () == LLMCTL_EXIT_OK)
    g_main_context_iteration (NULL, TRUE);

  g_signal_handler_disconnect (bus, closed_handler);
  g_dbus_connection_signal_unsubscribe (bus, subscription);
  g_bus_unwatch_name (watch);
  if (!self.is_bus_gone)
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
