/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-introspection.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/bus/llmctl-docs.h"
#include "llmctl/llmctl.h"

/* Far more than any interface has. */
#define MAX_XML_BYTES   (1024 * 1024)
#define MAX_XML_DEPTH   16
#define MAX_CHILDREN    4096
#define MAX_MEMBERS     1024
#define MAX_ARGUMENTS   64

/* --- memory --- */

static void
argument_free (gpointer data)
{
  LlmctlArgument *self = data;

  g_free (self->name);
  g_free (self->type);
  g_free (self->help);
  g_free (self);
}

static void
member_free (gpointer data)
{
  LlmctlMember *self = data;

  g_free (self->name);
  g_free (self->help);
  g_free (self->type);
  g_ptr_array_unref (self->in);
  g_ptr_array_unref (self->out);
  g_free (self);
}

static void
interface_free (gpointer data)
{
  LlmctlInterface *self = data;

  g_free (self->name);
  g_free (self->summary);
  g_free (self->help);
  g_ptr_array_unref (self->members);
  g_free (self);
}

static LlmctlNode *
node_new (void)
{
  LlmctlNode *self = g_new0 (LlmctlNode, 1);

  self->interfaces = g_ptr_array_new_with_free_func (interface_free);
  self->children = g_ptr_array_new_with_free_func (g_free);
  return self;
}

void
llmctl_node_free (LlmctlNode *self)
{
  g_ptr_array_unref (self->interfaces);
  g_ptr_array_unref (self->children);
  g_free (self);
}

/* --- reading XML --- */

typedef struct
{
  LlmctlNode *node;
  guint depth;
  guint ignored_from;          /* the depth of an element that is left out; 0 for none */
  LlmctlInterface *interface;  /* (nullable): the one that is open */
  LlmctlMember *member;        /* (nullable): the same */
  LlmctlComment *pending;      /* (nullable) (owned): a comment waits for its element */
} Parser;

static const char *
find_attribute (const char **names,
                const char **values,
                const char  *name)
{
  for (gsize i = 0; names[i] != NULL; i++)
    if (strcmp (names[i], name) == 0)
      return values[i];

  return NULL;
}

static gboolean
is_single_type (const char *type)
{
  const char *end = NULL;

  /* The parser of types takes as much depth as the bus does; what it takes beside the
   * types of the bus can't be sent. */
  return g_variant_type_string_scan (type, NULL, &end) && *end == '\0' &&
         g_variant_is_signature (type) && strpbrk (type, "m*?r") == NULL;
}

static void
apply_comment (Parser              *parser,
               const LlmctlComment *comment)
{
  LlmctlMember *member = parser->member;
  GPtrArray *lists[2];

  if (member == NULL)
    {
      g_free (parser->interface->summary);
      g_free (parser->interface->help);
      parser->interface->summary = g_strdup (g_hash_table_lookup (comment->params,
                                                                  "short_description"));
      parser->interface->help = g_strdup (comment->body);
      return;
    }

  g_free (member->help);
  member->help = g_strdup (comment->body);
  lists[0] = member->in;
  lists[1] = member->out;
  for (gsize i = 0; i < G_N_ELEMENTS (lists); i++)
    for (guint j = 0; j < lists[i]->len; j++)
      {
        LlmctlArgument *argument = g_ptr_array_index (lists[i], j);

        g_free (argument->help);
        argument->help = g_strdup (g_hash_table_lookup (comment->params, argument->name));
      }
}

static void
open_interface (Parser      *parser,
                const char **names,
                const char **values)
{
  const char *name = find_attribute (names, values, "name");
  LlmctlInterface *interface;

  if (name == NULL || !g_dbus_is_interface_name (name) ||
      llmctl_node_find_interface (parser->node, name) != NULL ||
      parser->node->interfaces->len >= MAX_MEMBERS)
    {
      parser->ignored_from = parser->depth;
      return;
    }

  interface = g_new0 (LlmctlInterface, 1);
  interface->name = g_strdup (name);
  interface->members = g_ptr_array_new_with_free_func (member_free);
  g_ptr_array_add (parser->node->interfaces, interface);
  parser->interface = interface;
}

static void
open_member (Parser           *parser,
             LlmctlMemberKind  kind,
             const char      **names,
             const char      **values)
{
  const char *name = find_attribute (names, values, "name");
  const char *type = find_attribute (names, values, "type");
  const char *access = find_attribute (names, values, "access");
  LlmctlMember *member;

  if (name == NULL || !g_dbus_is_member_name (name) ||
      llmctl_interface_find (parser->interface, kind, name) != NULL ||
      parser->interface->members->len >= MAX_MEMBERS ||
      (kind == LLMCTL_MEMBER_PROPERTY && (type == NULL || !is_single_type (type))))
    {
      parser->ignored_from = parser->depth;
      return;
    }

  member = g_new0 (LlmctlMember, 1);
  member->kind = kind;
  member->name = g_strdup (name);
  member->in = g_ptr_array_new_with_free_func (argument_free);
  member->out = g_ptr_array_new_with_free_func (argument_free);
  if (kind == LLMCTL_MEMBER_PROPERTY)
    {
      member->type = g_strdup (type);
      member->is_readable = access != NULL && strstr (access, "read") != NULL;
      member->is_writable = access != NULL && strstr (access, "write") != NULL;
    }
  g_ptr_array_add (parser->interface->members, member);
  parser->member = member;
}

static void
add_argument (Parser      *parser,
              const char **names,
              const char **values,
              GError     **error)
{
  const char *name = find_attribute (names, values, "name");
  const char *type = find_attribute (names, values, "type");
  const char *direction = find_attribute (names, values, "direction");
  LlmctlMember *member = parser->member;
  gboolean is_out = member->kind == LLMCTL_MEMBER_SIGNAL || g_strcmp0 (direction, "out") == 0;
  GPtrArray *list = is_out ? member->out : member->in;
  LlmctlArgument *argument;

  /* A call with an argument left out would be another call. */
  if (type == NULL || !is_single_type (type) || list->len >= MAX_ARGUMENTS)
    {
      g_set_error (error, G_MARKUP_ERROR, G_MARKUP_ERROR_INVALID_CONTENT,
                   _("an argument of “%s” has no valid type"), member->name);
      return;
    }

  argument = g_new0 (LlmctlArgument, 1);
  argument->name = g_strdup (name != NULL ? name : "");
  argument->type = g_strdup (type);
  g_ptr_array_add (list, argument);
}

static void
take_annotation (Parser      *parser,
                 const char **names,
                 const char **values)
{
  const char *name = find_attribute (names, values, "name");
  const char *value = find_attribute (names, values, "value");
  char **help;

  if (name == NULL || value == NULL || parser->interface == NULL)
    return;

  if (strcmp (name, "org.freedesktop.DBus.Deprecated") == 0 && parser->member != NULL)
    parser->member->is_deprecated = strcmp (value, "true") == 0;
  if (strcmp (name, "org.gtk.GDBus.DocString") == 0)
    {
      help = parser->member != NULL ? &parser->member->help : &parser->interface->help;
      if (*help == NULL)
        *help = g_strdup (value);
    }
}

/* Where a comment stands is not where it belongs: it says what it is about. */
static gboolean
use_pending (Parser *parser)
{
  const char *name = parser->member != NULL      ? parser->member->name
                     : parser->interface != NULL ? parser->interface->name
                                                 : NULL;

  if (parser->pending == NULL || name == NULL || strcmp (parser->pending->name, name) != 0)
    return FALSE;

  apply_comment (parser, parser->pending);
  g_clear_pointer (&parser->pending, llmctl_comment_free);
  return TRUE;
}

static void
on_start (GMarkupParseContext *context,
          const char          *element,
          const char         **names,
          const char         **values,
          gpointer             user_data,
          GError             **error)
{
  static const char *const member_elements[] = {
    [LLMCTL_MEMBER_METHOD] = "method",
    [LLMCTL_MEMBER_PROPERTY] = "property",
    [LLMCTL_MEMBER_SIGNAL] = "signal",
  };
  Parser *parser = user_data;

  if (++parser->depth > MAX_XML_DEPTH)
    {
      g_set_error_literal (error, G_MARKUP_ERROR, G_MARKUP_ERROR_INVALID_CONTENT,
                           _("it is nested too deeply"));
      return;
    }
  if (parser->ignored_from > 0)
    return;

  if (parser->depth == 1)
    {
      if (strcmp (element, "node") != 0)
        g_set_error_literal (error, G_MARKUP_ERROR, G_MARKUP_ERROR_UNKNOWN_ELEMENT,
                             _("it does not begin with a node"));
      return;
    }
  if (parser->depth == 2 && strcmp (element, "interface") == 0)
    {
      open_interface (parser, names, values);
      return;
    }
  if (parser->depth == 2 && strcmp (element, "node") == 0)
    {
      const char *name = find_attribute (names, values, "name");

      if (name != NULL && parser->node->children->len < MAX_CHILDREN)
        g_ptr_array_add (parser->node->children, g_strdup (name));
      parser->ignored_from = parser->depth;
      return;
    }
  if (strcmp (element, "annotation") == 0)
    {
      take_annotation (parser, names, values);
      return;
    }
  if (parser->depth == 3 && parser->interface != NULL)
    for (guint i = 0; i < G_N_ELEMENTS (member_elements); i++)
      if (strcmp (element, member_elements[i]) == 0)
        {
          open_member (parser, (LlmctlMemberKind) i, names, values);
          return;
        }
  if (parser->depth == 4 && parser->member != NULL && strcmp (element, "arg") == 0 &&
      parser->member->kind != LLMCTL_MEMBER_PROPERTY)
    {
      add_argument (parser, names, values, error);
      return;
    }

  parser->ignored_from = parser->depth;
}

static void
on_end (GMarkupParseContext *context,
        const char          *element,
        gpointer             user_data,
        GError             **error)
{
  Parser *parser = user_data;
  guint depth = parser->depth--;

  if (parser->ignored_from > 0)
    {
      if (parser->ignored_from == depth)
        parser->ignored_from = 0;
      return;
    }

  /* Only now all arguments are there. */
  if (depth == 3 && parser->member != NULL)
    {
      use_pending (parser);
      parser->member = NULL;
    }
  else if (depth == 2 && parser->interface != NULL)
    {
      use_pending (parser);
      parser->interface = NULL;
    }
}

static void
on_passthrough (GMarkupParseContext *context,
                const char          *text,
                gsize                length,
                gpointer             user_data,
                GError             **error)
{
  Parser *parser = user_data;
  g_autofree char *inside = NULL;
  LlmctlComment *comment;

  if (length < 7 || !g_str_has_prefix (text, "<!--") || parser->ignored_from > 0)
    return;

  inside = g_strndup (text + 4, length - 7);
  comment = llmctl_comment_parse (inside);
  if (comment == NULL)
    return;

  /* That of an interface is followed by those of its members. */
  if (!use_pending (parser))
    g_clear_pointer (&parser->pending, llmctl_comment_free);
  parser->pending = comment;
}

/* That of the service first, those of the bus last. */
static int
compare_interfaces (gconstpointer a,
                    gconstpointer b)
{
  const char *left = (*(LlmctlInterface *const *) a)->name;
  const char *right = (*(LlmctlInterface *const *) b)->name;

  return llmctl_interface_compare (left, right);
}

LlmctlNode *
llmctl_node_parse (const char  *xml,
                   gsize        length,
                   GError     **error)
{
  static const GMarkupParser callbacks = {
    .start_element = on_start,
    .end_element = on_end,
    .passthrough = on_passthrough,
  };
  g_autoptr(LlmctlNode) node = node_new ();
  Parser parser = { .node = node };
  g_autoptr(GMarkupParseContext) context = NULL;
  g_autoptr(GError) local_error = NULL;
  gboolean is_parsed;

  if (length > MAX_XML_BYTES)
    {
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                           _("The description of the object is too large"));
      return NULL;
    }

  context = g_markup_parse_context_new (&callbacks, G_MARKUP_DEFAULT_FLAGS, &parser, NULL);
  is_parsed = g_markup_parse_context_parse (context, xml, (gssize) length, &local_error) &&
              g_markup_parse_context_end_parse (context, &local_error);
  g_clear_pointer (&parser.pending, llmctl_comment_free);
  if (!is_parsed)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                   _("The description of the object can't be read: %s"), local_error->message);
      return NULL;
    }

  g_ptr_array_sort (node->interfaces, compare_interfaces);
  return g_steal_pointer (&node);
}

LlmctlNode *
llmctl_node_fetch (GDBusConnection  *bus,
                   const char       *path,
                   GError          **error)
{
  g_autoptr(GVariant) reply = NULL;
  const char *xml;

  reply = llmctl_call (bus, path, "org.freedesktop.DBus.Introspectable", "Introspect", NULL, "(s)",
                       error);
  if (reply == NULL)
    return NULL;

  g_variant_get (reply, "(&s)", &xml);
  return llmctl_node_parse (xml, strlen (xml), error);
}
