/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "fuzz/fuzz-bus-world.h"

#include <gio/gunixfdlist.h>

#include "common/llmsvc-names.h"

#define MAX_PATHS 64
#define CALL_TIMEOUT_MS 120000

static const char *const roots[FUZZ_BUS_N_KINDS] = {
  [FUZZ_BUS_MANAGER] = LLMSVC_PATH,
  [FUZZ_BUS_MODELS] = LLMSVC_MODELS_PATH,
  [FUZZ_BUS_MODEL] = LLMSVC_MODELS_PATH "/",
  [FUZZ_BUS_CONTEXTS] = LLMSVC_CONTEXTS_PATH,
  [FUZZ_BUS_CONTEXT] = LLMSVC_CONTEXTS_PATH "/",
  [FUZZ_BUS_GENERATIONS] = LLMSVC_GENERATIONS_PATH,
  [FUZZ_BUS_GENERATION] = LLMSVC_GENERATIONS_PATH "/",
};

static void
method_free (gpointer data)
{
  FuzzBusMethod *method = data;

  g_free (method->interface);
  g_free (method->name);
  g_ptr_array_unref (method->in);
  g_free (method->out);
  g_free (method);
}

static void
add_method (FuzzBusWorld          *self,
            FuzzBusKind            kind,
            const char            *interface,
            const GDBusMethodInfo *info)
{
  FuzzBusMethod *method = g_new0 (FuzzBusMethod, 1);
  GString *out = g_string_new ("(");

  method->interface = g_strdup (interface);
  method->name = g_strdup (info->name);
  method->in = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; info->in_args != NULL && info->in_args[i] != NULL; i++)
    g_ptr_array_add (method->in, g_strdup (info->in_args[i]->signature));
  for (guint i = 0; info->out_args != NULL && info->out_args[i] != NULL; i++)
    g_string_append (out, info->out_args[i]->signature);
  g_string_append_c (out, ')');
  method->out = g_string_free (out, FALSE);
  g_ptr_array_add (self->methods[kind], method);
}

static void
add_name (GPtrArray  *names,
          const char *name)
{
  if (!g_ptr_array_find_with_equal_func (names, name, g_str_equal, NULL))
    g_ptr_array_add (names, g_strdup (name));
}

/* Its methods; and the nodes below it, as paths. */
static gboolean
introspect (FuzzBusWorld    *self,
            GDBusConnection *connection,
            FuzzBusKind      kind,
            const char      *path,
            GError         **error)
{
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GDBusNodeInfo) node = NULL;
  const char *xml;

  reply = g_dbus_connection_call_sync (connection, LLMSVC_BUS_NAME, path,
                                       "org.freedesktop.DBus.Introspectable", "Introspect", NULL,
                                       G_VARIANT_TYPE ("(s)"), G_DBUS_CALL_FLAGS_NONE,
                                       CALL_TIMEOUT_MS, NULL, error);
  if (reply == NULL)
    return FALSE;
  g_variant_get (reply, "(&s)", &xml);
  node = g_dbus_node_info_new_for_xml (xml, error);
  if (node == NULL)
    return FALSE;

  for (guint i = 0; node->interfaces != NULL && node->interfaces[i] != NULL; i++)
    {
      const GDBusInterfaceInfo *interface = node->interfaces[i];

      add_name (self->interfaces, interface->name);
      for (guint m = 0; interface->methods != NULL && interface->methods[m] != NULL; m++)
        add_method (self, kind, interface->name, interface->methods[m]);
      for (guint p = 0; interface->properties != NULL && interface->properties[p] != NULL; p++)
        add_name (self->properties, interface->properties[p]->name);
    }
  for (guint i = 0; node->nodes != NULL && node->nodes[i] != NULL; i++)
    {
      g_autofree char *child = g_strconcat (path, "/", node->nodes[i]->path, NULL);

      if (node->nodes[i]->path != NULL)
        fuzz_bus_world_add_path (self, child);
    }
  return TRUE;
}

/* (transfer full): the new context's path */
static char *
make_context (GDBusConnection *connection,
              GError         **error)
{
  g_autoptr(GVariant) reply =
    g_dbus_connection_call_sync (connection, LLMSVC_BUS_NAME, LLMSVC_PATH, LLMSVC_INTERFACE,
                                 "CreateContext", g_variant_new ("(a{sv})", NULL),
                                 G_VARIANT_TYPE ("(o)"), G_DBUS_CALL_FLAGS_NONE, CALL_TIMEOUT_MS,
                                 NULL, error);
  char *path = NULL;

  if (reply != NULL)
    g_variant_get (reply, "(o)", &path);
  return path;
}

/* (transfer full): the path of an answer, whose stream is closed at once: it can be asked about
 * for a while. */
static char *
make_generation (GDBusConnection *connection,
                 const char      *context,
                 GError         **error)
{
  g_autoptr(GUnixFDList) fds = NULL;
  g_autoptr(GVariant) reply = NULL;
  GVariantBuilder messages, options;
  char *path = NULL;

  g_variant_builder_init (&messages, G_VARIANT_TYPE ("a(ssa{sv})"));
  g_variant_builder_add (&messages, "(ssa{sv})", "user", "Hello", NULL);
  g_variant_builder_init (&options, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&options, "{sv}", "max-tokens", g_variant_new_uint32 (2));
  reply = g_dbus_connection_call_with_unix_fd_list_sync (
    connection, LLMSVC_BUS_NAME, context, LLMSVC_CONTEXT_INTERFACE, "Generate",
    g_variant_new ("(a(ssa{sv})a{sv})", &messages, &options), G_VARIANT_TYPE ("(oh)"),
    G_DBUS_CALL_FLAGS_NONE, CALL_TIMEOUT_MS, NULL, &fds, NULL, error);
  if (reply != NULL)
    g_variant_get (reply, "(oh)", &path, NULL);
  return path;
}

FuzzBusWorld *
fuzz_bus_world_new (GDBusConnection *connection,
                    GError         **error)
{
  g_autoptr(FuzzBusWorld) self = g_new0 (FuzzBusWorld, 1);
  g_autofree char *context = NULL;
  g_autofree char *generation = NULL;

  for (guint kind = 0; kind < FUZZ_BUS_N_KINDS; kind++)
    {
      self->methods[kind] = g_ptr_array_new_with_free_func (method_free);
      self->paths[kind] = g_ptr_array_new_with_free_func (g_free);
    }
  self->properties = g_ptr_array_new_with_free_func (g_free);
  self->interfaces = g_ptr_array_new_with_free_func (g_free);
  for (guint kind = 0; kind < FUZZ_BUS_N_KINDS; kind++)
    if (!g_str_has_suffix (roots[kind], "/"))
      {
        g_ptr_array_add (self->paths[kind], g_strdup (roots[kind]));
        if (!introspect (self, connection, kind, roots[kind], error))
          return NULL;
      }

  context = make_context (connection, error);
  if (context == NULL || !introspect (self, connection, FUZZ_BUS_CONTEXT, context, error))
    return NULL;
  fuzz_bus_world_add_path (self, context);
  generation = make_generation (connection, context, error);
  if (generation == NULL || !introspect (self, connection, FUZZ_BUS_GENERATION, generation, error))
    return NULL;
  fuzz_bus_world_add_path (self, generation);
  if (self->paths[FUZZ_BUS_MODEL]->len > 0 &&
      !introspect (self, connection, FUZZ_BUS_MODEL,
                   g_ptr_array_index (self->paths[FUZZ_BUS_MODEL], 0), error))
    return NULL;
  return g_steal_pointer (&self);
}

void
fuzz_bus_world_free (FuzzBusWorld *self)
{
  if (self == NULL)
    return;
  for (guint kind = 0; kind < FUZZ_BUS_N_KINDS; kind++)
    {
      g_ptr_array_unref (self->methods[kind]);
      g_ptr_array_unref (self->paths[kind]);
    }
  g_ptr_array_unref (self->properties);
  g_ptr_array_unref (self->interfaces);
  g_free (self);
}

void
fuzz_bus_world_add_path (FuzzBusWorld *self,
                         const char   *path)
{
  for (guint kind = 0; kind < FUZZ_BUS_N_KINDS; kind++)
    {
      GPtrArray *paths = self->paths[kind];

      if (!g_str_has_suffix (roots[kind], "/") || !g_str_has_prefix (path, roots[kind]) ||
          g_ptr_array_find_with_equal_func (paths, path, g_str_equal, NULL))
        continue;
      if (paths->len >= MAX_PATHS)
        g_ptr_array_remove_index (paths, 0);
      g_ptr_array_add (paths, g_strdup (path));
    }
}

void
fuzz_bus_world_drop_path (FuzzBusWorld *self,
                          const char   *path)
{
  for (guint kind = 0; kind < FUZZ_BUS_N_KINDS; kind++)
    {
      guint index;

      if (g_str_has_suffix (roots[kind], "/") &&
          g_ptr_array_find_with_equal_func (self->paths[kind], path, g_str_equal, &index))
        g_ptr_array_remove_index (self->paths[kind], index);
    }
}

void
fuzz_bus_world_forget (FuzzBusWorld *self)
{
  g_ptr_array_set_size (self->paths[FUZZ_BUS_CONTEXT], 0);
  g_ptr_array_set_size (self->paths[FUZZ_BUS_GENERATION], 0);
}
