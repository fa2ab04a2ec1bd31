/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The folders of models while the service runs: what comes, goes, or can't be used. */

#include <fcntl.h>
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "bus-rig.h"
#include "support/llm-test-folder.h"

#define DEMO "llmsvc-demo-8M-Q8_0"
#define SHORT "{'max-tokens': <uint32 4>, 'temperature': <0.0>}"
#define OBJECT_MANAGER "org.freedesktop.DBus.ObjectManager"

typedef struct
{
  BusRig *rig;
  GDBusConnection *app;
  char *folder;         /* of models */
  char *later;          /* another one, in a folder that is not there */
  char *demo;           /* the content of a model that can be used */
  gsize length;
  GHashTable *listed;   /* (element-type utf8 GVariant) (owned): Info by Id, as signals told */
  guint subscriptions[2];
} Fixture;

static void
take (Fixture  *fixture,
      GVariant *interfaces)
{
  g_autoptr(GVariant) properties =
    g_variant_lookup_value (interfaces, LLMSVC_MODEL_INTERFACE, G_VARIANT_TYPE_VARDICT);

  g_assert_nonnull (properties);
  g_hash_table_replace (fixture->listed, bus_lookup_s (properties, "Id"),
                        g_variant_lookup_value (properties, "Info", G_VARIANT_TYPE_VARDICT));
}

static void
on_signal (GDBusConnection *connection,
           const char      *sender,
           const char      *path,
           const char      *interface,
           const char      *name,
           GVariant        *arguments,
           gpointer         data)
{
  Fixture *fixture = data;

  if (g_str_equal (name, "InterfacesAdded"))
    {
      g_autoptr(GVariant) interfaces = g_variant_get_child_value (arguments, 1);

      take (fixture, interfaces);
    }
  else
    {
      const char *object;

      /* these ids are letters */
      g_variant_get_child (arguments, 0, "&o", &object);
      g_hash_table_remove (fixture->listed, strrchr (object, '/') + 1);
    }
}

/* What the service answers now, instead of what its signals told. */
static void
list (Fixture *fixture)
{
  g_autoptr(GVariant) managed = bus_call_ok (fixture->app, LLMSVC_MODELS_PATH, OBJECT_MANAGER,
                                             "GetManagedObjects", NULL);
  g_autoptr(GVariant) objects = g_variant_get_child_value (managed, 0);
  GVariantIter iter;
  GVariant *interfaces;

  g_hash_table_remove_all (fixture->listed);
  g_variant_iter_init (&iter, objects);
  while (g_variant_iter_loop (&iter, "{o@a{sa{sv}}}", NULL, &interfaces))
    take (fixture, interfaces);
}

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  static const char *const names[] = { "InterfacesAdded", "InterfacesRemoved" };
  g_autofree char *path = g_build_filename (g_getenv ("LLM_MODEL_DIR"), DEMO ".gguf", NULL);
  g_autofree char *config = NULL;

  fixture->folder = llm_test_folder_new ();
  fixture->later = g_build_filename (fixture->folder, "sub", "later", NULL);
  g_assert_true (g_file_get_contents (path, &fixture->demo, &fixture->length, NULL));
  fixture->listed = g_hash_table_new_full (g_str_hash, g_str_equal, g_free,
                                           (GDestroyNotify) g_variant_unref);
  config = g_strdup_printf ("[model]\nfolders=%s;%s\n", fixture->folder, fixture->later);
  fixture->rig = bus_rig_new (NULL, config);
  fixture->app = bus_rig_connect (fixture->rig);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    fixture->subscriptions[i] = g_dbus_connection_signal_subscribe (
      fixture->app, NULL, OBJECT_MANAGER, names[i], LLMSVC_MODELS_PATH, NULL,
      G_DBUS_SIGNAL_FLAGS_NONE, on_signal, fixture, NULL);
  list (fixture);
  g_assert_true (g_hash_table_contains (fixture->listed, DEMO));
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  for (guint i = 0; i < G_N_ELEMENTS (fixture->subscriptions); i++)
    g_dbus_connection_signal_unsubscribe (fixture->app, fixture->subscriptions[i]);
  g_object_unref (fixture->app);
  bus_rig_free (fixture->rig);
  llm_test_folder_remove (fixture->folder);
  g_hash_table_unref (fixture->listed);
  g_free (fixture->folder);
  g_free (fixture->later);
  g_free (fixture->demo);
}

/* @flags: of open(), with O_WRONLY */
static void
write_bytes (const char *folder,
             const char *name,
             int         flags,
             const char *bytes,
             gsize       length)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  int fd = open (path, flags | O_WRONLY | O_CLOEXEC, 0600);

  g_assert_cmpint (fd, >=, 0);
  for (gsize at = 0; at < length;)
    {
      ssize_t n = write (fd, bytes + at, length - at);

      g_assert_cmpint (n, >, 0);
      at += (gsize) n;
    }
  close (fd);
}

typedef struct
{
  Fixture *fixture;
  const char *id;
  const char *expected;   /* (nullable): a part of the reason, "" for none; NULL: gone */
} Expected;

static gboolean
is_as_expected (gpointer data)
{
  Expected *expected = data;
  GVariant *info = g_hash_table_lookup (expected->fixture->listed, expected->id);
  g_autofree char *reason = NULL;
  gboolean is_usable;

  if (info == NULL || expected->expected == NULL)
    return info == NULL && expected->expected == NULL;
  g_assert_true (g_variant_lookup (info, "usable", "b", &is_usable));
  reason = bus_lookup_s (info, "reason");
  g_assert_cmpint (is_usable, ==, *reason == '\0');
  return *expected->expected != '\0' ? strstr (reason, expected->expected) != NULL : is_usable;
}

/* The signals tell of it first, then the list. */
static void
assert_listed (Fixture    *fixture,
               const char *id,
               const char *reason)
{
  Expected expected = { fixture, id, reason };

  bus_wait_until (is_as_expected, &expected);
  list (fixture);
  g_assert_true (is_as_expected (&expected));
}

static void
select_model (Fixture    *fixture,
              const char *id,
              const char *error_name,
              const char *reason)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = bus_call (fixture->app, NULL, "", "SelectModel",
                                        g_variant_new ("(s@a{sv})", id, bus_options ("{}")),
                                        &error);

  if (error_name == NULL)
    {
      g_assert_no_error (error);
      return;
    }
  bus_assert_error (error, error_name);
  g_assert_nonnull (strstr (error->message, reason));
}

static void
ask (Fixture *fixture)
{
  g_autoptr(GVariant) answer =
    bus_call_ok (fixture->app, NULL, "", "Complete",
                 g_variant_new ("(s@a{sv})", "Hello", bus_options (SHORT)));
}

static void
assert_active (Fixture    *fixture,
               const char *id)
{
  g_autoptr(GVariant) path = bus_get (fixture->app, NULL, "", "ActiveModel");
  g_autoptr(GVariant) active =
    bus_get (fixture->app, g_variant_get_string (path, NULL), ".Model", "Id");

  g_assert_cmpstr (g_variant_get_string (active, NULL), ==, id);
}

static void
test_come_and_go (Fixture      *fixture,
                  gconstpointer data)
{
  g_autofree char *copy = g_build_filename (fixture->folder, "copy.gguf", NULL);
  g_autofree char *moved = g_build_filename (fixture->folder, "moved.gguf", NULL);
  g_autofree char *sub = g_path_get_dirname (fixture->later);

  write_bytes (fixture->folder, "copy.gguf", O_CREAT, fixture->demo, fixture->length);
  assert_listed (fixture, "copy", "");
  g_assert_cmpint (g_rename (copy, moved), ==, 0);
  assert_listed (fixture, "copy", NULL);
  assert_listed (fixture, "moved", "");
  g_assert_cmpint (g_unlink (moved), ==, 0);
  assert_listed (fixture, "moved", NULL);

  /* a folder that was not there, twice */
  for (guint i = 0; i < 2; i++)
    {
      g_assert_cmpint (g_mkdir_with_parents (fixture->later, 0700), ==, 0);
      write_bytes (fixture->later, "late.gguf", O_CREAT, fixture->demo, fixture->length);
      assert_listed (fixture, "late", "");
      llm_test_folder_remove (sub);
      assert_listed (fixture, "late", NULL);
    }
}

/* A copy under way can't be used until it is complete, then without being asked for. */
static void
test_copy (Fixture      *fixture,
           gconstpointer data)
{
  gsize half = fixture->length / 2;

  write_bytes (fixture->folder, "copy.gguf", O_CREAT, fixture->demo, half);
  assert_listed (fixture, "copy", "copy.gguf");
  select_model (fixture, "copy", "InvalidModel", "copy.gguf");
  assert_active (fixture, DEMO);
  write_bytes (fixture->folder, "copy.gguf", O_APPEND, fixture->demo + half,
               fixture->length - half);
  assert_listed (fixture, "copy", "");
  select_model (fixture, "copy", NULL, NULL);
  assert_active (fixture, "copy");
}

static void
test_unusable (Fixture      *fixture,
               gconstpointer data)
{
  g_autofree char *link = g_build_filename (fixture->folder, "link.gguf", NULL);
  g_autofree char *strange = g_memdup2 (fixture->demo, fixture->length);
  char *key = memmem (strange, fixture->length, "general.architecture", 20);
  char *value = memmem (key, 64, "llama", 5);

  memcpy (value, "other", 5);
  write_bytes (fixture->folder, "strange.gguf", O_CREAT, strange, fixture->length);
  assert_listed (fixture, "strange", "other");
  select_model (fixture, "strange", "Unsupported", "other");

  write_bytes (fixture->folder, "text.gguf", O_CREAT, "no model", 8);
  assert_listed (fixture, "text", "text.gguf");
  select_model (fixture, "text", "InvalidModel", "text.gguf");

  g_assert_cmpint (symlink ("nowhere", link), ==, 0);
  assert_listed (fixture, "link", "link.gguf");
  select_model (fixture, "link", "NotFound", "link.gguf");

  /* what was wrong is repaired */
  write_bytes (fixture->folder, "text.gguf", O_TRUNC, fixture->demo, fixture->length);
  assert_listed (fixture, "text", "");
  assert_active (fixture, DEMO);
  ask (fixture);
}

/* The loaded model answers and is listed until it is unloaded; then the next one is in use. */
static void
test_loaded (Fixture      *fixture,
             gconstpointer data)
{
  g_autofree char *copy = g_build_filename (fixture->folder, "copy.gguf", NULL);
  g_autoptr(GVariant) trimmed = NULL;

  write_bytes (fixture->folder, "copy.gguf", O_CREAT, fixture->demo, fixture->length);
  assert_listed (fixture, "copy", "");
  select_model (fixture, "copy", NULL, NULL);
  g_assert_cmpint (g_unlink (copy), ==, 0);
  /* of the unlinking nothing is told; when this is, it was seen as well */
  write_bytes (fixture->folder, "other.gguf", O_CREAT, fixture->demo, fixture->length);
  assert_listed (fixture, "other", "");
  assert_listed (fixture, "copy", "");
  assert_active (fixture, "copy");
  ask (fixture);
  select_model (fixture, "copy", "NotFound", "copy");

  trimmed = bus_call_ok (fixture->app, NULL, ".Memory", "Trim",
                         g_variant_new ("(s@a{sv})", "critical", bus_options ("{}")));
  assert_listed (fixture, "copy", NULL);
  assert_active (fixture, DEMO);
  ask (fixture);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add ("/bus/models/come-and-go", Fixture, NULL, set_up, test_come_and_go, tear_down);
  g_test_add ("/bus/models/copy", Fixture, NULL, set_up, test_copy, tear_down);
  g_test_add ("/bus/models/unusable", Fixture, NULL, set_up, test_unusable, tear_down);
  g_test_add ("/bus/models/loaded", Fixture, NULL, set_up, test_loaded, tear_down);

  return g_test_run ();
}
