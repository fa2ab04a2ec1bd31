/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A question about this computer and its user's day: the model calls functions, which ask UPower and
 * the calendar of the desktop over D-Bus.
 *
 *   cc assistant.c -o assistant $(pkg-config --cflags --libs llmsvc-1 json-glib-1.0)
 *   ./assistant "Is the battery full enough for my meeting?"
 */

#include <json-glib/json-glib.h>
#include <llmsvc.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_ROUNDS 5
/* the calendar sends what it finds, and does not say when that is all */
#define CALENDAR_MS 500
#define CALENDAR "org.gnome.Shell.CalendarServer"
#define CALENDAR_PATH "/org/gnome/Shell/CalendarServer"

static const char tools[] =
  "[{\"type\": \"function\", \"function\": {\"name\": \"get_battery\","
  "  \"description\": \"How full the battery of this computer is, in percent\","
  "  \"parameters\": {\"type\": \"object\", \"properties\": {}}}},"
  " {\"type\": \"function\", \"function\": {\"name\": \"get_events\","
  "  \"description\": \"What is in the user's calendar from now on\","
  "  \"parameters\": {\"type\": \"object\", \"properties\": {\"days\":"
  "    {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 31,"
  "     \"description\": \"How many days to look at\"}}}}}]";

/* --- the functions: each adds members to @result, or fails --- */

static gboolean
get_battery (JsonObject  *result,
             GError     **error)
{
  g_autoptr(GDBusConnection) bus = g_bus_get_sync (G_BUS_TYPE_SYSTEM, NULL, error);
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) percentage = NULL;

  if (bus == NULL)
    return FALSE;
  reply = g_dbus_connection_call_sync (
    bus, "org.freedesktop.UPower", "/org/freedesktop/UPower/devices/DisplayDevice",
    "org.freedesktop.DBus.Properties", "Get",
    g_variant_new ("(ss)", "org.freedesktop.UPower.Device", "Percentage"), G_VARIANT_TYPE ("(v)"),
    G_DBUS_CALL_FLAGS_NONE, -1, NULL, error);
  if (reply == NULL)
    return FALSE;
  g_variant_get (reply, "(v)", &percentage);
  json_object_set_double_member (result, "percent", g_variant_get_double (percentage));
  return TRUE;
}

static void
on_events (GDBusConnection *bus,
           const char      *sender,
           const char      *path,
           const char      *interface,
           const char      *signal,
           GVariant        *parameters,
           gpointer         data)
{
  JsonArray *events = data;
  g_autoptr(GVariantIter) iter = NULL;
  const char *summary;
  gint64 start;

  if (!g_variant_is_of_type (parameters, G_VARIANT_TYPE ("(a(ssxxa{sv}))")))
    return;
  g_variant_get (parameters, "(a(ssxxa{sv}))", &iter);
  while (g_variant_iter_next (iter, "(&s&sxx@a{sv})", NULL, &summary, &start, NULL, NULL))
    {
      g_autoptr(GDateTime) time = g_date_time_new_from_unix_local (start);
      g_autofree char *begins = g_date_time_format (time, "%A %Y-%m-%d %H:%M");
      JsonObject *event = json_object_new ();

      json_object_set_string_member (event, "summary", summary);
      json_object_set_string_member (event, "begins", begins);
      json_array_add_object_element (events, event);
    }
}

static gboolean
on_waited (gpointer data)
{
  g_main_loop_quit (data);
  return G_SOURCE_REMOVE;
}

/* From Evolution Data Server, by way of GNOME's calendar service. */
static gboolean
get_events (JsonObject  *arguments,
            JsonObject  *result,
            GError     **error)
{
  g_autoptr(GDBusConnection) bus = g_bus_get_sync (G_BUS_TYPE_SESSION, NULL, error);
  g_autoptr(GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  g_autoptr(GVariant) reply = NULL;
  gint64 days = json_object_get_int_member_with_default (arguments, "days", 1);
  gint64 now = g_get_real_time () / G_USEC_PER_SEC;
  JsonArray *events = json_array_new ();
  guint subscription;

  json_object_set_array_member (result, "events", events);
  if (bus == NULL)
    return FALSE;
  subscription = g_dbus_connection_signal_subscribe (
    bus, CALENDAR, CALENDAR, "EventsAddedOrUpdated", CALENDAR_PATH, NULL, G_DBUS_SIGNAL_FLAGS_NONE,
    on_events, events, NULL);
  reply = g_dbus_connection_call_sync (bus, CALENDAR, CALENDAR_PATH, CALENDAR, "SetTimeRange",
                                       g_variant_new ("(xxb)", now, now + days * 86400, TRUE), NULL,
                                       G_DBUS_CALL_FLAGS_NONE, -1, NULL, error);
  if (reply != NULL)
    {
      g_timeout_add (CALENDAR_MS, on_waited, loop);
      g_main_loop_run (loop);
    }
  g_dbus_connection_signal_unsubscribe (bus, subscription);
  return reply != NULL;
}

/* --- the conversation --- */

/* The message with what the function that the model calls has to say. */
static LlmsvcMessage *
run_call (JsonNode  *call,
          GError   **error)
{
  JsonObject *function =
    json_object_get_object_member (json_node_get_object (call), "function");
  const char *name = json_object_get_string_member (function, "name");
  g_autoptr(JsonNode) arguments =
    json_from_string (json_object_get_string_member (function, "arguments"), NULL);
  g_autoptr(JsonNode) node = json_node_new (JSON_NODE_OBJECT);
  g_autoptr(JsonObject) result = json_object_new ();
  g_autoptr(GError) failure = NULL;
  g_autofree char *call_text = json_to_string (call, FALSE);
  g_autofree char *text = NULL;
  gboolean is_done;

  if (g_str_equal (name, "get_battery"))
    is_done = get_battery (result, &failure);
  else
    is_done = get_events (json_node_get_object (arguments), result, &failure);
  if (!is_done)
    json_object_set_string_member (result, "error", failure->message);
  json_node_set_object (node, result);
  text = json_to_string (node, FALSE);

  return llmsvc_message_new_tool_result (call_text, text, error);
}

static LlmsvcAnswer *
ask (LlmsvcContext *context,
     const char    *prompt,
     GError       **error)
{
  g_autoptr(LlmsvcOptions) options =
    g_object_new (LLMSVC_TYPE_OPTIONS, "max-tokens", 128, "temperature", 0.0, "tools", tools, NULL);
  g_autoptr(GPtrArray) messages = g_ptr_array_new_with_free_func (g_object_unref);
  LlmsvcAnswer *answer = NULL;

  g_ptr_array_add (messages, llmsvc_message_new (LLMSVC_ROLE_USER, prompt));
  for (guint round = 0; round < MAX_ROUNDS && messages->len > 0; round++)
    {
      g_autoptr(LlmsvcGeneration) generation = NULL;
      g_autoptr(JsonNode) calls = NULL;
      JsonArray *array;

      g_clear_object (&answer);
      generation = llmsvc_context_generate_sync (
        context, (LlmsvcMessage **) messages->pdata, messages->len, options, NULL, error);
      if (generation == NULL)
        return NULL;
      answer = llmsvc_generation_finish_sync (generation, NULL, error);
      if (answer == NULL)
        return NULL;
      g_ptr_array_set_size (messages, 0);
      if (llmsvc_answer_get_tool_calls (answer) == NULL)
        break;
      calls = json_from_string (llmsvc_answer_get_tool_calls (answer), NULL);
      array = calls != NULL ? json_node_get_array (calls) : NULL;
      for (guint i = 0; array != NULL && i < json_array_get_length (array); i++)
        {
          LlmsvcMessage *result = run_call (json_array_get_element (array, i), error);

          if (result == NULL)
            {
              g_clear_object (&answer);
              return NULL;
            }
          g_ptr_array_add (messages, result);
        }
    }
  return answer;
}

int
main (int    argc,
      char **argv)
{
  const char *prompt = argc > 1 ? argv[1] : "Is the battery full enough for my next meeting?";
  g_autoptr(LlmsvcClient) client = NULL;
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;

  setlocale (LC_ALL, "");

  client = llmsvc_client_new_sync (G_BUS_TYPE_NONE, NULL, NULL, &error);
  if (client != NULL)
    context = llmsvc_client_create_context_sync (client, NULL, NULL, &error);
  if (context != NULL)
    answer = ask (context, prompt, &error);
  if (answer == NULL)
    {
      fprintf (stderr, "%s\n", error->message);
      return EXIT_FAILURE;
    }

  puts (llmsvc_answer_get_text (answer));
  return EXIT_SUCCESS;
}
