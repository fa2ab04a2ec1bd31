/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl context: the conversations that the service keeps. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/bus/llmctl-contexts.h"
#include "llmctl/bus/llmctl-service.h"
#include "llmctl/bus/llmctl-wait.h"
#include "llmctl/chat/llmctl-context-file.h"
#include "llmctl/llmctl-options.h"
#include "llmctl/output/llmctl-context-memory.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/output/llmctl-progress.h"
#include "llmctl/output/llmctl-rows.h"
#include "llmctl/output/llmctl-term.h"
#include "llmctl/output/llmctl-words.h"

/* (transfer floating): what JSON has of a context; @memory and @messages are nullable. */
static GVariant *
describe (LlmsvcContext       *context,
          LlmsvcContextMemory *memory,
          GPtrArray           *messages)
{
  return llmctl_json_object (
      "name:s", llmsvc_context_get_name (context), "tokens:u", llmsvc_context_get_tokens (context),
      "revision:t", llmsvc_context_get_revision (context),
      "residency:s", llmsvc_context_get_residency (context),
      "exact:b", llmsvc_context_get_is_exact (context),
      "path:s", llmsvc_context_get_path (context),
      "memory:*", memory != NULL ? llmsvc_context_memory_get_info (memory) : NULL,
      "messages:*", messages != NULL ? llmctl_context_file_describe (messages) : NULL, NULL);
}

/* The same for programs, of one that was made; @context is nullable. */
static LlmctlExit
tell_made (LlmsvcContext *context)
{
  if (context != NULL && llmctl_globals.is_json)
    llmctl_output_json (describe (context, NULL, NULL));
  return LLMCTL_EXIT_OK;
}

static gboolean
check_name (const char  *name,
            GError     **error)
{
  if (*name == '\0')
    return llmctl_set_invalid (error, _("The name of the context is empty"));
  if (g_utf8_validate (name, -1, NULL))
    return TRUE;

  return llmctl_set_invalid (error, _("The name of a context must be UTF-8 text"));
}

/* Where the context is kept: @memory is NULL when the service can't say, or the context has just
 * ended; the rest is worth showing. (out) (nullable) (transfer full) */
static gboolean
read_memory (LlmsvcContext        *context,
             LlmsvcContextMemory **memory,
             GError              **error)
{
  g_autoptr(GError) local_error = NULL;

  *memory = llmsvc_context_get_memory_sync (context, llmctl_wait_get_cancellable (), &local_error);
  if (*memory != NULL || g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED) ||
      g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND))
    return TRUE;

  g_propagate_error (error, g_steal_pointer (&local_error));
  return FALSE;
}

/* --- list --- */

static char *
format_place (GVariant   *row,
              const char *key)
{
  gboolean is_exact = FALSE;

  (void) g_variant_lookup (row, "exact", "b", &is_exact);
  return llmctl_words_say_place (llmctl_dict_get_string (row, key), is_exact);
}

static const LlmctlColumn columns[] = {
  { N_("Name"), "name", llmctl_format_name },
  { N_("Revision"), "revision", llmctl_format_number },
  { N_("Tokens"), "tokens", llmctl_format_number },
  { N_("Where"), "residency", format_place },
  { N_("In memory"), "memory/memory-bytes", llmctl_format_size },
  { N_("On storage"), "memory/storage-bytes", llmctl_format_size },
  { NULL }
};

static LlmctlExit
run_list (int       argc,
          char    **argv,
          GError  **error)
{
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("aa{sv}"));
  g_autoptr(LlmsvcClient) client = llmctl_wait_client (error);
  g_autoptr(GPtrArray) contexts = client != NULL ? llmctl_contexts_list (client, error) : NULL;

  if (contexts == NULL)
    return LLMCTL_EXIT_FAILED;
  for (guint i = 0; i < contexts->len; i++)
    {
      g_autoptr(LlmsvcContextMemory) memory = NULL;

      if (!read_memory (contexts->pdata[i], &memory, error))
        return LLMCTL_EXIT_FAILED;
      g_variant_builder_add_value (&builder, describe (contexts->pdata[i], memory, NULL));
    }

  llmctl_rows_show (columns, g_variant_builder_end (&builder), "contexts",
                    _("There is no context; “llmctl chat --context NAME” makes one"));
  return LLMCTL_EXIT_OK;
}

static const LlmctlCommand list_command = {
  .name = "list",
  .summary = N_("List the contexts of this user"),
  .description = N_("--json: one object: contexts, an array of objects: name, tokens, revision, "
                    "residency, exact, path, memory as “show” has it."),
  .run = run_list,
};

/* --- show --- */

/* @context and @messages: (out) (transfer full): the one called @name, and what was said in it. */
static gboolean
open_and_read (const char     *name,
               LlmsvcContext **context,
               GPtrArray     **messages,
               GError        **error)
{
  g_autoptr(LlmsvcClient) client = NULL;

  if (check_name (name, error))
    client = llmctl_wait_client (error);
  if (client != NULL)
    *context = llmctl_contexts_open (client, name, error);
  if (*context != NULL)
    *messages = llmctl_contexts_read (*context, error);
  return *messages != NULL;
}

static LlmctlExit
run_show (int       argc,
          char    **argv,
          GError  **error)
{
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(GPtrArray) messages = NULL;
  g_autoptr(LlmsvcContextMemory) memory = NULL;
  g_autofree char *place = NULL;

  if (!open_and_read (argv[1], &context, &messages, error) ||
      !read_memory (context, &memory, error))
    return LLMCTL_EXIT_FAILED;

  if (llmctl_globals.is_json)
    {
      llmctl_output_json (describe (context, memory, messages));
      return LLMCTL_EXIT_OK;
    }

  place = llmctl_words_say_place (llmsvc_context_get_residency (context),
                                  llmsvc_context_get_is_exact (context));
  /* Translators: the name of a conversation; messages, tokens, where it is held */
  llmctl_output_printf (LLMCTL_STYLE_DIM,
                        ngettext ("%s: %u message, %u tokens (%s)\n",
                                  "%s: %u messages, %u tokens (%s)\n", messages->len),
                        argv[1], messages->len, llmsvc_context_get_tokens (context), place);
  if (memory != NULL)
    {
      llmctl_context_memory_print (memory);
      llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
    }
  for (guint i = 0; i < messages->len; i++)
    {
      LlmsvcMessage *message = g_ptr_array_index (messages, i);

      llmctl_output_printf (LLMCTL_STYLE_BOLD, "%s:\n", llmsvc_message_get_role (message));
      llmctl_output_data (llmsvc_message_get_text (message));
      llmctl_output_data ("\n");
    }
  return LLMCTL_EXIT_OK;
}

static const LlmctlCommand show_command = {
  .name = "show",
  .parameters = N_("NAME"),
  .missing = N_("Missing argument NAME"),
  .n_most = 1,
  .summary = N_("Show where a context is kept, and what was said in it"),
  .description = N_("The map has a character for each chunk of its memory, the oldest first: the "
                    "fewer bits, the lighter it is, and on storage alone the lower. On a terminal, "
                    "what would have to be computed again if memory were short is yellow, and "
                    "green when it is on storage, too.\n"
                    "--json: one object: name, tokens, revision, residency, exact, path, memory as "
                    "GetMemory tells it, messages (role, text, extras)."),
  .is_long = TRUE,
  .run = run_show,
  .names = LLMCTL_NAMES_CONTEXTS,
  .n_names = 1,
};

/* --- new --- */

static char *system_text;
static char **assignments;
static gboolean hides_progress;

/* Texts are of type FILENAME: GLib would have strings in the locale's charset. */
static const GOptionEntry new_options[] = {
  { "system", 's', 0, G_OPTION_ARG_FILENAME, &system_text,
    N_("The system text, before all messages"), N_("TEXT") },
  { "option", 'o', 0, G_OPTION_ARG_FILENAME_ARRAY, &assignments,
    N_("Any other option of CreateContext; may be given several times"), N_("KEY=VALUE") },
  { "no-progress", 0, 0, G_OPTION_ARG_NONE, &hides_progress,
    N_("Draw no line of progress on the terminal"), NULL },
  G_OPTION_ENTRY_NULL
};

static LlmctlExit
run_new (int       argc,
         char    **argv,
         GError  **error)
{
  g_autoptr(LlmsvcOptions) options = llmsvc_options_new ();
  g_autoptr(LlmsvcClient) client = NULL;
  g_autoptr(LlmsvcContext) context = NULL;

  if (system_text != NULL && !g_utf8_validate (system_text, -1, NULL))
    return llmctl_complain_usage (_("--system takes UTF-8 text"));
  if (check_name (argv[1], error) && llmctl_options_add_all (options, assignments, error))
    client = llmctl_wait_client (error);
  llmctl_progress_begin (!hides_progress);
  if (client != NULL)
    context = llmctl_contexts_create (client, argv[1], system_text, NULL, options, error);
  return tell_made (context);
}

static const LlmctlCommand new_command = {
  .name = "new",
  .parameters = N_("NAME"),
  .missing = N_("Missing argument NAME"),
  .n_most = 1,
  .summary = N_("Make a context that is kept"),
  .description = N_("--json: one object: name, tokens, revision, residency, exact, path."),
  .options = new_options,
  .run = run_new,
};

/* --- rm --- */

/* (nullable) (transfer full): the one called @name that can't be opened, as what is stored of it is
 * damaged. */
static LlmsvcContext *
find_damaged (LlmsvcClient *client,
              const char   *name)
{
  g_autoptr(GPtrArray) contexts = llmctl_contexts_list (client, NULL);

  for (guint i = 0; contexts != NULL && i < contexts->len; i++)
    {
      LlmsvcContext *context = g_ptr_array_index (contexts, i);

      if (g_str_equal (llmsvc_context_get_name (context), name) &&
          g_str_equal (llmsvc_context_get_residency (context), "damaged"))
        return g_object_ref (context);
    }
  return NULL;
}

static gboolean
remove_one (LlmsvcClient  *client,
            const char    *name,
            GError       **error)
{
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(GError) local_error = NULL;

  if (check_name (name, &local_error))
    context = llmctl_contexts_open (client, name, &local_error);
  if (g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE))
    context = find_damaged (client, name);
  if (context != NULL)
    return llmsvc_context_close_sync (context, llmctl_wait_get_cancellable (), error);

  g_propagate_error (error, g_steal_pointer (&local_error));
  return FALSE;
}

static LlmctlExit
run_rm (int       argc,
        char    **argv,
        GError  **error)
{
  g_autoptr(GPtrArray) removed = g_ptr_array_new_null_terminated (8, NULL, TRUE);
  g_autoptr(LlmsvcClient) client = llmctl_wait_client (error);
  LlmctlExit status = LLMCTL_EXIT_OK;

  if (client == NULL)
    return LLMCTL_EXIT_FAILED;

  /* One that is not there is no reason to keep the others. */
  for (int i = 1; i < argc && llmctl_wait_get_end () == LLMCTL_EXIT_OK; i++)
    {
      g_autoptr(GError) local_error = NULL;

      if (remove_one (client, argv[i], &local_error))
        g_ptr_array_add (removed, argv[i]);
      else
        status = llmctl_fail (local_error);
    }

  if (llmctl_globals.is_json)
    llmctl_output_json_member ("removed", g_variant_new_strv ((const char *const *) removed->pdata,
                                                              -1));
  return status;
}

static const LlmctlCommand rm_command = {
  .name = "rm",
  .parameters = N_("NAME…"),
  .missing = N_("Missing argument NAME"),
  .summary = N_("Forget contexts and what was said in them"),
  .description = N_("There is no way back; “export” writes a copy before.\n"
                    "--json: one object: removed, the names."),
  .run = run_rm,
  .names = LLMCTL_NAMES_CONTEXTS,
  .n_names = G_MAXINT,
};

/* --- export --- */

static LlmctlExit
run_export (int       argc,
            char    **argv,
            GError  **error)
{
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(GPtrArray) messages = NULL;
  g_autofree char *text = NULL;

  if (!open_and_read (argv[1], &context, &messages, error))
    return LLMCTL_EXIT_FAILED;

  text = llmctl_context_file_format (llmsvc_context_get_name (context), messages);
  if (argc < 3 || strcmp (argv[2], "-") == 0)
    llmctl_output_data (text);
  else if (!llmctl_context_file_write (argv[2], text, error))
    return LLMCTL_EXIT_FAILED;
  return LLMCTL_EXIT_OK;
}

static const LlmctlCommand export_command = {
  .name = "export",
  .parameters = N_("NAME [FILE]"),
  .missing = N_("Missing argument NAME"),
  .n_most = 2,
  .summary = N_("Write a context to a file"),
  .description = N_("Without FILE or with “-” to the standard output. The file is for its owner "
                    "only. With or without --json it is one object: format (“llmsvc-context”), "
                    "version (1), name, messages: role, text, and extras as GVariant text."),
  .run = run_export,
  .names = LLMCTL_NAMES_CONTEXTS,
  .n_names = 1,
};

/* --- import --- */

static gboolean replaces;

static const GOptionEntry import_options[] = {
  { "replace", 'r', 0, G_OPTION_ARG_NONE, &replaces,
    N_("Take the place of a context of this name"), NULL },
  { "no-progress", 0, 0, G_OPTION_ARG_NONE, &hides_progress,
    N_("Draw no line of progress on the terminal"), NULL },
  G_OPTION_ENTRY_NULL
};

/* (transfer full) (nullable): the service has read and taken the new content before the
 * old is given up. */
static LlmsvcContext *
replace (LlmsvcClient  *client,
         LlmsvcContext *old,
         const char    *name,
         GVariant      *messages,
         GError       **error)
{
  g_autoptr(LlmsvcContext) copy = llmctl_contexts_create (client, NULL, NULL, messages, NULL,
                                                          error);
  g_autoptr(LlmsvcOptions) options = llmsvc_options_new ();

  if (copy == NULL ||
      !llmsvc_options_set_value (options, "name", g_variant_new_string (name), error) ||
      !llmsvc_context_close_sync (old, llmctl_wait_get_cancellable (), error))
    return NULL;

  return llmsvc_context_fork_sync (copy, options, llmctl_wait_get_cancellable (), error);
}

/* (transfer full) (nullable) */
static LlmsvcContext *
import (const char  *name,
        GVariant    *messages,
        GError     **error)
{
  g_autoptr(LlmsvcClient) client = llmctl_wait_client (error);
  g_autoptr(LlmsvcContext) old = NULL;
  g_autoptr(GError) local_error = NULL;

  if (client == NULL)
    return NULL;

  llmctl_progress_begin (!hides_progress);
  old = llmctl_contexts_open (client, name, &local_error);
  if (g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND))
    return llmctl_contexts_create (client, name, NULL, messages, NULL, error);
  if (old != NULL && replaces)
    return replace (client, old, name, messages, error);

  if (old != NULL)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_ALREADY_EXISTS,
                 _("There is a context “%s” already; --replace takes its place, or give another "
                   "NAME"), name);
  else
    g_propagate_error (error, g_steal_pointer (&local_error));
  return NULL;
}

static LlmctlExit
run_import (int       argc,
            char    **argv,
            GError  **error)
{
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(GVariant) messages = NULL;
  g_autofree char *text = llmctl_term_read (argv[1], LLMCTL_CONTEXT_FILE_MAX_BYTES, error);
  g_autofree char *held_name = NULL;
  const char *name;

  if (text == NULL || !llmctl_context_file_parse (text, &held_name, &messages, error))
    return LLMCTL_EXIT_FAILED;
  name = argc > 2 ? argv[2] : held_name;
  if (*name == '\0')
    return llmctl_complain_usage (_("The file has no name for the context: give a NAME"));
  if (check_name (name, error))
    context = import (name, messages, error);
  return tell_made (context);
}

static const LlmctlCommand import_command = {
  .name = "import",
  .parameters = N_("FILE [NAME]"),
  .missing = N_("Missing argument FILE"),
  .n_most = 2,
  .summary = N_("Make a context from a file that “export” wrote"),
  .description = N_("“-” is the standard input. Without NAME it is called as it was.\n"
                    "--json: one object: name, tokens, revision, residency, exact, path."),
  .options = import_options,
  .run = run_import,
};

static const LlmctlCommand *const commands[] = {
  &list_command, &show_command, &new_command, &rm_command, &export_command, &import_command, NULL
};

const LlmctlCommand llmctl_context_command = {
  .name = "context",
  .summary = N_("List, show, make, remove and copy contexts"),
  .commands = commands,
};
