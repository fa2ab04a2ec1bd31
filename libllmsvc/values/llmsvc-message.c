/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "values/llmsvc-message-private.h"

#include <glib/gi18n-lib.h>
#include <string.h>

#include "common/llmsvc-json.h"
#include "llmsvc-error.h"
#include "values/llmsvc-options-private.h"

/**
 * LlmsvcMessage:
 *
 * One message of a conversation: a role, a text, and extras.
 *
 * Messages do not change once they are made and can be used in any thread.
 *
 * Since: 0.1
 */
struct _LlmsvcMessage
{
  GObject parent_instance;

  char *role;
  char *text;
  GVariant *extras;  /* (nullable) (owned) */
};

G_DEFINE_FINAL_TYPE (LlmsvcMessage, llmsvc_message, G_TYPE_OBJECT)

#include "llmsvc-message-properties.h"

static void
llmsvc_message_set_property (GObject      *object,
                             guint         id,
                             const GValue *value,
                             GParamSpec   *pspec)
{
  LlmsvcMessage *self = LLMSVC_MESSAGE (object);

  switch (id)
    {
    case PROP_ROLE:
      self->role = g_value_dup_string (value);
      break;
    case PROP_TEXT:
      self->text = g_value_dup_string (value);
      break;
    case PROP_EXTRAS:
      self->extras = g_value_dup_variant (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
llmsvc_message_constructed (GObject *object)
{
  LlmsvcMessage *self = LLMSVC_MESSAGE (object);

  G_OBJECT_CLASS (llmsvc_message_parent_class)->constructed (object);

  if (self->role == NULL)
    self->role = g_strdup (LLMSVC_ROLE_USER);
  if (self->text == NULL)
    self->text = g_strdup ("");
}

static void
llmsvc_message_finalize (GObject *object)
{
  LlmsvcMessage *self = LLMSVC_MESSAGE (object);

  g_free (self->role);
  g_free (self->text);
  g_clear_pointer (&self->extras, g_variant_unref);

  G_OBJECT_CLASS (llmsvc_message_parent_class)->finalize (object);
}

static void
llmsvc_message_class_init (LlmsvcMessageClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->set_property = llmsvc_message_set_property;
  object_class->constructed = llmsvc_message_constructed;
  object_class->finalize = llmsvc_message_finalize;
  install_properties (object_class);
}

static void
llmsvc_message_init (LlmsvcMessage *self)
{
}

/**
 * llmsvc_message_new:
 * @role: who says it: `system`, `user`, `assistant` or `tool`
 * @text: what is said, UTF-8
 *
 * Makes a message without extras. For one with extras use g_object_new() and the property
 * [property@Llmsvc.Message:extras].
 *
 * Returns: (transfer full): a message
 *
 * Since: 0.1
 */
LlmsvcMessage *
llmsvc_message_new (const char *role,
                    const char *text)
{
  g_return_val_if_fail (role != NULL, NULL);
  g_return_val_if_fail (text != NULL, NULL);

  return g_object_new (LLMSVC_TYPE_MESSAGE, "role", role, "text", text, NULL);
}

/* (nullable): the string @key of @object (nullable). */
static const char *
get_string (JsonObject *object,
            const char *key)
{
  JsonNode *node = object != NULL ? json_object_get_member (object, key) : NULL;

  return node != NULL && json_node_get_value_type (node) == G_TYPE_STRING
           ? json_node_get_string (node) : NULL;
}

/**
 * llmsvc_message_new_tool_result:
 * @call: a call of a function, as the signal [signal@Llmsvc.Generation::tool-call] has it, or one
 *   element of [property@Llmsvc.Answer:tool-calls]: a JSON object
 * @text: what the function returned, UTF-8, often JSON
 * @error: return location for an error of %LLMSVC_ERROR: %LLMSVC_ERROR_INVALID_ARGUMENT when @call
 *   is no such object
 *
 * Makes the message that answers a call: with the role `tool`, and in its extras the id and the name
 * that the model gave.
 *
 * Returns: (transfer full): a message
 *
 * Since: 0.1
 */
LlmsvcMessage *
llmsvc_message_new_tool_result (const char  *call,
                                const char  *text,
                                GError     **error)
{
  g_autoptr(JsonNode) root = NULL;
  JsonObject *object, *function;
  JsonNode *member;
  const char *id, *name;
  GVariantDict extras;

  g_return_val_if_fail (call != NULL, NULL);
  g_return_val_if_fail (text != NULL, NULL);

  root = llmsvc_json_parse (call, strlen (call), NULL);
  object = root != NULL && JSON_NODE_HOLDS_OBJECT (root) ? json_node_get_object (root) : NULL;
  member = object != NULL ? json_object_get_member (object, "function") : NULL;
  function = member != NULL && JSON_NODE_HOLDS_OBJECT (member) ? json_node_get_object (member)
                                                               : NULL;
  id = get_string (object, "id");
  name = get_string (function, "name");
  if (id == NULL || name == NULL)
    {
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                           _("This is no call of a function: it needs “id” and “function” with "
                             "“name”"));
      return NULL;
    }
  g_variant_dict_init (&extras, NULL);
  g_variant_dict_insert (&extras, "tool-call-id", "s", id);
  g_variant_dict_insert (&extras, "name", "s", name);
  return g_object_new (LLMSVC_TYPE_MESSAGE, "role", LLMSVC_ROLE_TOOL, "text", text, "extras",
                       g_variant_dict_end (&extras), NULL);
}

gboolean
llmsvc_text_check (const char  *text,
                   const char  *what,
                   GError     **error)
{
  if (g_utf8_validate (text, -1, NULL))
    return TRUE;

  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
               _("“%s” is not valid UTF-8 text"), what);
  return FALSE;
}

GVariant *
llmsvc_messages_to_variant (LlmsvcMessage *const *messages,
                            gsize                 n_messages,
                            GError              **error)
{
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("a(ssa{sv})"));

  for (gsize i = 0; i < n_messages; i++)
    {
      LlmsvcMessage *message = messages[i];

      g_return_val_if_fail (LLMSVC_IS_MESSAGE (message), NULL);
      if (!llmsvc_text_check (message->role, "role", error) ||
          !llmsvc_text_check (message->text, "text", error))
        return NULL;
      if (message->extras != NULL)
        g_variant_builder_add (&builder, "(ss@a{sv})", message->role, message->text,
                               message->extras);
      else
        g_variant_builder_add (&builder, "(ssa{sv})", message->role, message->text, NULL);
    }

  return g_variant_builder_end (&builder);
}

GVariant *
llmsvc_messages_to_arguments (LlmsvcMessage *const *messages,
                              gsize                 n_messages,
                              LlmsvcOptions        *options,
                              GError              **error)
{
  g_autoptr(GVariant) taken = llmsvc_options_take (options, error);
  GVariant *variant = NULL;

  if (taken != NULL)
    variant = llmsvc_messages_to_variant (messages, n_messages, error);
  return variant != NULL ? g_variant_new ("(@a(ssa{sv})@a{sv})", variant, g_steal_pointer (&taken))
                         : NULL;
}

void
llmsvc_messages_add_variant (GPtrArray *messages,
                             GVariant  *variant)
{
  GVariantIter iter;
  const char *role, *text;
  GVariant *extras;

  g_variant_iter_init (&iter, variant);
  while (g_variant_iter_next (&iter, "(&s&s@a{sv})", &role, &text, &extras))
    {
      g_ptr_array_add (messages, g_object_new (LLMSVC_TYPE_MESSAGE, "role", role, "text", text,
                                               "extras",
                                               g_variant_n_children (extras) > 0 ? extras : NULL,
                                               NULL));
      g_variant_unref (extras);
    }
}
