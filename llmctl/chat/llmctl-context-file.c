/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/chat/llmctl-context-file.h"

#include <glib/gi18n.h>
#include <stdint.h>

#include "llmctl/llmctl.h"
#include "llmctl/output/llmctl-json.h"

#define FORMAT "llmsvc-context"
#define VERSION 1

#define MAX_MESSAGES 100000
#define MAX_EXTRAS 64

/* --- writing --- */

GVariant *
llmctl_context_file_describe (GPtrArray *messages)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; i < messages->len; i++)
    {
      LlmsvcMessage *message = g_ptr_array_index (messages, i);
      GVariant *held = llmsvc_message_get_extras (message);
      gboolean has_extras = held != NULL && g_variant_n_children (held) > 0;
      GVariantBuilder extras;
      GVariantIter iter;
      const char *key;
      GVariant *value;

      g_variant_builder_init (&extras, G_VARIANT_TYPE_VARDICT);
      /* with types, so that what is read again is what was written */
      if (has_extras)
        g_variant_iter_init (&iter, held);
      while (has_extras && g_variant_iter_loop (&iter, "{&sv}", &key, &value))
        llmctl_json_add (&extras, key, g_variant_new_take_string (g_variant_print (value, TRUE)));
      g_variant_builder_add_value (&builder, llmctl_json_object (
          "role:s", llmsvc_message_get_role (message), "text:s", llmsvc_message_get_text (message),
          "extras:*", has_extras ? g_variant_builder_end (&extras) : NULL, NULL));
      g_variant_builder_clear (&extras);
    }

  return g_variant_builder_end (&builder);
}

char *
llmctl_context_file_format (const char *name,
                            GPtrArray  *messages)
{
  g_autoptr(GVariant) root = g_variant_ref_sink (llmctl_json_object (
      "format:s", FORMAT, "version:u", VERSION, "name:s", name,
      "messages:*", llmctl_context_file_describe (messages), NULL));
  g_autofree char *text = llmctl_json_write (root, TRUE);

  return g_strconcat (text, "\n", NULL);
}

gboolean
llmctl_context_file_write (const char  *path,
                           const char  *text,
                           GError     **error)
{
  g_autofree char *shown = g_filename_display_name (path);
  g_autoptr(GError) local_error = NULL;

  /* Writing at once puts a new file in the place of the old one, which is not what is
   * wanted of a device or a pipe. */
  if (g_file_test (path, G_FILE_TEST_EXISTS) && !g_file_test (path, G_FILE_TEST_IS_REGULAR))
    return llmctl_set_invalid (error, _("“%s” is there and is no file; “-” is the standard output"),
                               shown);
  if (g_file_set_contents_full (path, text, -1, G_FILE_SET_CONTENTS_CONSISTENT, 0600,
                                &local_error))
    return TRUE;

  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED, _("“%s” can't be written: %s"), shown,
               local_error->message);
  return FALSE;
}

/* --- reading --- */

G_GNUC_PRINTF (2, 3)
static gboolean
fail (GError     **error,
      const char  *format,
      ...)
{
  g_autofree char *detail = NULL;
  va_list arguments;

  va_start (arguments, format);
  detail = g_strdup_vprintf (format, arguments);
  va_end (arguments);

  return llmctl_set_invalid (error, _("The file holds no conversation that can be read: %s"),
                             detail);
}

/* (nullable) (transfer none): the string, NULL when it is none. */
static const char *
get_string (GVariant   *object,
            const char *key)
{
  const char *text = NULL;

  return g_variant_lookup (object, key, "&s", &text) ? text : NULL;
}

static gboolean
parse_message (GVariant         *message,
               guint             number,
               GVariantBuilder  *messages,
               GError          **error)
{
  static const char *const roles[] = { LLMSVC_ROLE_SYSTEM, LLMSVC_ROLE_USER, LLMSVC_ROLE_ASSISTANT,
                                       LLMSVC_ROLE_TOOL, NULL };
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_VARDICT);
  g_autoptr(GVariant) extras = NULL;
  const char *role;
  const char *text;

  if (!g_variant_is_of_type (message, G_VARIANT_TYPE_VARDICT))
    return fail (error, _("message %u: it must be an object"), number);
  role = get_string (message, "role");
  text = get_string (message, "text");
  if (role == NULL || text == NULL)
    return fail (error, _("message %u: “%s” must be there and a text"), number,
                 role == NULL ? "role" : "text");
  if (!g_strv_contains (roles, role))
    return fail (error, _("message %u: “role” must be system, user, assistant or tool"), number);
  extras = g_variant_lookup_value (message, "extras", NULL);
  if (extras != NULL && !g_variant_is_of_type (extras, G_VARIANT_TYPE_VARDICT))
    return fail (error, _("message %u: “extras” must be an object"), number);
  if (extras != NULL && g_variant_n_children (extras) > MAX_EXTRAS)
    return fail (error, _("message %u: there are more than %u “extras”"), number, MAX_EXTRAS);

  for (gsize i = 0; extras != NULL && i < g_variant_n_children (extras); i++)
    {
      g_autoptr(GVariant) printed = NULL;
      g_autoptr(GVariant) content = NULL;
      const char *key;

      g_variant_get_child (extras, i, "{&sv}", &key, &printed);
      if (g_variant_is_of_type (printed, G_VARIANT_TYPE_STRING))
        content = g_variant_parse (NULL, g_variant_get_string (printed, NULL), NULL, NULL, NULL);
      if (content == NULL)
        return fail (error, _("message %u: “%s” in “extras” must be GVariant text in quotes"),
                     number, key);
      g_variant_builder_add (&builder, "{sv}", key, content);
    }

  g_variant_builder_add (messages, "(ssa{sv})", role, text, &builder);
  return TRUE;
}

gboolean
llmctl_context_file_parse (const char  *text,
                           char       **name,
                           GVariant   **messages,
                           GError     **error)
{
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("a(ssa{sv})"));
  g_autoptr(GError) local_error = NULL;
  g_autoptr(GVariant) root = llmctl_json_read (text, &local_error);
  g_autoptr(GVariant) list = NULL;
  gint64 version;

  if (root == NULL)
    return fail (error, "%s", local_error->message);
  if (!g_variant_is_of_type (root, G_VARIANT_TYPE_VARDICT))
    return fail (error, _("it must be one object of JSON"));
  if (g_strcmp0 (get_string (root, "format"), FORMAT) != 0)
    return fail (error, _("“format” must be “%s”, as “llmctl context export” writes it"),
                 FORMAT);
  if (!g_variant_lookup (root, "version", "x", &version))
    return fail (error, _("“version” must be a whole number"));
  if (version != VERSION)
    return fail (error, _("it is of version %jd, and this llmctl reads version %d"),
                 (intmax_t) version, VERSION);
  list = g_variant_lookup_value (root, "messages", G_VARIANT_TYPE ("av"));
  if (list == NULL)
    return fail (error, _("“messages” must be a list"));
  if (g_variant_n_children (list) > MAX_MESSAGES)
    return fail (error, _("there are more than %u messages"), MAX_MESSAGES);

  for (gsize i = 0; i < g_variant_n_children (list); i++)
    {
      g_autoptr(GVariant) boxed = g_variant_get_child_value (list, i);
      g_autoptr(GVariant) message = g_variant_get_variant (boxed);

      if (!parse_message (message, (guint) i + 1, &builder, error))
        return FALSE;
    }

  *messages = g_variant_ref_sink (g_variant_builder_end (&builder));
  *name = g_strdup (get_string (root, "name") != NULL ? get_string (root, "name") : "");
  return TRUE;
}
