/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl call: any method that an object says it has. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <string.h>

#include "llmctl/llmctl-arguments.h"
#include "llmctl/bus/llmctl-docs.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/bus/llmctl-member.h"
#include "llmctl/bus/llmctl-object.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/chat/llmctl-stream.h"

/* --- the reply --- */

static const char *
get_out_name (const LlmctlMember *method,
              gsize               i)
{
  const LlmctlArgument *argument = i < method->out->len ? g_ptr_array_index (method->out, i) : NULL;

  return argument != NULL && *argument->name != '\0' ? argument->name : NULL;
}

static gboolean
is_handle (GVariant *value)
{
  return g_variant_classify (value) == G_VARIANT_CLASS_HANDLE;
}

static void
print_json (const LlmctlMember *method,
            GVariant           *reply)
{
  g_auto(GVariantBuilder) dict = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_VARDICT);
  gsize n = g_variant_n_children (reply);

  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) value = g_variant_get_child_value (reply, i);
      g_autofree char *number = g_strdup_printf ("%" G_GSIZE_FORMAT, i);
      const char *name = get_out_name (method, i);

      g_autofree char *key = llmctl_json_make_key (name != NULL ? name : number);

      if (!is_handle (value))
        g_variant_builder_add (&dict, "{sv}", key, value);
    }
  llmctl_output_json_member ("reply", g_variant_builder_end (&dict));
}

static void
print_plain (const LlmctlMember *method,
             GVariant           *reply)
{
  gsize n = g_variant_n_children (reply);

  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) value = g_variant_get_child_value (reply, i);
      const char *name = get_out_name (method, i);
      gboolean is_object = g_variant_type_is_subtype_of (g_variant_get_type (value),
                                                         G_VARIANT_TYPE_DICTIONARY);

      if (n > 1 && name != NULL)
        {
          llmctl_output_printf (LLMCTL_STYLE_BOLD, "%s:", name);
          llmctl_output_text (LLMCTL_STYLE_PLAIN, is_object ? "\n" : " ");
        }
      llmctl_output_value (value);
    }
}

/* Of a reply with a stream it is the stream that was wanted. */
static LlmctlExit
print_streams (GUnixFDList *fds,
               GVariant    *reply)
{
  gsize n = g_variant_n_children (reply);

  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) value = g_variant_get_child_value (reply, i);
      g_autoptr(GError) error = NULL;
      int handle, fd;

      if (!is_handle (value))
        continue;
      handle = g_variant_get_handle (value);
      if (fds == NULL || handle < 0 || handle >= g_unix_fd_list_get_length (fds))
        {
          llmctl_complain (_("The reply lacks the stream that it names"));
          return LLMCTL_EXIT_FAILED;
        }
      fd = g_unix_fd_list_get (fds, handle, &error);
      if (fd < 0 || !llmctl_stream_copy (fd, &error))
        return llmctl_fail (error);
    }

  return LLMCTL_EXIT_OK;
}

static gboolean
has_stream (GVariant *reply)
{
  gsize n = g_variant_n_children (reply);

  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) value = g_variant_get_child_value (reply, i);

      if (is_handle (value))
        return TRUE;
    }

  return FALSE;
}

/* --- the method --- */

static const char *
get_member_name (const char *name)
{
  const char *dot = strrchr (name, '.');

  return dot != NULL ? dot + 1 : name;
}

static LlmctlExit
complain_method (const char *path,
                 const char *name,
                 GError     *error)
{
  const LlmctlInterface *elsewhere = llmctl_docs_find_method (get_member_name (name));

  if (elsewhere == NULL)
    return llmctl_fail (error);
  llmctl_complain (_("%s has no method “%s”: it is one of %s; give the path of such an object, "
                     "“llmctl tree” lists them"), path, name, elsewhere->name);
  return LLMCTL_EXIT_USAGE;
}

/* A wrong argument: what is wrong, and how it is done. */
static LlmctlExit
complain_arguments (const char         *path,
                    const LlmctlMember *method,
                    GError             *error)
{
  g_autofree char *usage = llmctl_member_make_usage (path, method);
  g_autofree char *described = llmctl_member_describe (method);
  g_autofree char *sentence = llmctl_help_shorten (method->help);
  g_autofree char *help = NULL;
  LlmctlExit status = llmctl_fail (error);

  help = llmctl_output_make_harmless (sentence != NULL ? sentence : "");
  g_printerr ("%s\n       %s\n", usage, described);
  if (*help != '\0')
    g_printerr ("       %s\n", help);
  g_printerr (_("“llmctl call %s --help” tells more\n"), method->name);
  return status;
}

static LlmctlExit
run (int    argc,
     char **argv)
{
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(LlmctlNode) node = NULL;
  g_autoptr(GVariant) parameters = NULL;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GUnixFDList) fds = NULL;
  g_autoptr(GError) error = NULL;
  const LlmctlInterface *interface = NULL;
  const LlmctlMember *method;
  const char *path;

  path = llmctl_object_take_path (&argc, &argv, &error);
  if (path == NULL)
    return llmctl_fail (error);
  if (argc < 2)
    return llmctl_complain_usage (_("“call” takes a method; “llmctl introspect” lists them"));
  if (!g_utf8_validate (argv[1], -1, NULL))
    return llmctl_complain_usage (_("The name is not UTF-8 text"));

  bus = llmctl_connect (&error);
  if (bus != NULL)
    node = llmctl_node_fetch (bus, path, &error);
  if (node == NULL)
    return llmctl_fail (error);
  llmctl_docs_add (node);
  method = llmctl_node_find_member (node, path, LLMCTL_MEMBER_METHOD, argv[1], &interface, &error);
  if (method == NULL)
    return complain_method (path, argv[1], error);

  parameters = llmctl_arguments_parse (interface, method, argv + 2, &error);
  if (parameters == NULL)
    return complain_arguments (path, method, error);
  reply = llmctl_call_with_fds (bus, path, interface->name, method->name, parameters, NULL, &fds,
                                &error);
  if (reply == NULL)
    return llmctl_fail (error);

  if (llmctl_globals.is_json)
    print_json (method, reply);
  else if (!has_stream (reply))
    print_plain (method, reply);
  return has_stream (reply) ? print_streams (fds, reply) : LLMCTL_EXIT_OK;
}

/* --- help and completion --- */

/* The method that @name is, on the object or else in the interface file. */
static const LlmctlMember *
find_method (const LlmctlNode       *node,
             const char             *path,
             const char             *name,
             const LlmctlInterface **interface)
{
  const LlmctlMember *method = NULL;

  if (node != NULL)
    method = llmctl_node_find_member (node, path, LLMCTL_MEMBER_METHOD, name, interface, NULL);
  if (method == NULL)
    method = llmctl_node_find_member (llmctl_docs_get_node (), path, LLMCTL_MEMBER_METHOD, name,
                                      interface, NULL);
  return method;
}

static gboolean
show_help (int          argc,
           char       **argv,
           LlmctlExit  *status)
{
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(LlmctlNode) node = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *usage = NULL;
  const LlmctlInterface *interface = NULL;
  const LlmctlMember *method;
  const char *path;

  path = llmctl_object_take_path (&argc, &argv, &error);
  if (path == NULL || argc < 2 || !g_utf8_validate (argv[1], -1, NULL))
    return FALSE;

  bus = llmctl_connect (&error);
  if (bus != NULL)
    node = llmctl_node_fetch (bus, path, &error);
  if (node != NULL)
    llmctl_docs_add (node);
  method = find_method (node, path, argv[1], &interface);
  if (method == NULL)
    {
      if (node != NULL)
        (void) llmctl_node_find_member (node, path, LLMCTL_MEMBER_METHOD, argv[1], &interface,
                                        &error);
      *status = llmctl_fail (error);
      return TRUE;
    }

  if (node == NULL || llmctl_node_find_interface (node, interface->name) != interface)
    path = NULL;
  usage = llmctl_member_make_usage (path, method);
  llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n\n", usage);
  llmctl_member_show (interface, method, NULL);
  *status = LLMCTL_EXIT_OK;
  return TRUE;
}

static void
complete_key (LlmctlCompletion      *completion,
              const LlmctlInterface *interface,
              const LlmctlArgument  *argument)
{
  const char *word = llmctl_completion_get_word (completion);
  const char *equals = strchr (word, '=');
  g_autoptr(GPtrArray) keys = llmctl_docs_list_keys (interface, argument);

  for (guint i = 0; i < keys->len; i++)
    {
      const LlmctlKey *key = g_ptr_array_index (keys, i);
      g_autofree char *candidate = g_strconcat (key->key, "=", NULL);

      if (equals == NULL)
        {
          llmctl_completion_offer (completion, candidate, key->help);
          continue;
        }
      for (gsize j = 0; key->choices != NULL && key->choices[j] != NULL; j++)
        {
          g_autofree char *chosen = g_strconcat (candidate, key->choices[j], NULL);

          llmctl_completion_offer (completion, chosen, NULL);
        }
      if (strcmp (key->type, "b") == 0)
        {
          g_autofree char *yes = g_strconcat (candidate, "true", NULL);
          g_autofree char *no = g_strconcat (candidate, "false", NULL);

          llmctl_completion_offer (completion, yes, NULL);
          llmctl_completion_offer (completion, no, NULL);
        }
    }
}

static void
complete_argument (LlmctlCompletion *completion,
                   const char       *path,
                   const char       *name,
                   guint             n_given)
{
  static const char *const roles[] = { "system:", "user:", "assistant:" };
  g_autoptr(LlmctlNode) node = llmctl_object_peek (path);
  const LlmctlInterface *interface = NULL;
  const LlmctlMember *method = find_method (node, path, name, &interface);
  const LlmctlArgument *argument;
  guint i;

  if (method == NULL || method->in->len == 0)
    return;

  /* All that is left belongs to options at the end. */
  i = MIN (n_given, method->in->len - 1);
  argument = g_ptr_array_index (method->in, i);
  if (strcmp (argument->type, "a{sv}") == 0)
    complete_key (completion, interface, argument);
  else if (i == n_given && strcmp (argument->type, "o") == 0)
    llmctl_object_complete_path (completion);
  else if (i == n_given && strcmp (argument->type, "a(ssa{sv})") == 0)
    for (gsize j = 0; j < G_N_ELEMENTS (roles); j++)
      llmctl_completion_offer (completion, roles[j], NULL);
  else if (i == n_given && strcmp (argument->type, "b") == 0)
    {
      llmctl_completion_offer (completion, "true", NULL);
      llmctl_completion_offer (completion, "false", NULL);
    }
}

static void
complete (LlmctlCompletion *completion,
          int               argc,
          char            **argv)
{
  const char *path = llmctl_object_take_path (&argc, &argv, NULL);

  if (path == NULL)
    return;
  if (argc > 1)
    complete_argument (completion, path, argv[1], (guint) argc - 2);
  else if (llmctl_completion_get_word (completion)[0] == '/')
    llmctl_object_complete_path (completion);
  else
    llmctl_object_complete_member (completion, path, LLMCTL_MEMBER_METHOD, NULL);
}

const LlmctlCommand llmctl_call_command = {
  .name = "call",
  .parameters = N_("[PATH] [INTERFACE.]METHOD [ARGUMENT…]"),
  .summary = N_("Call a method of an object"),
  .description = N_("Any method that the object has; “llmctl call METHOD --help” shows its "
                    "arguments and what they mean. Text, numbers and true or false are plain "
                    "words, a text “-” is read from the standard input, lists are JSON, "
                    "messages are JSON or “user:TEXT”, options at the end are KEY=VALUE. A "
                    "stream is printed as it comes. With --json an object with “reply”, an "
                    "object of the results by their names; before a stream, on a line of its own, "
                    "the other results."),
  .run = run,
  .complete = complete,
  .help = show_help,
};
