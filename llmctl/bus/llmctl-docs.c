/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-docs.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "llmctl/llmctl.h"

#define SERVICE_FILE   "org.llm.Service"
#define MAX_FILE_BYTES (1024 * 1024)

/* --- comments --- */

void
llmctl_comment_free (LlmctlComment *self)
{
  g_free (self->name);
  g_free (self->body);
  g_hash_table_unref (self->params);
  g_free (self);
}

/* Appends a line to a paragraph, without the marks before names that only a
 * generator of pages has a use for. */
static void
append_line (GString    *out,
             const char *line)
{
  gboolean is_code = FALSE;
  char before = ' ';

  if (out->len > 0 && out->str[out->len - 1] != '\n')
    g_string_append_c (out, ' ');
  for (const char *p = line; *p != '\0'; p++)
    {
      gboolean is_mark = (*p == '#' || *p == '@') && !is_code && !g_ascii_isalnum (before) &&
                         g_ascii_isalpha (p[1]);

      if (*p == '`')
        is_code = !is_code;
      if (!is_mark)
        g_string_append_c (out, *p);
      before = *p;
    }
}

/* The bytes of the name at the begin of "name: text", 0 for none. */
static gsize
scan_name (const char *line)
{
  gsize n = strspn (line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");

  return line[n] == ':' ? n : 0;
}

LlmctlComment *
llmctl_comment_parse (const char *text)
{
  g_auto(GStrv) lines = g_strsplit (text, "\n", -1);
  g_autoptr(GString) body = g_string_new (NULL);
  g_autoptr(GString) param = g_string_new (NULL);
  g_autofree char *param_name = NULL;
  g_autoptr(GHashTable) params = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  g_autofree char *name = NULL;
  LlmctlComment *self;

  for (gsize i = 0; lines[i] != NULL; i++)
    {
      const char *line = g_strstrip (lines[i]);

      if (name == NULL)
        {
          gsize length = scan_name (line);

          if (*line == '\0')
            continue;
          if (length == 0)
            return NULL;
          name = g_strndup (line, length);
          line += length + 1 + strspn (line + length + 1, " ");
          if (*line != '\0')
            append_line (body, line);
          continue;
        }

      if (param_name != NULL && (*line == '\0' || *line == '@'))
        {
          g_hash_table_insert (params, g_steal_pointer (&param_name), g_strdup (param->str));
          g_string_truncate (param, 0);
        }
      if (*line == '\0')
        {
          if (body->len > 0 && !g_str_has_suffix (body->str, "\n\n"))
            g_string_append (body, "\n\n");
        }
      else if (*line == '@' && body->len == 0 && scan_name (line + 1) > 0)
        {
          gsize length = scan_name (line + 1);

          param_name = g_strndup (line + 1, length);
          line += length + 2;
          append_line (param, line + strspn (line, " "));
        }
      else
        {
          append_line (param_name != NULL ? param : body, line);
        }
    }
  if (name == NULL)
    return NULL;
  if (param_name != NULL)
    g_hash_table_insert (params, g_steal_pointer (&param_name), g_strdup (param->str));

  self = g_new0 (LlmctlComment, 1);
  self->name = g_steal_pointer (&name);
  self->body = g_strdup (g_strstrip (body->str));
  self->params = g_steal_pointer (&params);
  return self;
}

/* --- files --- */

/* (nullable) (transfer full): a FIFO or device in a data folder is not waited for. */
static char *
read_file (const char *path,
           gsize      *length)
{
  g_autofree char *content = NULL;
  struct stat about;
  gsize n_read = 0;
  int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

  if (fd < 0)
    return NULL;
  if (fstat (fd, &about) != 0 || !S_ISREG (about.st_mode) || about.st_size > MAX_FILE_BYTES)
    {
      close (fd);
      return NULL;
    }

  content = g_malloc ((gsize) about.st_size + 1);
  while (n_read < (gsize) about.st_size)
    {
      gssize n = read (fd, content + n_read, (gsize) about.st_size - n_read);

      if (n <= 0)
        break;
      n_read += (gsize) n;
    }
  close (fd);
  content[n_read] = '\0';
  *length = n_read;
  return g_steal_pointer (&content);
}

static LlmctlNode *
load_from (const char *folder,
           const char *name)
{
  g_autofree char *file = g_strconcat (name, ".xml", NULL);
  g_autofree char *path = g_build_filename (folder, "dbus-1", "interfaces", file, NULL);
  g_autoptr(GError) error = NULL;
  g_autofree char *xml = NULL;
  LlmctlNode *node;
  gsize length = 0;

  xml = read_file (path, &length);
  if (xml == NULL)
    return NULL;

  node = llmctl_node_parse (xml, length, &error);
  if (node == NULL)
    g_debug ("%s: %s", path, error->message);
  return node;
}

/* (nullable) (transfer none): what the first of the installed files of this name says.
 * @name is the name of an interface, so it can't lead out of the folder. */
static const LlmctlNode *
load (const char *name)
{
  static GHashTable *nodes;   /* (element-type utf8 LlmctlNode) (owned), for the process */
  const char *const *folders = g_get_system_data_dirs ();
  LlmctlNode *node;

  if (nodes == NULL)
    nodes = g_hash_table_new (g_str_hash, g_str_equal);
  if (g_hash_table_contains (nodes, name))
    return g_hash_table_lookup (nodes, name);

  node = load_from (g_get_user_data_dir (), name);
  for (gsize i = 0; node == NULL && folders[i] != NULL; i++)
    node = load_from (folders[i], name);
  if (node == NULL)
    node = load_from (LLM_DATADIR, name);
  g_hash_table_insert (nodes, g_strdup (name), node);

  return node;
}

const LlmctlNode *
llmctl_docs_get_node (void)
{
  static LlmctlNode *empty;
  const LlmctlNode *node = load (SERVICE_FILE);

  if (node == NULL && empty == NULL)
    empty = llmctl_node_parse ("<node/>", strlen ("<node/>"), NULL);
  return node != NULL ? node : empty;
}

const LlmctlInterface *
llmctl_docs_find_interface (const char *name)
{
  g_autofree char *file = g_strdup (name);

  if (!g_dbus_is_interface_name (name))
    return NULL;

  /* One file has several interfaces: it is called as what their names begin with. */
  while (strchr (file, '.') != NULL)
    {
      const LlmctlNode *node = load (file);
      const LlmctlInterface *interface = node != NULL ? llmctl_node_find_interface (node, name)
                                                      : NULL;

      if (interface != NULL)
        return interface;
      *strrchr (file, '.') = '\0';
    }

  return NULL;
}

const LlmctlInterface *
llmctl_docs_find_method (const char *method)
{
  const LlmctlNode *node = llmctl_docs_get_node ();

  for (guint i = 0; i < node->interfaces->len; i++)
    {
      const LlmctlInterface *interface = g_ptr_array_index (node->interfaces, i);

      if (llmctl_interface_find (interface, LLMCTL_MEMBER_METHOD, method) != NULL)
        return interface;
    }

  return NULL;
}

static void
fill (char       **own,
      const char  *installed)
{
  if ((*own == NULL || **own == '\0') && installed != NULL)
    {
      g_free (*own);
      *own = g_strdup (installed);
    }
}

static void
add_to_arguments (GPtrArray       *own,
                  const GPtrArray *installed)
{
  for (guint i = 0; i < own->len && i < installed->len; i++)
    {
      LlmctlArgument *argument = g_ptr_array_index (own, i);
      const LlmctlArgument *other = g_ptr_array_index (installed, i);

      /* The file may be of another version than the service. */
      if (strcmp (argument->type, other->type) != 0)
        return;
      fill (&argument->name, other->name);
      fill (&argument->help, other->help);
    }
}

void
llmctl_docs_add (LlmctlNode *node)
{
  for (guint i = 0; i < node->interfaces->len; i++)
    {
      LlmctlInterface *interface = g_ptr_array_index (node->interfaces, i);
      const LlmctlInterface *installed = llmctl_docs_find_interface (interface->name);

      if (installed == NULL)
        continue;
      fill (&interface->summary, installed->summary);
      fill (&interface->help, installed->help);
      for (guint j = 0; j < interface->members->len; j++)
        {
          LlmctlMember *member = g_ptr_array_index (interface->members, j);
          const LlmctlMember *other = llmctl_interface_find (installed, member->kind, member->name);

          if (other == NULL)
            continue;
          fill (&member->help, other->help);
          add_to_arguments (member->in, other->in);
          add_to_arguments (member->out, other->out);
        }
    }
}
