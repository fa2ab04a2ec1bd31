/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl call: any method that an object says it has, with arguments as people write them. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/output/llmctl-json.h"
#include "llmctl/bus/llmctl-object.h"
#include "llmctl/chat/llmctl-stream.h"
#include "llmctl/output/llmctl-term.h"

#define MAX_STDIN_BYTES (16 * 1024 * 1024)

/* --- options --- */

/* One more string for a list of them; (transfer full). */
static GVariant *
append_string (GVariantDict *dict,
               const char   *key,
               const char   *word)
{
  g_autofree const char **before = NULL;
  g_autoptr(GPtrArray) strings = g_ptr_array_new ();

  (void) g_variant_dict_lookup (dict, key, "^a&s", &before);
  for (gsize i = 0; before != NULL && before[i] != NULL; i++)
    g_ptr_array_add (strings, (gpointer) before[i]);
  g_ptr_array_add (strings, (gpointer) word);
  return g_variant_ref_sink (g_variant_new_strv ((const char *const *) strings->pdata,
                                                 (gssize) strings->len));
}

/* (nullable) (transfer full): the type in the help is a hint: the service may be newer, and
 * knows better. */
static GVariant *
parse_hinted (const LlmctlKey *hint,
              GVariantDict    *dict,
              const char      *word)
{
  if (hint == NULL)
    return NULL;
  if (strcmp (hint->type, "as") == 0 && *word != '[' && *word != '"')
    return append_string (dict, hint->key, word);
  /* Who has put a string into quotes of JSON does not want them to be sent. */
  if (strcmp (hint->type, "s") == 0 && *word == '"')
    return NULL;

  return llmctl_value_parse (hint->key, hint->type, word, NULL);
}

static GVariant *
parse_options (const GPtrArray  *keys,
               const char       *name,
               char            **words,
               GError          **error)
{
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);

  for (gsize i = 0; words[i] != NULL; i++)
    {
      const char *equals = strchr (words[i], '=');
      g_autofree char *key = NULL;
      g_autoptr(GVariant) value = NULL;

      if (equals == NULL || equals == words[i] || !g_utf8_validate (words[i], -1, NULL))
        {
          g_autofree char *valid = g_utf8_make_valid (words[i], -1);

          return llmctl_set_invalid_null (
              error, _("“%s” is no option for “%s”: options are written as key=value"), valid,
              name);
        }
      key = g_strndup (words[i], (gsize) (equals - words[i]));
      value = parse_hinted (llmctl_docs_find_key (keys, key), &dict, equals + 1);
      if (value == NULL)
        value = llmctl_value_guess (key, equals + 1, error);
      if (value == NULL)
        return NULL;
      g_variant_dict_insert_value (&dict, key, value);
    }

  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

/* JSON in which the help tells the types of the options. */
static GVariant *
parse_options_json (const GPtrArray  *keys,
                    const char       *name,
                    const char       *word,
                    GError          **error)
{
  g_autoptr(GVariant) object = llmctl_value_parse (name, "a{sv}", word, error);
  g_autoptr(GVariant) raw = object != NULL ? llmctl_json_read (word, error) : NULL;
  g_autoptr(GVariantDict) dict = g_variant_dict_new (object);

  if (raw == NULL)
    return NULL;
  for (guint i = 0; i < keys->len; i++)
    {
      const LlmctlKey *key = g_ptr_array_index (keys, i);
      g_autoptr(GVariant) given = g_variant_lookup_value (raw, key->key, NULL);
      g_autoptr(GVariant) value =
          given != NULL ? llmctl_value_convert (key->key, G_VARIANT_TYPE (key->type), given, NULL)
                        : NULL;

      if (value != NULL)
        g_variant_dict_insert_value (dict, key->key, value);
    }

  return g_variant_ref_sink (g_variant_dict_end (dict));
}

/* --- messages --- */

/* The bytes of the role in "user:text", 0 when the word is no message. */
static gsize
scan_role (const char *word)
{
  static const char *const roles[] = { "system", "user", "assistant", "tool" };
  gsize length = strcspn (word, ":");

  for (gsize i = 0; i < G_N_ELEMENTS (roles); i++)
    if (word[length] == ':' && strlen (roles[i]) == length &&
        strncmp (word, roles[i], length) == 0)
      return length;

  return 0;
}

/* (transfer full): of one or more of @words, which it moves on. */
static GVariant *
parse_messages (const char   *name,
                char       ***words,
                GError      **error)
{
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE (LLMCTL_MESSAGES_TYPE));

  if (scan_role (**words) == 0)
    return llmctl_value_parse (name, LLMCTL_MESSAGES_TYPE, *(*words)++, error);

  for (; **words != NULL && scan_role (**words) > 0; (*words)++)
    {
      const char *word = **words;
      gsize length = scan_role (word);
      g_autofree char *role = g_strndup (word, length);

      if (!g_utf8_validate (word, -1, NULL))
        return llmctl_value_parse (name, LLMCTL_MESSAGES_TYPE, word, error);
      g_variant_builder_add (&builder, "(ssa{sv})", role, word + length + 1, NULL);
    }

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

/* --- the arguments of a method --- */

/* @words: moved behind those that it takes. */
static GVariant *
parse_argument (const LlmctlMember   *method,
                const GDBusArgInfo   *argument,
                gboolean              is_last,
                char               ***words,
                GError              **error)
{
  const char *name = argument->name;
  const char *type = argument->signature;
  char **given = *words;

  if (strcmp (type, "a{sv}") == 0 && (is_last || (*given != NULL && **given == '{')))
    {
      g_autoptr(GPtrArray) keys = llmctl_docs_list_keys (method, name);
      gboolean is_json = *given != NULL && **given == '{';

      *words += is_json ? 1 : g_strv_length (given);
      return is_json ? parse_options_json (keys, name, *given, error)
                     : parse_options (keys, name, given, error);
    }
  if (*given == NULL)
    {
      g_autofree char *described = llmctl_type_describe (type);
      g_autofree char *example = llmctl_type_make_example (type);

      return llmctl_set_invalid_null (
          error, _("The argument “%s” is missing: %s; for example: %s"), name, described, example);
    }
  if (strcmp (type, LLMCTL_MESSAGES_TYPE) == 0)
    return parse_messages (name, words, error);

  (*words)++;
  if (strcmp (type, "s") == 0 && strcmp (*given, "-") == 0)
    {
      char *text = llmctl_term_read ("-", MAX_STDIN_BYTES, error);

      return text != NULL ? g_variant_ref_sink (g_variant_new_take_string (text)) : NULL;
    }

  return llmctl_value_parse (name, type, *given, error);
}

/* (transfer full): a tuple of the arguments of @method. A string "-" reads the standard input,
 * messages may be "user:TEXT", and a last a{sv} takes all words that are left as KEY=VALUE; its
 * help tells their types. */
static GVariant *
parse_arguments (const LlmctlMember  *method,
                 char               **words,
                 GError             **error)
{
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_TUPLE);

  for (gsize i = 0; method->in[i] != NULL; i++)
    {
      g_autoptr(GVariant) value = parse_argument (method, method->in[i], method->in[i + 1] == NULL,
                                                  &words, error);

      if (value == NULL)
        return NULL;
      g_variant_builder_add_value (&builder, value);
    }

  if (words[0] != NULL)
    {
      g_autofree char *word = g_utf8_make_valid (words[0], -1);

      return llmctl_set_invalid_null (error, _("“%s” takes no argument “%s” any more"),
                                      method->name, word);
    }

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

/* --- the reply --- */

/* @fds: (nullable): of the reply; of one with a stream it is the stream that was wanted. */
static LlmctlExit
print_stream (GUnixFDList  *fds,
              int           handle,
              GError      **error)
{
  int fd;

  if (fds == NULL || handle < 0 || handle >= g_unix_fd_list_get_length (fds))
    {
      llmctl_complain (_("The reply lacks the stream that it names"));
      return LLMCTL_EXIT_FAILED;
    }
  fd = g_unix_fd_list_get (fds, handle, error);
  return fd >= 0 && llmctl_stream_copy (fd, error) ? LLMCTL_EXIT_OK : LLMCTL_EXIT_FAILED;
}

static LlmctlExit
print_reply (const LlmctlMember  *method,
             GVariant            *reply,
             GUnixFDList         *fds,
             GError             **error)
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
        status = print_stream (fds, g_variant_get_handle (value), error);
    }
  return status;
}

/* --- the method --- */

static LlmctlExit
complain_method (const char *path,
                 const char *name,
                 GError     *error)
{
  const char *dot = strrchr (name, '.');

  for (const LlmctlMember *member = llmctl_node_get_members (llmctl_docs_get_node ());
       member->name != NULL; member++)
    if (member->kind == LLMCTL_MEMBER_METHOD &&
        strcmp (member->name, dot != NULL ? dot + 1 : name) == 0)
      {
        llmctl_complain (_("%s has no method “%s”: it is one of %s; give the path of such an "
                           "object, “llmctl tree” lists them"), path, name,
                         member->interface->name);
        return LLMCTL_EXIT_USAGE;
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
  g_autofree char *help = llmctl_output_make_harmless (sentence != NULL ? sentence : "");
  LlmctlExit status = llmctl_fail (error);

  g_printerr ("%s\n       %s\n", usage, described);
  if (*help != '\0')
    g_printerr ("       %s\n", help);
  g_printerr (_("“llmctl call %s --help” tells more\n"), method->name);
  return status;
}

/* Those that polkit is asked about. */
static const char *const admin_methods[] = { "SelectModel", "SetBudget", "SetQuota", "Trim", NULL };

static LlmctlExit
run (int       argc,
     char    **argv,
     GError  **error)
{
  g_autoptr(LlmctlNode) node = NULL;
  g_autoptr(GVariant) parameters = NULL;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GUnixFDList) fds = NULL;
  g_autoptr(GError) local_error = NULL;
  const LlmctlMember *method;
  const char *path = llmctl_object_take_path (&argc, &argv, error);

  if (path == NULL)
    return LLMCTL_EXIT_FAILED;
  if (argc < 2)
    return llmctl_complain_usage (_("“call” takes a method; “llmctl introspect” lists them"));

  method = llmctl_object_find_member (path, LLMCTL_MEMBER_METHOD, argv[1], &node, &local_error);
  if (method == NULL)
    return node != NULL ? complain_method (path, argv[1], local_error) : llmctl_fail (local_error);
  parameters = parse_arguments (method, argv + 2, &local_error);
  if (parameters == NULL)
    return complain_arguments (path, method, local_error);

  llmctl_globals.is_admin = g_strv_contains (admin_methods, method->name);
  reply = llmctl_call_with_fds (path, method->interface->name, method->name, parameters, NULL, &fds,
                                error);
  return reply != NULL ? print_reply (method, reply, fds, error) : LLMCTL_EXIT_FAILED;
}

/* --- help --- */

static gboolean
show_help (int       argc,
           char    **argv,
           GError  **error)
{
  const char *path = llmctl_object_take_path (&argc, &argv, NULL);
  g_autoptr(LlmctlNode) node = NULL;
  g_autoptr(GError) local_error = NULL;
  g_autofree char *usage = NULL;
  const LlmctlMember *method;

  if (path == NULL || argc < 2)
    return FALSE;

  method = llmctl_object_find_member (path, LLMCTL_MEMBER_METHOD, argv[1], &node, &local_error);
  if (method == NULL)
    {
      path = NULL;
      method = llmctl_node_find_member (llmctl_docs_get_node (), "", LLMCTL_MEMBER_METHOD, argv[1],
                                        NULL);
    }
  if (method == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return TRUE;
    }

  usage = llmctl_member_make_usage (path, method);
  llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n\n", usage);
  llmctl_member_show (method, NULL);
  return TRUE;
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
  .names = LLMCTL_NAMES_METHODS,
  .help = show_help,
};
