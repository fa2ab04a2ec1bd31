/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl call: any method that an object says it has. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/bus/llmctl-arguments.h"
#include "llmctl/bus/llmctl-docs.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/bus/llmctl-member.h"
#include "llmctl/bus/llmctl-object.h"
#include "llmctl/bus/llmctl-value.h"
#include "llmctl/chat/llmctl-stream.h"
#include "llmctl/output/llmctl-output.h"

/* --- the reply --- */

/* @fds: (nullable): of the reply; of one with a stream it is the stream that was wanted. */
static LlmctlExit
print_stream (GUnixFDList *fds,
              int          handle)
{
  g_autoptr(GError) error = NULL;
  int fd;

  if (fds == NULL || handle < 0 || handle >= g_unix_fd_list_get_length (fds))
    {
      llmctl_complain (_("The reply lacks the stream that it names"));
      return LLMCTL_EXIT_FAILED;
    }
  fd = g_unix_fd_list_get (fds, handle, &error);
  return fd >= 0 && llmctl_stream_copy (fd, &error) ? LLMCTL_EXIT_OK : llmctl_fail (error);
}

static LlmctlExit
print_reply (const LlmctlMember *method,
             GVariant           *reply,
             GUnixFDList        *fds)
{
  g_auto(GVariantBuilder) dict = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_VARDICT);
  gboolean has_stream = strchr (g_variant_get_type_string (reply), 'h') != NULL;
  guint n_names = g_strv_length ((char **) method->out);
  gsize n = g_variant_n_children (reply);
  LlmctlExit status = LLMCTL_EXIT_OK;

  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) value = g_variant_get_child_value (reply, i);
      g_autofree char *number = g_strdup_printf ("%" G_GSIZE_FORMAT, i);
      const char *name = i < n_names ? method->out[i]->name : number;
      g_autofree char *key = llmctl_json_make_key (name);

      if (g_variant_is_of_type (value, G_VARIANT_TYPE_HANDLE))
        continue;
      g_variant_builder_add (&dict, "{sv}", key, value);
      if (llmctl_globals.is_json || has_stream)
        continue;
      if (n > 1)
        llmctl_output_printf (LLMCTL_STYLE_BOLD, "%s:", name);
      if (n > 1)
        llmctl_output_text (LLMCTL_STYLE_PLAIN,
                            g_variant_is_of_type (value, G_VARIANT_TYPE_DICTIONARY) ? "\n" : " ");
      llmctl_output_value (value);
    }
  if (llmctl_globals.is_json)
    llmctl_output_json_member ("reply", g_variant_builder_end (&dict));

  for (gsize i = 0; i < n && status == LLMCTL_EXIT_OK; i++)
    {
      g_autoptr(GVariant) value = g_variant_get_child_value (reply, i);

      if (g_variant_is_of_type (value, G_VARIANT_TYPE_HANDLE))
        status = print_stream (fds, g_variant_get_handle (value));
    }
  return status;
}

/* --- the method --- */

static LlmctlExit
complain_method (const char *path,
                 const char *name,
                 GError     *error)
{
  const LlmctlNode *docs = llmctl_docs_get_node ();
  const char *dot = strrchr (name, '.');

  for (guint i = 0; i < docs->members->len; i++)
    {
      const LlmctlMember *member = llmctl_node_get_member (docs, i);

      if (member->kind == LLMCTL_MEMBER_METHOD &&
          strcmp (member->name, dot != NULL ? dot + 1 : name) == 0)
        {
          llmctl_complain (_("%s has no method “%s”: it is one of %s; give the path of such an "
                             "object, “llmctl tree” lists them"), path, name,
                           member->interface->name);
          return LLMCTL_EXIT_USAGE;
        }
    }

  return llmctl_fail (error);
}

/* A wrong argument: what is wrong, and how it is done. */
static LlmctlExit
complain_arguments (const char         *path,
                    const LlmctlMember *method,
                    GError             *error)
{
  g_autofree char *usage = llmctl_member_make_usage (path, method);
  g_autofree char *described = llmctl_member_describe (method);
  g_autofree char *sentence = llmctl_member_get_sentence (method);
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
  const LlmctlMember *method;
  const char *path;

  path = llmctl_object_take_path (&argc, &argv, &error);
  if (path == NULL)
    return llmctl_fail (error);
  if (argc < 2)
    return llmctl_complain_usage (_("“call” takes a method; “llmctl introspect” lists them"));

  bus = llmctl_connect (&error);
  if (bus != NULL)
    node = llmctl_object_introspect (bus, path, &error);
  if (node == NULL)
    return llmctl_fail (error);
  method = llmctl_node_find_member (node, path, LLMCTL_MEMBER_METHOD, argv[1], &error);
  if (method == NULL)
    return complain_method (path, argv[1], error);

  parameters = llmctl_arguments_parse (method, argv + 2, &error);
  if (parameters == NULL)
    return complain_arguments (path, method, error);
  reply = llmctl_call_with_fds (bus, path, method->interface->name, method->name, parameters, NULL,
                                &fds, &error);
  return reply != NULL ? print_reply (method, reply, fds) : llmctl_fail (error);
}

/* --- help and completion --- */

static gboolean
show_help (int          argc,
           char       **argv,
           LlmctlExit  *status)
{
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(LlmctlNode) node = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *usage = NULL;
  const LlmctlMember *method = NULL;
  const char *path;

  path = llmctl_object_take_path (&argc, &argv, NULL);
  if (path == NULL || argc < 2)
    return FALSE;

  bus = llmctl_connect (&error);
  if (bus != NULL)
    node = llmctl_object_introspect (bus, path, &error);
  if (node != NULL)
    method = llmctl_node_find_member (node, path, LLMCTL_MEMBER_METHOD, argv[1], &error);
  if (method == NULL)
    {
      path = NULL;
      method = llmctl_node_find_member (llmctl_docs_get_node (), "", LLMCTL_MEMBER_METHOD, argv[1],
                                        NULL);
    }
  if (method == NULL)
    {
      *status = llmctl_fail (error);
      return TRUE;
    }

  usage = llmctl_member_make_usage (path, method);
  llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n\n", usage);
  llmctl_member_show (method, NULL);
  *status = LLMCTL_EXIT_OK;
  return TRUE;
}

/* Offers @before with each of @choices (nullable) behind it. */
static void
offer (LlmctlCompletion  *completion,
       const char        *before,
       const char *const *choices)
{
  for (gsize i = 0; choices != NULL && choices[i] != NULL; i++)
    {
      g_autofree char *candidate = g_strconcat (before, choices[i], NULL);

      llmctl_completion_offer (completion, candidate, NULL);
    }
}

static void
complete_argument (LlmctlCompletion *completion,
                   const char       *path,
                   const char       *name,
                   guint             n_given)
{
  static const char *const roles[] = { "system:", "user:", "assistant:", NULL };
  static const char *const answers[] = { "true", "false", NULL };
  g_autoptr(LlmctlNode) fetched = NULL;
  g_autoptr(GPtrArray) keys = NULL;
  const LlmctlNode *node = llmctl_object_peek (path, &fetched);
  const LlmctlMember *method;
  const char *type;
  guint i = 0;

  method = llmctl_node_find_member (node, path, LLMCTL_MEMBER_METHOD, name, NULL);
  if (method == NULL)
    method = llmctl_node_find_member (llmctl_docs_get_node (), path, LLMCTL_MEMBER_METHOD, name,
                                      NULL);
  if (method == NULL || method->in[0] == NULL)
    return;

  /* All that is left belongs to options at the end. */
  while (i < n_given && method->in[i + 1] != NULL)
    i++;
  type = method->in[i]->signature;
  if (strcmp (type, "a{sv}") == 0)
    keys = llmctl_docs_list_keys (method, method->in[i]->name);
  else if (i == n_given && strcmp (type, "o") == 0)
    llmctl_object_complete_path (completion);
  else if (i == n_given && strcmp (type, LLMCTL_MESSAGES_TYPE) == 0)
    offer (completion, "", roles);
  else if (i == n_given && strcmp (type, "b") == 0)
    offer (completion, "", answers);

  for (guint j = 0; keys != NULL && j < keys->len; j++)
    {
      const LlmctlKey *key = g_ptr_array_index (keys, j);
      g_autofree char *candidate = g_strconcat (key->key, "=", NULL);

      if (strchr (completion->word, '=') == NULL)
        {
          llmctl_completion_offer (completion, candidate, key->help);
          continue;
        }
      offer (completion, candidate, (const char *const *) key->choices);
      if (strcmp (key->type, "b") == 0)
        offer (completion, candidate, answers);
    }
}

static void
complete (LlmctlCompletion *completion,
          int               argc,
          char            **argv)
{
  char **rest = argv;
  int n = argc;
  const char *path = llmctl_object_take_path (&n, &rest, NULL);

  if (path != NULL && n > 1)
    complete_argument (completion, path, rest[1], (guint) n - 2);
  else
    llmctl_object_complete_member (completion, argc, argv, LLMCTL_MEMBER_METHOD, 0);
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
