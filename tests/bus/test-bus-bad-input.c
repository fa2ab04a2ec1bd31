/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Calls that are wrong: each gets a named error whose message says what is wrong,
 * and changes nothing. With --print [FILE] the table of them, as docs/bad-inputs.md has it.
 */

#include <gio/gio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bus-rig.h"
#include "support/llm-test-folder.h"

#define CONTEXT "CONTEXT"
#define EMPTY "EMPTY"
#define OTHERS "OTHERS"
#define NEVER LLMSVC_CONTEXTS_PATH "/0123456789abcdef0123456789abcdef"
#define DBUS_ERROR "org.freedesktop.DBus.Error."
#define PROPERTIES "org.freedesktop.DBus.Properties"

typedef struct
{
  const char *what;       /* for people */
  const char *path;       /* NULL: the service's; CONTEXT, EMPTY, OTHERS; else as it is */
  const char *interface;
  const char *method;
  const char *arguments;  /* GVariant text; LONG stands for @n_words words */
  guint n_words;
  const char *error;      /* after org.llm.Service.Error., or a whole name */
  const char *mentions;   /* part of the message: what is wrong */
} BadCall;

static const BadCall calls[] = {
  { "a string for a number", NULL, "", "Complete", "('hi', {'max-tokens': <'many'>})", 0,
    "InvalidOption", "max-tokens" },
  { "zero where one is the least", NULL, "", "Complete", "('hi', {'max-tokens': <0>})", 0,
    "InvalidOption", "max-tokens" },
  { "a negative count", NULL, "", "Complete", "('hi', {'max-tokens': <-5>})", 0, "InvalidOption",
    "max-tokens" },
  { "an absurd count", NULL, "", "Complete",
    "('hi', {'max-tokens': <uint64 18446744073709551615>})", 0, "InvalidOption", "max-tokens" },
  { "a fraction of a token", NULL, "", "Complete", "('hi', {'max-tokens': <1.5>})", 0,
    "InvalidOption", "max-tokens" },
  { "a negative temperature", NULL, "", "Complete", "('hi', {'temperature': <-1.0>})", 0,
    "InvalidOption", "temperature" },
  { "a temperature that is no number", NULL, "", "Complete", "('hi', {'temperature': <nan>})", 0,
    "InvalidOption", "temperature" },
  { "an endless temperature", NULL, "", "Complete", "('hi', {'temperature': <inf>})", 0,
    "InvalidOption", "temperature" },
  { "a probability over one", NULL, "", "Complete", "('hi', {'top-p': <1.5>})", 0, "InvalidOption",
    "top-p" },
  { "a negative top-k", NULL, "", "Complete", "('hi', {'top-k': <-1>})", 0, "InvalidOption",
    "top-k" },
  { "min-p over one", NULL, "", "Complete", "('hi', {'min-p': <2.0>})", 0, "InvalidOption",
    "min-p" },
  { "a penalty of zero", NULL, "", "Complete", "('hi', {'repeat-penalty': <0.0>})", 0,
    "InvalidOption", "repeat-penalty" },
  { "a negative seed", NULL, "", "Complete", "('hi', {'seed': <-1>})", 0, "InvalidOption", "seed" },
  { "numbers for stop strings", NULL, "", "Complete", "('hi', {'stop': <[1, 2]>})", 0,
    "InvalidOption", "stop" },
  { "an empty stop string", NULL, "", "Complete", "('hi', {'stop': <['']>})", 0, "InvalidOption",
    "stop" },
  { "too many stop strings", NULL, "", "Complete",
    "('hi', {'stop': <['a','b','c','d','e','f','g','h','i','j','k','l','m','n','o','p','q']>})", 0,
    "InvalidOption", "stop" },
  { "a bias out of range", NULL, "", "Complete", "('hi', {'logit-bias': <{uint32 5: 1000.0}>})", 0,
    "InvalidOption", "logit-bias" },
  { "a bias for a token that the model lacks", NULL, "", "Complete",
    "('hi', {'logit-bias': <{uint32 4000000: 1.0}>})", 0, "InvalidOption", "logit-bias" },
  { "an unknown class", NULL, "", "Complete", "('hi', {'slo': <'at once'>})", 0, "InvalidOption",
    "slo" },
  { "a deadline of no time", NULL, "", "Complete", "('hi', {'deadline-ms': <0>})", 0,
    "InvalidOption", "deadline-ms" },
  { "an unknown option that is required", NULL, "", "Complete",
    "('hi', {'colour': <'red'>, 'require': <['colour']>})", 0, "Unsupported", "colour" },
  { "an ability that is required and not there", NULL, "", "Complete",
    "('hi', {'require': <['time-travel']>})", 0, "Unsupported", "time-travel" },
  { "a string for the list of what is required", NULL, "", "Complete",
    "('hi', {'require': <'stop'>})", 0, "InvalidOption", "require" },
  { "a format without what it needs", NULL, "", "Complete",
    "('hi', {'response-format': <'json-schema'>})", 0, "InvalidOption", "schema" },
  { "a format that never was", NULL, "", "Complete", "('hi', {'response-format': <'xml'>})", 0,
    "InvalidOption", "response-format" },
  { "a schema with a keyword that has another type", NULL, "", "Complete",
    "('hi', {'schema': <'{\"required\": \"a\"}'>})", 0, "InvalidOption", "#/required" },
  { "a regular expression that is none", NULL, "", "Complete", "('hi', {'regex': <'(a'>})", 0,
    "InvalidOption", "regex" },
  { "a grammar without its root", NULL, "", "Complete", "('hi', {'grammar': <'a ::= \"b\"'>})", 0,
    "InvalidOption", "root" },
  { "tools that are no JSON", NULL, "", "Complete", "('hi', {'tools': <'[{'>})", 0,
    "InvalidOption", "tools" },
  { "a tool without a name", NULL, "", "Complete",
    "('hi', {'tools': <'[{\"type\": \"function\", \"function\": {}}]'>})", 0, "InvalidOption",
    "#/0/function" },
  { "a tool whose schema has a keyword that has another type", NULL, "", "Complete",
    "('hi', {'tools': <'[{\"function\": {\"name\": \"clock\", \"parameters\": {\"required\": 5}}}]'>})",
    0, "InvalidOption", "#/0/function/parameters/required" },
  { "a choice that is no tool", NULL, "", "Complete",
    "('hi', {'tool-choice': <'watch'>, 'tools': <'[{\"function\": {\"name\": \"clock\"}}]'>})", 0,
    "InvalidOption", "tool-choice" },
  { "a choice without tools", NULL, "", "Complete", "('hi', {'tool-choice': <'required'>})", 0,
    "InvalidOption", "tool-choice" },
  { "a way to think that never was", NULL, "", "Complete", "('hi', {'thinking': <'sometimes'>})", 0,
    "InvalidOption", "thinking" },
  { "a negative budget of reasoning", NULL, "", "Complete", "('hi', {'thinking': <-1>})", 0,
    "InvalidOption", "thinking" },
  { "no number or word for thinking", NULL, "", "Complete", "('hi', {'thinking': <['on']>})", 0,
    "InvalidOption", "thinking" },
  { "reasoning of a model whose template has none", NULL, "", "Complete",
    "('hi', {'thinking': <'on'>})", 0, "Unsupported", "thinking" },
  { "a budget of reasoning for such a model", NULL, "", "Complete",
    "('hi', {'thinking': <uint32 20>})", 0, "Unsupported", "thinking" },
  { "functions, as tools were once called", NULL, "", "Complete",
    "('hi', {'functions': <[{'name': <'clock'>}]>})", 0, "Unsupported", "functions" },
  { "several answers at once", NULL, "", "Complete", "('hi', {'n': <4>})", 0, "Unsupported",
    "make as many calls" },
  { "an image beside a message", CONTEXT, ".Context", "Generate",
    "([('user', 'What is this?', {'image': <'cat.png'>})], @a{sv} {})", 0, "Unsupported", "image" },
  { "a way out of a full context that never was", NULL, "", "Complete",
    "('hi', {'on-overflow': <'spill'>})", 0, "InvalidOption", "on-overflow" },
  { "a sub-model of a model that has none", NULL, "", "Complete",
    "('hi', {'sub-model': <uint32 50>})", 0, "Unsupported", "sub-model" },
  { "a sub-model that none can be", NULL, "", "Complete",
    "('hi', {'sub-model': <uint32 10>})", 0, "InvalidOption", "sub-model: 10" },
  { "a smallest sub-model that none can be", NULL, "", "Complete",
    "('hi', {'least-sub-model': <uint32 10>})", 0, "InvalidOption", "least-sub-model" },
  { "a sub-model smaller than the smallest", NULL, "", "Complete",
    "('hi', {'sub-model': <uint32 40>, 'least-sub-model': <uint32 70>})", 0, "InvalidOption",
    "least-sub-model 70" },
  { "more than all of the whole model's time", NULL, "", "Complete",
    "('hi', {'call-share': <1.5>})", 0, "InvalidOption", "call-share" },
  { "a target for energy", NULL, "", "Complete", "('hi', {'energy-share': <0.5>})", 0,
    "Unsupported", "energy" },
  { "a share over the whole", NULL, "", "Complete", "('hi', {'sub-model': <uint32 101>})", 0,
    "InvalidOption", "sub-model" },
  { "earlier messages with an unknown role", NULL, "", "Complete",
    "('hi', {'messages': <@a(ssa{sv}) [('wizard', 'abracadabra', {})]>})", 0, "InvalidArgument",
    "wizard" },
  { "a call of an earlier answer with broken arguments", NULL, "", "Complete",
    "('hi', {'messages': <@a(ssa{sv}) [('assistant', '', {'tool-calls': <'[{\"function\": {\"name\": "
    "\"clock\", \"arguments\": \"{\\\\\"zone\\\\\": \"}}]'>})]>})",
    0, "InvalidArgument", "Call 0 of message 0, of “clock”" },
  { "calls of an earlier answer that are no list", NULL, "", "Complete",
    "('hi', {'messages': <@a(ssa{sv}) [('assistant', '', {'tool-calls': <'clock()'>})]>})",
    0, "InvalidArgument", "tool-calls" },
  { "earlier messages of a wrong type", NULL, "", "Complete", "('hi', {'messages': <['hi']>})", 0,
    "InvalidOption", "messages" },
  { "more text than a call may bring", NULL, "", "Complete", "('LONG', @a{sv} {})", 210000,
    "MessageTooLarge", "1048576" },
  { "a prompt longer than the context", NULL, "", "Complete", "('LONG', @a{sv} {})", 2000,
    "ContextFull", "1024" },
  { "an argument missing", NULL, "", "Complete", "('hi',)", 0, DBUS_ERROR "InvalidArgs", "sa{sv}" },
  { "an argument of a wrong type", NULL, "", "Complete", "(5, @a{sv} {})", 0,
    DBUS_ERROR "InvalidArgs", "sa{sv}" },
  { "an unknown method", NULL, "", "Invent", "(@a{sv} {},)", 0, DBUS_ERROR "UnknownMethod",
    "Invent" },
  { "an unknown interface", NULL, ".Invented", "Complete", "('hi', @a{sv} {})", 0,
    DBUS_ERROR "UnknownMethod", "org.llm.Service.Invented" },
  { "an unknown object", "/org/llm/Invented", "", "Complete", "('hi', @a{sv} {})", 0,
    DBUS_ERROR "UnknownMethod", "/org/llm/Invented" },
  { "a property that can't be set", NULL, PROPERTIES, "Set",
    "('org.llm.Service', 'Availability', <'ready'>)", 0, DBUS_ERROR "InvalidArgs",
    "Availability" },
  { "a property that is not there", NULL, PROPERTIES, "Get", "('org.llm.Service', 'Invented')", 0,
    DBUS_ERROR "InvalidArgs", "Invented" },
  { "counting a message with an unknown role", NULL, "", "CountTokens",
    "(@a(ssa{sv}) [('', 'hi', {})], @a{sv} {})", 0, "InvalidArgument", "role" },

  { "a name that is empty", NULL, "", "CreateContext", "({'name': <''>},)", 0, "InvalidOption",
    "empty" },
  { "a name that can't be seen", NULL, "", "CreateContext", "({'name': <'\\u200d \\u200c'>},)", 0,
    "InvalidOption", "seen" },
  { "a name that is too long", NULL, "", "CreateContext", "({'name': <'LONG'>},)", 100,
    "InvalidOption", "name" },
  { "a name with a line break", NULL, "", "CreateContext", "({'name': <'a\\nb'>},)", 0,
    "InvalidOption", "U+000A" },
  { "a name that is taken", NULL, "", "CreateContext", "({'name': <'kept'>},)", 0, "AlreadyExists",
    "kept" },
  { "a system text that is a number", NULL, "", "CreateContext", "({'system': <5>},)", 0,
    "InvalidOption", "system" },
  { "opening no name", NULL, "", "OpenContext", "('', @a{sv} {})", 0, "InvalidArgument", "empty" },
  { "opening a path", NULL, "", "OpenContext", "('../notes', {'create': <true>})", 0,
    "InvalidArgument", "U+002F" },
  { "opening what is not there", NULL, "", "OpenContext", "('lost', @a{sv} {})", 0, "NotFound",
    "lost" },
  { "creating by a string", NULL, "", "OpenContext", "('x', {'create': <'yes'>})", 0,
    "InvalidOption", "create" },

  { "a context that never was", NEVER, ".Context", "Ask", "('hi', @a{sv} {})", 0,
    DBUS_ERROR "UnknownObject", "0123456789abcdef" },
  { "another application's context", OTHERS, ".Context", "Ask", "('hi', @a{sv} {})", 0,
    DBUS_ERROR "UnknownObject", "contexts/" },
  { "where another application's context is kept", OTHERS, ".Context", "GetMemory",
    "(@a{sv} {},)", 0, DBUS_ERROR "UnknownObject", LLMSVC_CONTEXTS_PATH },
  { "another application's context, closed", OTHERS, ".Context", "Close", "(@a{sv} {},)", 0,
    DBUS_ERROR "UnknownObject", "contexts/" },
  { "an answer that never was", LLMSVC_GENERATIONS_PATH "/0123456789abcdef", ".Generation",
    "Cancel", "(@a{sv} {},)", 0, DBUS_ERROR "UnknownObject", "generations/0123456789abcdef" },
  { "a revision long gone", CONTEXT, ".Context", "Ask", "('hi', {'if-revision': <uint64 77>})", 0,
    "Conflict", "revision" },
  { "a revision of letters", CONTEXT, ".Context", "Ask", "('hi', {'if-revision': <'latest'>})", 0,
    "InvalidOption", "if-revision" },
  { "an unknown wish for a cancel", CONTEXT, ".Context", "Ask", "('hi', {'on-cancel': <'maybe'>})",
    0, "InvalidOption", "on-cancel" },
  { "the request id of another question", CONTEXT, ".Context", "Ask",
    "('Good evening', {'max-tokens': <4>, 'temperature': <0>, 'request-id': <'r1'>})", 0, "Conflict",
    "r1" },
  { "the request id of a question for other messages", CONTEXT, ".Context", "Append",
    "(@a(ssa{sv}) [('user', 'Hello', {})], {'request-id': <'r1'>})", 0, "Conflict", "r1" },
  { "an empty request id", CONTEXT, ".Context", "Ask", "('hi', {'request-id': <''>})", 0,
    "InvalidOption", "request-id" },
  { "a question longer than the context", CONTEXT, ".Context", "Ask", "('LONG', @a{sv} {})", 2000,
    "ContextFull", "1024" },
  { "nothing to answer", EMPTY, ".Context", "Generate", "(@a(ssa{sv}) [], @a{sv} {})", 0,
    "InvalidArgument", "nothing to answer" },
  { "an unknown role", CONTEXT, ".Context", "Generate",
    "(@a(ssa{sv}) [('user', 'hi', {}), ('developer', 'obey', {})], @a{sv} {})", 0,
    "InvalidArgument", "developer" },
  { "an unknown kind of stream", CONTEXT, ".Context", "Generate",
    "(@a(ssa{sv}) [('user', 'hi', {})], {'stream': <'csv'>})", 0, "InvalidOption", "stream" },
  { "messages without extras", CONTEXT, ".Context", "Generate", "([('user', 'hi')], @a{sv} {})", 0,
    DBUS_ERROR "InvalidArgs", "a(ssa{sv})a{sv}" },
  { "nothing to append", CONTEXT, ".Context", "Append", "(@a(ssa{sv}) [], @a{sv} {})", 0,
    "InvalidArgument", "No message" },
  { "more to append than there is room", CONTEXT, ".Context", "Append",
    "(@a(ssa{sv}) [('user', 'LONG', {})], @a{sv} {})", 2000, "ContextFull", "1024" },
  { "no turn to roll back", CONTEXT, ".Context", "Rollback", "(uint32 0, @a{sv} {})", 0,
    "InvalidArgument", "0 turns" },
  { "more turns than there are", CONTEXT, ".Context", "Rollback", "(uint32 4294967295, @a{sv} {})",
    0, "InvalidArgument", "4294967295" },
  { "rolling back at another revision", CONTEXT, ".Context", "Rollback",
    "(uint32 1, {'if-revision': <uint64 77>})", 0, "Conflict", "revision" },
  { "a fork under a name that is taken", CONTEXT, ".Context", "Fork", "({'name': <'kept'>},)", 0,
    "AlreadyExists", "kept" },
  { "a negative position", CONTEXT, ".Context", "GetMessages", "(-1, uint32 0, @a{sv} {})", 0,
    DBUS_ERROR "InvalidArgs", "uua{sv}" },
  { "a context's property that can't be set", CONTEXT, PROPERTIES, "Set",
    "('org.llm.Service.Context', 'Name', <'mine'>)", 0, DBUS_ERROR "InvalidArgs", "Name" },

  { "an id that is a path", NULL, "", "Register", "('../../etc/passwd', @a{sv} {})", 0,
    "InvalidArgument", "desktop file" },
  { "registering too late", NULL, "", "Register", "('org.example.Late', @a{sv} {})", 0, "Conflict",
    "org.example.Late" },
  { "a model that is not installed", NULL, "", "SelectModel", "('gpt-99', @a{sv} {})", 0,
    "NotFound", "gpt-99" },
  { "a level that is not one", NULL, ".Memory", "Trim", "('panic', @a{sv} {})", 0,
    "InvalidArgument", "critical" },
  { "a target of letters", NULL, ".Memory", "Trim", "('low', {'target-bytes': <'all'>})", 0,
    "InvalidOption", "target-bytes" },
  { "a budget of nothing", NULL, ".Memory", "SetBudget", "(@a{sv} {},)", 0, "InvalidArgument",
    "bytes" },
  { "a negative budget", NULL, ".Memory", "SetBudget", "({'bytes': <-1>},)", 0, "InvalidOption",
    "bytes" },
  { "a quota for a path", NULL, ".Admin", "SetQuota", "('../x', {'contexts': <5>})", 0,
    "InvalidArgument", "app_id" },
  { "more than all of the memory", NULL, ".Admin", "SetQuota",
    "('org.example.X', {'share': <2.0>})", 0, "InvalidOption", "share" },
};

typedef struct
{
  BusRig *rig;
  GDBusConnection *app;
  GDBusConnection *other_app;
  char *context;
  char *empty;
  char *others;
} Fixture;

static void
set_up (Fixture *fixture)
{
  g_autoptr(GVariant) asked = NULL;

  fixture->rig = bus_rig_new (NULL, NULL);
  fixture->app = bus_rig_connect (fixture->rig);
  fixture->other_app = bus_rig_connect_app (fixture->rig, "org.example.Other");
  fixture->context = bus_open (fixture->app, "kept");
  fixture->empty = bus_open (fixture->app, "empty");
  fixture->others = bus_open (fixture->other_app, "theirs");
  asked = bus_call_ok (fixture->app, fixture->context, ".Context", "Ask",
                       g_variant_new ("(s@a{sv})", "Hello",
                                      bus_options ("{'max-tokens': <4>, 'temperature': <0>,"
                                                   " 'request-id': <'r1'>}")));
}

static void
tear_down (Fixture *fixture)
{
  g_free (fixture->context);
  g_free (fixture->empty);
  g_free (fixture->others);
  g_object_unref (fixture->app);
  g_object_unref (fixture->other_app);
  bus_rig_free (fixture->rig);
}

static GVariant *
make_arguments (const BadCall *call)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GString) text = g_string_new (call->arguments);
  g_autoptr(GString) words = g_string_new (NULL);
  GVariant *arguments;

  for (guint i = 0; i < call->n_words; i++)
    g_string_append (words, "many ");
  g_string_replace (text, "LONG", words->str, 0);

  arguments = g_variant_parse (NULL, text->str, NULL, NULL, &error);
  g_assert_no_error (error);
  return arguments;
}

static const char *
get_path (Fixture       *fixture,
          const BadCall *call)
{
  if (g_strcmp0 (call->path, CONTEXT) == 0)
    return fixture->context;
  if (g_strcmp0 (call->path, EMPTY) == 0)
    return fixture->empty;
  if (g_strcmp0 (call->path, OTHERS) == 0)
    return fixture->others;

  return call->path;
}

/* The error of the call, without what the library puts before its message. */
static GError *
make_call (Fixture       *fixture,
           const BadCall *call,
           char         **name)
{
  g_autoptr(GVariant) arguments = make_arguments (call);
  g_autoptr(GVariant) reply = NULL;
  GError *error = NULL;

  reply = bus_call (fixture->app, get_path (fixture, call), call->interface, call->method,
                    arguments, &error);
  if (reply != NULL)
    g_test_message ("%s.%s%s was accepted", call->interface, call->method, call->arguments);
  g_assert_null (reply);
  *name = bus_error_name (error);
  g_dbus_error_strip_remote_error (error);
  return error;
}

static void
test_calls (void)
{
  Fixture fixture = { NULL };
  g_autofree char *last_before = NULL;
  g_autofree char *last_after = NULL;
  g_autoptr(GVariant) answer = NULL;
  g_autoptr(GVariant) listed = NULL;
  g_autoptr(GVariant) contexts = NULL;
  guint n_wrong = 0;
  int pid;

  set_up (&fixture);
  pid = bus_rig_get_pid (fixture.rig);
  g_assert_cmpuint (bus_count_messages (fixture.app, fixture.context, &last_before), ==, 2);

  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    {
      g_autofree char *name = NULL;
      g_autoptr(GError) error = make_call (&fixture, &calls[i], &name);

      if (g_str_equal (name, calls[i].error) && strstr (error->message, calls[i].mentions) != NULL)
        continue;
      g_test_message ("%s: %s: %s", calls[i].what, name, error->message);
      n_wrong++;
    }
  g_assert_cmpuint (n_wrong, ==, 0);

  /* the same process still answers, and nothing has changed */
  g_assert_cmpint (bus_rig_get_pid (fixture.rig), ==, pid);
  g_assert_cmpuint (bus_count_messages (fixture.app, fixture.context, &last_after), ==, 2);
  g_assert_cmpstr (last_after, ==, last_before);
  g_assert_cmpuint (bus_get_number (fixture.app, fixture.context, ".Context", "Revision"), ==, 1);
  g_assert_cmpuint (bus_count_messages (fixture.other_app, fixture.others, NULL), ==, 0);
  listed = bus_call_ok (fixture.app, NULL, "", "ListContexts",
                        g_variant_new ("(@a{sv})", bus_options ("{}")));
  contexts = g_variant_get_child_value (listed, 0);
  g_assert_cmpuint (g_variant_n_children (contexts), ==, 2);
  answer = bus_call_ok (fixture.app, fixture.context, ".Context", "Ask",
                        g_variant_new ("(s@a{sv})", "Hello", bus_options ("{'max-tokens': <4>}")));
  tear_down (&fixture);
}

/* --- what no library sends --- */

static void
send_all (GOutputStream *out,
          const void    *bytes,
          gsize          length)
{
  g_autoptr(GError) error = NULL;

  g_assert_true (g_output_stream_write_all (out, bytes, length, NULL, NULL, &error));
  g_assert_no_error (error);
}

static void
send_message (GOutputStream *out,
              GDBusMessage  *message,
              guint32        serial,
              const char    *old,
              const char    *with)
{
  g_autofree guchar *blob = NULL;
  g_autoptr(GError) error = NULL;
  gsize length;

  g_dbus_message_set_serial (message, serial);
  blob = g_dbus_message_to_blob (message, &length, G_DBUS_CAPABILITY_FLAGS_NONE, &error);
  g_assert_no_error (error);
  if (old != NULL)
    {
      guchar *place = memmem (blob, length, old, strlen (old));

      g_assert_nonnull (place);
      memcpy (place, with, strlen (with));
    }
  send_all (out, blob, length);
}

/* Text that is no UTF-8: the bus itself closes the connection that sends it, so the
 * service never sees it. A library would refuse to send it, hence the bytes by hand. */
static void
test_invalid_utf8 (void)
{
  Fixture fixture = { NULL };
  g_autoptr(GIOStream) stream = NULL;
  g_autoptr(GDBusMessage) hello = NULL;
  g_autoptr(GDBusMessage) call = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *uid = g_strdup_printf ("%u", getuid ());
  g_autoptr(GString) auth = g_string_new (NULL);
  GInputStream *in;
  GOutputStream *out;
  char buffer[4096];
  gssize n;
  int pid;

  set_up (&fixture);
  pid = bus_rig_get_pid (fixture.rig);
  stream = g_dbus_address_get_stream_sync (bus_rig_get_address (fixture.rig), NULL, NULL, &error);
  g_assert_no_error (error);
  in = g_io_stream_get_input_stream (stream);
  out = g_io_stream_get_output_stream (stream);

  g_string_append_c (auth, '\0');
  g_string_append (auth, "AUTH EXTERNAL ");
  for (const char *p = uid; *p != '\0'; p++)
    g_string_append_printf (auth, "%02x", (guint) *p);
  g_string_append (auth, "\r\n");
  send_all (out, auth->str, auth->len);
  n = g_input_stream_read (in, buffer, sizeof buffer, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (n, >, 2);
  g_assert_cmpint (memcmp (buffer, "OK", 2), ==, 0);
  send_all (out, "BEGIN\r\n", 7);

  hello = g_dbus_message_new_method_call ("org.freedesktop.DBus", "/org/freedesktop/DBus",
                                          "org.freedesktop.DBus", "Hello");
  send_message (out, hello, 1, NULL, NULL);
  call = g_dbus_message_new_method_call (LLMSVC_BUS_NAME, LLMSVC_PATH, LLMSVC_INTERFACE,
                                         "Complete");
  g_dbus_message_set_body (call, g_variant_new ("(s@a{sv})", "bytes: ????", bus_options ("{}")));
  send_message (out, call, 2, "????", "\xff\xfe\xc3\x28");

  while ((n = g_input_stream_read (in, buffer, sizeof buffer, NULL, NULL)) > 0)
    ;
  g_assert_cmpint (n, <=, 0);

  g_assert_cmpint (bus_rig_get_pid (fixture.rig), ==, pid);
  g_assert_cmpuint (bus_count_messages (fixture.app, fixture.context, NULL), ==, 2);
  tear_down (&fixture);
}

/* An empty prompt, raw, where the model puts no token of its own before it. The model
 * is the shipped one with that key turned off. */
static void
test_empty_prompt (void)
{
  static const char key[] = "tokenizer.ggml.add_bos_token";
  g_autofree char *shipped = NULL;
  g_autofree char *folder = NULL;
  g_autofree char *path = NULL;
  g_autofree char *bytes = NULL;
  g_autoptr(BusRig) rig = NULL;
  g_autoptr(GDBusConnection) app = NULL;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) answer = NULL;
  g_autoptr(GError) error = NULL;
  char *place;
  gsize length;

  shipped = g_build_filename (g_getenv ("LLM_MODEL_DIR"), "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_assert_true (g_file_get_contents (shipped, &bytes, &length, NULL));
  place = memmem (bytes, length, key, strlen (key));
  g_assert_nonnull (place);
  place += strlen (key) + 4;
  g_assert_cmpint (*place, ==, 1);
  *place = 0;
  folder = llm_test_folder_new ();
  path = g_build_filename (folder, "no-bos.gguf", NULL);
  g_assert_true (g_file_set_contents (path, bytes, (gssize) length, NULL));

  rig = bus_rig_new (path, NULL);
  app = bus_rig_connect (rig);
  reply = bus_call (app, NULL, "", "Complete",
                    g_variant_new ("(s@a{sv})", "", bus_options ("{'raw': <true>}")), &error);
  g_assert_null (reply);
  bus_assert_error (error, "InvalidArgument");
  g_assert_nonnull (strstr (error->message, "empty"));
  answer = bus_call_ok (app, NULL, "", "Complete",
                        g_variant_new ("(s@a{sv})", "a",
                                       bus_options ("{'raw': <true>, 'max-tokens': <2>}")));

  llm_test_folder_remove (folder);
}

/* --- the document --- */

/* The folders of models are the user's. */
static void
mask_folders (GString *cell)
{
  const char *begin = strstr (cell->str, "in the folders “");
  const char *end = begin != NULL ? strstr (begin, "”") : NULL;
  gssize at = begin != NULL ? begin + strlen ("in the folders “") - cell->str : 0;

  if (end == NULL)
    return;
  g_string_erase (cell, at, end - cell->str - at);
  g_string_insert (cell, at, "…");
}

/* @text without what differs from run to run, and fit for a table. */
static char *
make_cell (Fixture    *fixture,
           const char *text)
{
  const char *const paths[] = { fixture->context, fixture->empty, fixture->others };
  g_autoptr(GString) cell = g_string_new (text);

  for (guint i = 0; i < G_N_ELEMENTS (paths); i++)
    g_string_replace (cell, paths[i], LLMSVC_CONTEXTS_PATH "/…", 0);
  mask_folders (cell);
  g_string_replace (cell, "|", "\\|", 0);
  g_string_replace (cell, "\n", " ", 0);
  return g_strdup (cell->str);
}

static char *
make_document (void)
{
  Fixture fixture = { NULL };
  GString *text = g_string_new (
    "# Bad inputs and their answers\n\n"
    "Made by `ninja docs-bad-inputs` from the table of `tests/bus/test-bus-bad-input.c`, which\n"
    "also checks that each call gets its answer, that nothing is changed by any of them, and that\n"
    "this page is what it prints. Names without dots are below `org.llm.Service.Error.`. "
    "`LONG` is a\ntext of so many words that it is too long there.\n\n"
    "| # | what is wrong | call | error | message |\n| --- | --- | --- | --- | --- |\n");

  set_up (&fixture);
  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    {
      g_autofree char *name = NULL;
      g_autoptr(GError) error = make_call (&fixture, &calls[i], &name);
      g_autofree char *message = make_cell (&fixture, error->message);
      g_autofree char *arguments = make_cell (&fixture, calls[i].arguments);
      const char *interface = calls[i].interface;

      if (interface[0] == '.')
        interface++;
      else if (g_str_equal (interface, PROPERTIES))
        interface = "Properties";
      g_string_append_printf (text, "| %u | %s | `%s%s%s %s` | %s | %s |\n", i + 1, calls[i].what,
                              interface, interface[0] != '\0' ? "." : "", calls[i].method,
                              arguments, name, message);
    }
  g_string_append_printf (text,
                          "| %u | bytes that are no UTF-8 | any string | | the bus closes the "
                          "connection that sends them; the service never sees them |\n",
                          (guint) G_N_ELEMENTS (calls) + 1);
  tear_down (&fixture);
  return g_string_free (text, FALSE);
}

static void
test_document (void)
{
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "..", "docs", "bad-inputs.md", NULL);
  g_autofree char *made = make_document ();
  g_autofree char *kept = NULL;
  g_autoptr(GError) error = NULL;

  g_assert_true (g_file_get_contents (path, &kept, NULL, &error));
  g_assert_no_error (error);
  if (!g_str_equal (made, kept))
    g_test_message ("docs/bad-inputs.md is old; write it anew: ninja docs-bad-inputs");
  g_assert_true (g_str_equal (made, kept));
}

int
main (int   argc,
      char *argv[])
{
  if (argc > 1 && g_str_equal (argv[1], "--print"))
    {
      g_autofree char *document = make_document ();

      /* not g_print(), which would put it into the locale's characters */
      if (argc == 2)
        return fputs (document, stdout) < 0;
      return !g_file_set_contents (argv[2], document, -1, NULL);
    }

  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/bus/bad-input/calls", test_calls);
  g_test_add_func ("/bus/bad-input/invalid-utf8", test_invalid_utf8);
  g_test_add_func ("/bus/bad-input/empty-prompt", test_empty_prompt);
  g_test_add_func ("/bus/bad-input/document", test_document);

  return g_test_run ();
}
