/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The commands of a chat: lines that begin with “/”. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/chat/llmctl-chat.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/llmctl.h"
#include "llmctl/chat/llmctl-context-file.h"
#include "llmctl/bus/llmctl-contexts.h"
#include "llmctl/llmctl-options.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/output/llmctl-progress.h"
#include "llmctl/output/llmctl-words.h"
#include "llmctl/bus/llmctl-wait.h"

/* A line of a list: @is_current is marked. */
static void
print_item (gboolean    is_current,
            const char *name,
            const char *title)
{
  llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s %s%s%s\n", is_current ? "*" : " ", name,
                        *title != '\0' ? "  " : "", title);
}

/* --- the conversation: FALSE with what went wrong; what was typed wrongly is said at once --- */

static gboolean
run_quit (LlmctlChat  *self,
          const char  *argument,
          GError     **error)
{
  self->is_over = TRUE;
  return TRUE;
}

static gboolean
run_new (LlmctlChat  *self,
         const char  *argument,
         GError     **error)
{
  gboolean is_new = llmctl_chat_open (self, NULL, error);

  if (is_new)
    llmctl_chat_note (self, _("A new conversation"));
  return is_new;
}

static gboolean
run_undo (LlmctlChat  *self,
          const char  *argument,
          GError     **error)
{
  guint64 n_turns = 1;

  if (*argument != '\0' &&
      !g_ascii_string_to_unsigned (argument, 10, 1, G_MAXINT / 2, &n_turns, NULL))
    {
      llmctl_complain (_("/undo takes a number of turns"));
      return TRUE;
    }
  if (!llmctl_chat_undo (self, (guint) n_turns, error))
    return FALSE;

  llmctl_chat_note (self, ngettext ("The last turn is forgotten",
                                    "The last %ju turns are forgotten",
                                    (gulong) n_turns), n_turns);
  return TRUE;
}

static gboolean
run_retry (LlmctlChat  *self,
           const char  *argument,
           GError     **error)
{
  llmctl_chat_retry (self);
  return TRUE;
}

static gboolean
run_system (LlmctlChat  *self,
            const char  *argument,
            GError     **error)
{
  char *old = self->system;

  if (*argument == '\0')
    {
      llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n",
                            old != NULL ? old : _("There is no system text"));
      return TRUE;
    }

  self->system = g_strdup (argument);
  if (!llmctl_chat_open (self, NULL, error))
    {
      g_free (self->system);
      self->system = old;
      return FALSE;
    }
  g_free (old);
  llmctl_chat_note (self, _("A new conversation with this system text"));
  return TRUE;
}

static gboolean
run_messages (LlmctlChat  *self,
              const char  *argument,
              GError     **error)
{
  g_autoptr(GPtrArray) messages = llmctl_chat_read (self, error);

  for (guint i = 0; messages != NULL && i < messages->len; i++)
    {
      LlmsvcMessage *message = g_ptr_array_index (messages, i);

      llmctl_output_printf (LLMCTL_STYLE_BOLD, "%s: ", llmsvc_message_get_role (message));
      llmctl_output_data (llmsvc_message_get_text (message));
      llmctl_output_data ("\n");
    }
  return messages != NULL;
}

static gboolean
run_save (LlmctlChat  *self,
          const char  *argument,
          GError     **error)
{
  g_autoptr(GPtrArray) messages = NULL;
  g_autofree char *text = NULL;

  if (*argument == '\0')
    {
      llmctl_complain (_("/save takes the name of a file"));
      return TRUE;
    }
  messages = llmctl_chat_read (self, error);
  if (messages == NULL)
    return FALSE;
  text = llmctl_context_file_format (self->name != NULL ? self->name : "", messages);
  if (!llmctl_context_file_write (argument, text, error))
    return FALSE;

  llmctl_chat_note (self, _("Saved; “llmctl context import” reads it"));
  return TRUE;
}

static gboolean
run_tokens (LlmctlChat  *self,
            const char  *argument,
            GError     **error)
{
  LlmsvcModel *model = llmsvc_client_get_active_model (self->client);
  g_autofree char *place = NULL;

  if (!llmctl_chat_ensure (self, error) ||
      !llmsvc_context_refresh_sync (self->context, llmctl_wait_get_cancellable (), error))
    return FALSE;

  place = llmctl_words_say_place (llmsvc_context_get_residency (self->context),
                                  llmsvc_context_get_is_exact (self->context));
  if (model != NULL)
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, _("%u of %u tokens (%s)\n"),
                          llmsvc_context_get_tokens (self->context),
                          llmsvc_model_get_context_length (model), place);
  else
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, _("%u tokens (%s)\n"),
                          llmsvc_context_get_tokens (self->context), place);
  return TRUE;
}

static gboolean
run_multi (LlmctlChat  *self,
           const char  *argument,
           GError     **error)
{
  self->wants_block = TRUE;
  llmctl_chat_note (self, _("Several lines; \"\"\" on a line of its own ends them"));
  return TRUE;
}

/* --- contexts, models and options: gone over to, chosen and set, or listed --- */

static gboolean
run_context (LlmctlChat  *self,
             const char  *argument,
             GError     **error)
{
  g_autoptr(GPtrArray) contexts = NULL;

  if (*argument != '\0')
    return llmctl_chat_open (self, argument, error);

  contexts = llmctl_contexts_list (self->client, error);
  for (guint i = 0; contexts != NULL && i < contexts->len; i++)
    {
      const char *name = llmsvc_context_get_name (g_ptr_array_index (contexts, i));

      if (*name != '\0')
        print_item (g_strcmp0 (name, self->name) == 0, name, "");
    }
  return contexts != NULL;
}

static gboolean
run_model (LlmctlChat  *self,
           const char  *argument,
           GError     **error)
{
  GListModel *models = llmsvc_client_get_models (self->client);
  LlmsvcModel *active = llmsvc_client_get_active_model (self->client);
  const char *active_id = active != NULL ? llmsvc_model_get_id (active) : NULL;
  const char *const words[] = { "model", "use", argument, NULL };
  g_autoptr(GError) local_error = NULL;
  g_autofree char *told = NULL;
  g_autofree char *remedy = NULL;

  for (guint i = 0; *argument == '\0' && i < g_list_model_get_n_items (models); i++)
    {
      g_autoptr(LlmsvcModel) model = g_list_model_get_item (models, i);
      const char *id = llmsvc_model_get_id (model);

      print_item (g_strcmp0 (id, active_id) == 0, id, llmsvc_model_get_title (model));
    }
  if (*argument == '\0')
    return TRUE;

  told = llmctl_progress_select_model (self->client, argument, &local_error);
  if (told != NULL)
    {
      llmctl_chat_note (self, "%s", told);
      return TRUE;
    }
  remedy = llmctl_make_remedy (local_error, words);
  if (remedy != NULL)
    {
      g_autofree char *text = g_strconcat (local_error->message, ". ", remedy, NULL);

      g_set_error_literal (error, local_error->domain, local_error->code, text);
    }
  else
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
    }
  return FALSE;
}

/* An unknown key would only be told with the next answer. */
static gboolean
check_key (const char  *assignment,
           GError     **error)
{
  g_autofree char *key = g_strndup (assignment, strcspn (assignment, "="));
  const char *suggestion;

  if (assignment[strlen (key)] == '\0')
    return TRUE;  /* it is no assignment, which is told as that */
  suggestion = llmctl_options_suggest (key);
  /* one that there is is nearest to itself */
  if (g_strcmp0 (suggestion, key) == 0)
    return TRUE;
  if (suggestion != NULL)
    return llmctl_set_invalid (error, _("Unknown option “%s”; did you mean “%s”?"), key, suggestion);
  return llmctl_set_invalid (error, _("Unknown option “%s”; Tab behind “/set ” lists them"), key);
}

static gboolean
run_set (LlmctlChat  *self,
         const char  *argument,
         GError     **error)
{
  const char *equals = strchr (argument, '=');
  g_autofree char *unset = NULL;
  g_autoptr(GVariant) options = NULL;
  GVariantIter iter;
  const char *key;
  GVariant *value;

  if (equals != NULL && equals != argument && equals[1] == '\0')
    {
      unset = g_strndup (argument, (gsize) (equals - argument));
      llmsvc_options_unset (self->options, unset);
      return TRUE;
    }
  if (*argument != '\0')
    return check_key (argument, error) && llmctl_options_add (self->options, argument, error);

  options = llmsvc_options_to_variant (self->options);
  if (g_variant_n_children (options) == 0)
    llmctl_chat_note (self, _("No option is set"));
  g_variant_iter_init (&iter, options);
  while (g_variant_iter_loop (&iter, "{&sv}", &key, &value))
    {
      g_autofree char *printed = g_variant_print (value, FALSE);

      llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s=%s\n", key, printed);
    }
  return TRUE;
}

/* --- the table --- */

static gboolean run_help (LlmctlChat *self, const char *argument, GError **error);

static const struct
{
  const char *name;
  const char *parameters;   /* N_(), "" for none */
  const char *help;         /* N_() */
  /* @argument: the rest of the line, "" for none */
  gboolean (*run) (LlmctlChat  *self,
                   const char  *argument,
                   GError     **error);
} commands[] = {
  { "/help", "", N_("this list"), run_help },
  { "/quit", "", N_("end; so does Ctrl-D"), run_quit },
  { "/new", "", N_("a new conversation; a kept one stays as it is"), run_new },
  { "/reset", "", N_("the same"), run_new },
  { "/undo", N_("[N]"), N_("forget the last turn, or the last N"), run_undo },
  { "/retry", "", N_("another answer to the last question"), run_retry },
  { "/system", N_("[TEXT]"), N_("a new conversation with this system text, or show it"),
    run_system },
  { "/messages", "", N_("what was said"), run_messages },
  { "/save", N_("FILE"), N_("write the conversation to a file"), run_save },
  { "/context", N_("[NAME]"), N_("go over to a kept conversation, or list them"),
    run_context },
  { "/model", N_("[ID]"), N_("change the model for everyone, or list them"), run_model },
  { "/set", N_("[KEY=VALUE]"), N_("an option of the next turns, KEY= unsets it, or list them"),
    run_set },
  { "/tokens", "", N_("how full the conversation is"), run_tokens },
  { "/multi", "", N_("type several lines; \"\"\" begins and ends them as well"), run_multi },
};

static gboolean
run_help (LlmctlChat  *self,
          const char  *argument,
          GError     **error)
{
  char *usages[G_N_ELEMENTS (commands)];
  guint columns = 0;

  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    {
      gboolean takes_more = *commands[i].parameters != '\0';

      usages[i] = g_strconcat ("  ", commands[i].name, takes_more ? " " : "",
                               takes_more ? _(commands[i].parameters) : "", NULL);
      columns = MAX (columns, llmctl_output_get_width (usages[i]));
    }
  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    {
      llmctl_output_column (LLMCTL_STYLE_BOLD, columns + 2, usages[i]);
      llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n", _(commands[i].help));
      g_free (usages[i]);
    }
  llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n",
                        _("A backslash at the end of a line goes on with the next one. Ctrl-C "
                          "stops an\nanswer, and at the prompt clears the line. // at the "
                          "beginning stands for a / of\nyour own."));
  return TRUE;
}

void
llmctl_chat_run_command (LlmctlChat *self,
                         const char *line)
{
  gsize length = strcspn (line, " \t\n");
  g_autofree char *name = g_strndup (line, length);
  g_autofree char *argument = g_strstrip (g_strdup (line + length));
  const char *names[G_N_ELEMENTS (commands) + 1] = { NULL };
  const char *nearest;
  g_autoptr(GError) error = NULL;

  llmctl_wait_begin (TRUE);
  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    {
      names[i] = commands[i].name;
      if (!g_str_equal (commands[i].name, name))
        continue;

      if (*commands[i].parameters == '\0' && *argument != '\0')
        llmctl_complain (_("%s takes nothing behind it"), name);
      else if (!commands[i].run (self, argument, &error))
        self->status = llmctl_fail (error);
      llmctl_output_flush ();
      return;
    }

  self->status = LLMCTL_EXIT_USAGE;
  nearest = llmctl_suggest (name, names);
  if (nearest != NULL)
    llmctl_complain (_("“%s” is no command; did you mean “%s”? /help lists them, and // sends a "
                       "line that begins with /"), name, nearest);
  else
    llmctl_complain (_("“%s” is no command; /help lists them, and // sends a line that begins "
                       "with /"), name);
}

/* --- completion --- */

void
llmctl_chat_complete (const char *before,
                      GPtrArray  *candidates,
                      gpointer    chat)
{
  LlmctlChat *self = chat;
  GListModel *models = llmsvc_client_get_models (self->client);
  guint n_options;
  g_autofree GParamSpec **options = llmctl_options_list (&n_options);
  g_autoptr(GPtrArray) contexts = g_str_has_prefix (before, "/context ")
                                      ? llmctl_contexts_list (self->client, NULL)
                                      : NULL;

  if (before[0] == '/' && strpbrk (before, " \t") == NULL)
    for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
      g_ptr_array_add (candidates, g_strdup (commands[i].name));
  else if (contexts != NULL)
    for (guint i = 0; i < contexts->len; i++)
      g_ptr_array_add (candidates,
                       g_strdup (llmsvc_context_get_name (g_ptr_array_index (contexts, i))));
  else if (g_str_has_prefix (before, "/set "))
    for (guint i = 0; i < n_options; i++)
      g_ptr_array_add (candidates, g_strconcat (options[i]->name, "=", NULL));
  else if (g_str_has_prefix (before, "/model "))
    for (guint i = 0; i < g_list_model_get_n_items (models); i++)
      {
        g_autoptr(LlmsvcModel) model = g_list_model_get_item (models, i);

        g_ptr_array_add (candidates, g_strdup (llmsvc_model_get_id (model)));
      }
}
