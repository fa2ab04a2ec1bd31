/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl status: the properties of the service. Does not start it. */

#define G_LOG_DOMAIN "llmctl"

#include "llmctl/llmctl.h"

#include <stdio.h>
#include <string.h>

#include "common/llmsvc-json.h"
#include "common/llmsvc-names.h"

/* (transfer full): a{sv} of one interface, or NULL with @error set. */
static GVariant *
get_properties (GDBusConnection  *bus,
                const char       *path,
                const char       *interface,
                GError          **error)
{
  g_autoptr(GVariant) reply = NULL;
  GVariant *properties = NULL;

  reply = g_dbus_connection_call_sync (bus, LLMSVC_BUS_NAME, path,
                                       "org.freedesktop.DBus.Properties", "GetAll",
                                       g_variant_new ("(s)", interface),
                                       G_VARIANT_TYPE ("(a{sv})"), G_DBUS_CALL_FLAGS_NO_AUTO_START,
                                       -1, NULL, error);
  if (reply != NULL)
    g_variant_get (reply, "(@a{sv})", &properties);

  return properties;
}

static const char *
get_string (GVariant   *properties,
            const char *name)
{
  const char *string = "";

  /* Nothing of a service is needed to show the rest of it. */
  if (properties == NULL || !g_variant_lookup (properties, name, "&s", &string))
    return "";

  return string;
}

static guint64
get_size (GVariant   *properties,
          const char *name)
{
  guint64 size = 0;

  return g_variant_lookup (properties, name, "t", &size) ? size : 0;
}

static void
print_size (const char *label,
            guint64     bytes)
{
  g_autofree char *size = g_format_size_full (bytes, G_FORMAT_SIZE_IEC_UNITS);

  printf ("  %-14s %s\n", label, size);
}

static void
print_for_people (LlmctlBus  bus,
                  GVariant  *service,
                  GVariant  *memory,
                  GVariant  *model)
{
  const char *reason = get_string (service, "AvailabilityReason");
  guint64 budget = get_size (memory, "Budget");

  printf ("Service: %s, version %s, on the %s bus\n", get_string (service, "Availability"),
          get_string (service, "Version"), bus == LLMCTL_BUS_SYSTEM ? "system" : "session");
  if (*reason != '\0')
    printf ("  %s\n", reason);
  if (model != NULL)
    printf ("Model: %s (%s)\n", get_string (model, "Title"), get_string (model, "Id"));
  else
    puts ("Model: none");

  printf ("Memory: pressure %s\n", get_string (memory, "Pressure"));
  print_size ("held", get_size (memory, "Resident"));
  print_size ("weights", get_size (memory, "Weights"));
  print_size ("contexts", get_size (memory, "KvResident") + get_size (memory, "KvCompressed"));
  print_size ("on storage", get_size (memory, "KvSwapped"));
  if (budget > 0)
    print_size ("budget", budget);
}

/* Properties in the types that JSON is written from: paths as strings, sizes by
 * cost as an object. */
static GVariant *
simplify (GVariant *properties)
{
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);
  GVariantIter iter;
  const char *name;
  GVariant *value;

  g_variant_iter_init (&iter, properties);
  while (g_variant_iter_next (&iter, "{&sv}", &name, &value))
    {
      g_autoptr(GVariant) owned = value;

      if (g_variant_is_of_type (owned, G_VARIANT_TYPE_OBJECT_PATH))
        {
          g_variant_dict_insert (&dict, name, "s", g_variant_get_string (owned, NULL));
        }
      else if (g_variant_is_of_type (owned, G_VARIANT_TYPE ("a{st}")))
        {
          g_auto(GVariantDict) sizes = G_VARIANT_DICT_INIT (NULL);
          GVariantIter size_iter;
          const char *key;
          guint64 size;

          g_variant_iter_init (&size_iter, owned);
          while (g_variant_iter_next (&size_iter, "{&st}", &key, &size))
            g_variant_dict_insert (&sizes, key, "t", size);
          g_variant_dict_insert_value (&dict, name, g_variant_dict_end (&sizes));
        }
      else if (g_variant_is_of_type (owned, G_VARIANT_TYPE_VARDICT))
        {
          g_autoptr(GVariant) inner = simplify (owned);

          g_variant_dict_insert_value (&dict, name, inner);
        }
      else if (strchr ("butds", g_variant_get_type_string (owned)[0]) != NULL ||
               g_variant_is_of_type (owned, G_VARIANT_TYPE_STRING_ARRAY))
        {
          g_variant_dict_insert_value (&dict, name, owned);
        }
    }

  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

static void
print_json (LlmctlBus  bus,
            GVariant  *service,
            GVariant  *memory,
            GVariant  *model)
{
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);
  g_autoptr(GString) out = g_string_new (NULL);
  g_autoptr(GVariant) all = NULL;
  g_autoptr(GVariant) service_simple = simplify (service);
  g_autoptr(GVariant) memory_simple = simplify (memory);
  g_autoptr(GVariant) model_simple = model != NULL ? simplify (model) : NULL;

  g_variant_dict_insert (&dict, "bus", "s", bus == LLMCTL_BUS_SYSTEM ? "system" : "session");
  g_variant_dict_insert (&dict, "running", "b", TRUE);
  g_variant_dict_insert_value (&dict, "service", service_simple);
  g_variant_dict_insert_value (&dict, "memory", memory_simple);
  if (model_simple != NULL)
    g_variant_dict_insert_value (&dict, "model", model_simple);
  all = g_variant_ref_sink (g_variant_dict_end (&dict));

  llmsvc_json_append_value (out, all);
  puts (out->str);
}

static LlmctlExit
show (LlmctlBus which,
      gboolean  is_json)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) service = NULL;
  g_autoptr(GVariant) memory = NULL;
  g_autoptr(GVariant) model = NULL;
  g_autoptr(GDBusConnection) bus = NULL;
  const char *model_path = "/";
  gboolean is_running;
  LlmctlBus found;

  bus = llmctl_bus_connect (which, &found, &is_running, &error);
  if (bus == NULL)
    return llmctl_fail (error);
  if (!is_running)
    {
      const char *name = found == LLMCTL_BUS_SYSTEM ? "system" : "session";

      if (is_json)
        printf ("{\"bus\":\"%s\",\"running\":false}\n", name);
      else
        printf ("Service: not running; the first call on the %s bus starts it\n", name);
      return LLMCTL_EXIT_OK;
    }

  service = get_properties (bus, LLMSVC_PATH, LLMSVC_INTERFACE, &error);
  if (service == NULL)
    return llmctl_fail (error);
  memory = get_properties (bus, LLMSVC_PATH, LLMSVC_MEMORY_INTERFACE, &error);
  if (memory == NULL)
    return llmctl_fail (error);
  if (g_variant_lookup (service, "ActiveModel", "&o", &model_path) && strcmp (model_path, "/") != 0)
    model = get_properties (bus, model_path, LLMSVC_MODEL_INTERFACE, NULL);

  if (is_json)
    print_json (found, service, memory, model);
  else
    print_for_people (found, service, memory, model);
  return LLMCTL_EXIT_OK;
}

LlmctlExit
llmctl_cmd_status (int   argc,
                   char *argv[])
{
  gboolean is_system_bus = FALSE;
  gboolean is_session_bus = FALSE;
  gboolean is_json = FALSE;
  const GOptionEntry entries[] = {
    { "system-bus", 0, 0, G_OPTION_ARG_NONE, &is_system_bus,
      "Look on the system bus only", NULL },
    { "session-bus", 0, 0, G_OPTION_ARG_NONE, &is_session_bus,
      "Look on the session bus only", NULL },
    { "json", 0, 0, G_OPTION_ARG_NONE, &is_json, "Print one JSON object", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_auto(GStrv) rest = NULL;
  LlmctlExit status;

  if (!llmctl_parse (&argc, &argv, "", "Shows the service, its model and its memory.", entries,
                     &status))
    return status;

  rest = argv;
  if (argc != 1 || (is_system_bus && is_session_bus))
    {
      llmctl_complain (argc != 1 ? "“status” takes no argument; see “llmctl status --help”"
                                 : "--system-bus and --session-bus exclude each other");
      return LLMCTL_EXIT_USAGE;
    }

  return show (is_system_bus    ? LLMCTL_BUS_SYSTEM
               : is_session_bus ? LLMCTL_BUS_SESSION
                                : LLMCTL_BUS_ANY,
               is_json);
}
