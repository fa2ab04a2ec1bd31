/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/identity/llm-bus-caller.h"

#include <gio/gunixfdlist.h>
#include <glib/gstdio.h>
#include <string.h>

#include "base/llm-fail.h"
#include "bus/identity/llm-bus-identity.h"
#include "common/llmsvc-error-private.h"

#define BUS_NAME "org.freedesktop.DBus"
#define BUS_PATH "/org/freedesktop/DBus"
#define BUS_TIMEOUT_MS 10000
/* Threads that read files for look-ups of one user at once; further look-ups wait. */
#define MAX_USER_LOOKUPS 2

struct _LlmBusCallers
{
  GDBusConnection *connection;
  LlmBusGate *gate;     /* (unowned) */
  LlmBusCallerIdentified identified;
  LlmBusCallerGone gone;
  gpointer data;
  char *proc_root;
  GStrv desktop_folders;
  guint subscription;
  GHashTable *entries;  /* (element-type utf8 Entry) (owned), by unique name */
  GHashTable *users;    /* (element-type guint UserLookups) (owned), by uid: where some are under
                         * way */
};

typedef struct
{
  guint n_running;
  GQueue waiting;       /* (element-type Entry) (owned) */
} UserLookups;

typedef struct
{
  LlmBusCallerFound found;
  gpointer data;
} Waiter;

/* Reference-counted: by the table, and by a look-up on its way. */
typedef struct
{
  LlmBusCallers *callers;  /* (owned) */
  char *sender;
  LlmCaller *caller;       /* (nullable) until it is resolved */
  GArray *waiters;         /* (element-type Waiter) in the order of their calls; NULL once it is
                            * resolved, or gone */
  gboolean is_settled;
  gboolean is_registered;
  char *locale;            /* (nullable): as registered */

  /* results of the look-up */
  guint32 uid;
  LlmBusProcess process;   /* its label is owned; its pidfd, until the look-up ends */
  LlmCallerKind kind;
  char *app_id;            /* (nullable) */
} Entry;

static void
clear_callers (gpointer data)
{
  LlmBusCallers *self = data;

  g_hash_table_unref (self->entries);
  g_hash_table_unref (self->users);
  g_free (self->proc_root);
  g_strfreev (self->desktop_folders);
  g_object_unref (self->connection);
}

static void
clear_entry (gpointer data)
{
  Entry *entry = data;

  g_rc_box_release_full (entry->callers, clear_callers);
  g_clear_pointer (&entry->caller, llm_caller_unref);
  g_free ((char *) entry->process.label);
  g_free (entry->sender);
  g_free (entry->locale);
  g_free (entry->app_id);
}

static void
entry_unref (Entry *entry)
{
  g_rc_box_release_full (entry, clear_entry);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Entry, entry_unref)

static void
drop_entry (gpointer data)
{
  Entry *entry = data;

  g_clear_pointer (&entry->waiters, g_array_unref);
  entry_unref (entry);
}

/* Calls all waiters. A waiter may call back into the registry, so it must not see a half-done list,
 * and each sees what the one before it has registered. With @failure the entry is removed first, so
 * that a later call tries again. */
static void
answer_waiters (Entry        *entry,
                const GError *failure)
{
  g_autoptr(Entry) owned = g_rc_box_acquire (entry);
  g_autoptr(GArray) waiters = g_steal_pointer (&entry->waiters);

  if (failure != NULL)
    g_hash_table_remove (entry->callers->entries, entry->sender);
  for (guint i = 0; i < waiters->len; i++)
    {
      Waiter *waiter = &g_array_index (waiters, Waiter, i);
      g_autoptr(LlmCaller) caller = failure == NULL ? llm_caller_ref (entry->caller) : NULL;

      waiter->found (caller, failure, waiter->data);
    }
}

/* The name under which the application is counted. An unknown caller may be a sandboxed one: it
 * shares no name with others. No registered id has a colon, or begins like a sandboxed one. */
static char *
make_app_id (Entry *entry)
{
  if (entry->kind == LLM_CALLER_UNKNOWN)
    return g_strconcat ("unknown", entry->sender, NULL);
  if (entry->kind == LLM_CALLER_FLATPAK)
    return g_strconcat (LLM_BUS_FLATPAK_PREFIX, entry->app_id, NULL);

  return g_strdup (entry->app_id != NULL ? entry->app_id : "");
}

/* @error: (nullable): why the application is unknown. */
static void
end_lookup (Entry        *entry,
            const GError *error)
{
  LlmBusCallers *self = entry->callers;
  g_autoptr(GError) failure = error != NULL ? g_error_copy (error) : NULL;
  g_autofree char *app_id = NULL;

  if (entry->process.pidfd >= 0)
    g_close (entry->process.pidfd, NULL);
  entry->process.pidfd = -1;
  if (entry->waiters == NULL)
    return;

  if (failure != NULL)
    llmsvc_error_convert (&failure);
  else
    {
      app_id = make_app_id (entry);
      entry->caller = llm_caller_new (entry->uid, app_id, entry->sender, entry->kind);
      self->identified (entry->caller, self->data);
    }
  answer_waiters (entry, failure);
}

static void
on_verified (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  g_autoptr(Entry) entry = data;
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply =
    g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &error);
  guint32 pid = 0;

  if (reply != NULL)
    g_variant_get (reply, "(u)", &pid);
  if (pid != entry->process.pid)
    entry->kind = LLM_CALLER_UNKNOWN;
  end_lookup (entry, error);
}

static void start_reading (Entry *entry);

static void
free_lookups (gpointer data)
{
  UserLookups *user = data;

  g_queue_clear_full (&user->waiting, (GDestroyNotify) entry_unref);
  g_free (user);
}

/* A look-up of the user has read its files: starts the next one. */
static void
go_on (LlmBusCallers *self,
       guint32        uid)
{
  UserLookups *user = g_hash_table_lookup (self->users, GUINT_TO_POINTER (uid));
  g_autoptr(Entry) next = user != NULL ? g_queue_pop_head (&user->waiting) : NULL;

  if (next != NULL)
    start_reading (next);
  else if (user != NULL && --user->n_running == 0)
    g_hash_table_remove (self->users, GUINT_TO_POINTER (uid));
}

/* If a connection is still there after its process's files were read, the process was still there,
 * too: no other process had its number meanwhile. A pidfd makes this check unnecessary. */
static void
on_identity_read (GObject      *source,
                  GAsyncResult *result,
                  gpointer      data)
{
  g_autoptr(Entry) entry = data;

  go_on (entry->callers, entry->uid);
  if (entry->kind == LLM_CALLER_UNKNOWN || entry->process.pidfd >= 0)
    {
      end_lookup (entry, NULL);
      return;
    }

  g_dbus_connection_call (entry->callers->connection, BUS_NAME, BUS_PATH, BUS_NAME,
                          "GetConnectionUnixProcessID", g_variant_new ("(s)", entry->sender),
                          G_VARIANT_TYPE ("(u)"), G_DBUS_CALL_FLAGS_NONE, BUS_TIMEOUT_MS, NULL,
                          on_verified, g_rc_box_acquire (entry));
}

static void
read_identity (GTask        *task,
               gpointer      source,
               gpointer      data,
               GCancellable *cancellable)
{
  Entry *entry = data;

  entry->kind = llm_bus_identity_read (&entry->process, &entry->app_id);
  g_task_return_boolean (task, TRUE);
}

static void
start_reading (Entry *entry)
{
  g_autoptr(GTask) task = g_task_new (NULL, NULL, on_identity_read, g_rc_box_acquire (entry));

  g_task_set_task_data (task, entry, NULL);
  g_task_run_in_thread (task, read_identity);
}

/* Files of many processes may be slow to read: they delay only other processes of the same user. */
static void
begin_reading (Entry *entry)
{
  LlmBusCallers *self = entry->callers;
  UserLookups *user = g_hash_table_lookup (self->users, GUINT_TO_POINTER (entry->uid));

  if (user == NULL)
    {
      user = g_new0 (UserLookups, 1);
      g_queue_init (&user->waiting);
      g_hash_table_insert (self->users, GUINT_TO_POINTER (entry->uid), user);
    }
  if (user->n_running == MAX_USER_LOOKUPS)
    {
      g_queue_push_tail (&user->waiting, g_rc_box_acquire (entry));
      return;
    }
  user->n_running++;
  start_reading (entry);
}

/* The process's own descriptor, where the bus has one: dbus-daemon since 1.16. -1 for none. */
static int
take_pidfd (GVariant    *credentials,
            GUnixFDList *fds)
{
  gint32 index;

  if (fds == NULL || !g_variant_lookup (credentials, "ProcessFD", "h", &index) || index < 0 ||
      index >= g_unix_fd_list_get_length (fds))
    return -1;

  return g_unix_fd_list_get (fds, index, NULL);
}

static void
on_credentials (GObject      *source,
                GAsyncResult *result,
                gpointer      data)
{
  g_autoptr(Entry) entry = data;
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) credentials = NULL;
  g_autoptr(GVariant) label = NULL;
  g_autoptr(GUnixFDList) fds = NULL;
  g_autoptr(GVariant) reply = g_dbus_connection_call_with_unix_fd_list_finish (
    G_DBUS_CONNECTION (source), &fds, result, &error);

  if (reply != NULL)
    credentials = g_variant_get_child_value (reply, 0);
  if (reply != NULL && !g_variant_lookup (credentials, "UnixUserID", "u", &entry->uid))
    llm_fail (&error, LLMSVC_ERROR_NOT_AUTHORIZED, "The bus does not know the user of %s",
              entry->sender);
  if (error != NULL ||
      !g_variant_lookup (credentials, "ProcessID", "u", &entry->process.pid) ||
      entry->process.pid == 0)
    {
      end_lookup (entry, error);
      return;
    }
  entry->process.pidfd = take_pidfd (credentials, fds);
  label = g_variant_lookup_value (credentials, "LinuxSecurityLabel", G_VARIANT_TYPE_BYTESTRING);
  if (label != NULL)
    entry->process.label = g_variant_dup_bytestring (label, NULL);

  begin_reading (entry);
}

static void
on_name_owner_changed (GDBusConnection *connection,
                       const char      *sender,
                       const char      *path,
                       const char      *interface,
                       const char      *signal,
                       GVariant        *arguments,
                       gpointer         data)
{
  LlmBusCallers *self = data;
  g_autoptr(GError) error = NULL;
  const char *name, *new_owner;
  Entry *entry;

  if (!g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(sss)")))
    return;

  g_variant_get (arguments, "(&s&s&s)", &name, NULL, &new_owner);
  entry = g_hash_table_lookup (self->entries, name);
  if (name[0] != ':' || new_owner[0] != '\0' || entry == NULL)
    return;

  llm_fail (&error, LLMSVC_ERROR_CANCELLED, "The caller has left the bus");
  if (entry->waiters != NULL)
    answer_waiters (entry, error);
  else
    g_hash_table_remove (self->entries, name);
  self->gone (name, self->data);
}

LlmBusCallers *
llm_bus_callers_new (GDBusConnection        *connection,
                     LlmBusGate             *gate,
                     const char             *proc_root,
                     const char *const      *desktop_folders,
                     LlmBusCallerIdentified  identified,
                     LlmBusCallerGone        gone,
                     gpointer                data)
{
  LlmBusCallers *self = g_rc_box_new0 (LlmBusCallers);

  self->entries = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, drop_entry);
  self->users = g_hash_table_new_full (NULL, NULL, NULL, free_lookups);
  self->connection = g_object_ref (connection);
  self->gate = gate;
  self->proc_root = g_strdup (proc_root);
  self->desktop_folders = g_strdupv ((char **) desktop_folders);
  self->identified = identified;
  self->gone = gone;
  self->data = data;
  self->subscription =
    g_dbus_connection_signal_subscribe (connection, BUS_NAME, BUS_NAME, "NameOwnerChanged",
                                        BUS_PATH, NULL, G_DBUS_SIGNAL_FLAGS_NONE,
                                        on_name_owner_changed, self, NULL);
  return self;
}

void
llm_bus_callers_free (LlmBusCallers *self)
{
  g_dbus_connection_signal_unsubscribe (self->connection, self->subscription);
  /* look-ups under way then have no calls to answer */
  g_hash_table_remove_all (self->entries);
  g_hash_table_remove_all (self->users);
  g_rc_box_release_full (self, clear_callers);
}

void
llm_bus_callers_resolve (LlmBusCallers     *self,
                         const char        *sender,
                         LlmBusCallerFound  found,
                         gpointer           data)
{
  Waiter waiter = { found, data };
  Entry *entry = g_hash_table_lookup (self->entries, sender);
  g_autoptr(LlmCaller) caller = NULL;

  if (entry != NULL && entry->caller != NULL)
    {
      caller = llm_caller_ref (entry->caller);
      found (caller, NULL, data);
      return;
    }
  if (entry != NULL)
    {
      g_array_append_val (entry->waiters, waiter);
      return;
    }

  entry = g_rc_box_new0 (Entry);
  entry->callers = g_rc_box_acquire (self);
  entry->sender = g_strdup (sender);
  entry->waiters = g_array_new (FALSE, FALSE, sizeof (Waiter));
  entry->process = (LlmBusProcess) {
    .proc_root = self->proc_root,
    .pidfd = -1,
    .seen_us = llm_bus_gate_get_seen (self->gate, sender),
    .desktop_folders = (const char *const *) self->desktop_folders,
  };
  g_array_append_val (entry->waiters, waiter);
  g_hash_table_insert (self->entries, entry->sender, entry);
  g_dbus_connection_call_with_unix_fd_list (
    self->connection, BUS_NAME, BUS_PATH, BUS_NAME, "GetConnectionCredentials",
    g_variant_new ("(s)", sender), G_VARIANT_TYPE ("(a{sv})"), G_DBUS_CALL_FLAGS_NONE,
    BUS_TIMEOUT_MS, NULL, NULL, on_credentials, g_rc_box_acquire (entry));
}

void
llm_bus_callers_settle (LlmBusCallers *self,
                        const char    *sender)
{
  Entry *entry = g_hash_table_lookup (self->entries, sender);

  if (entry != NULL)
    entry->is_settled = TRUE;
}

static gboolean
check_registration (Entry       *entry,
                    guint32      uid,
                    const char  *app_id,
                    GError     **error)
{
  g_return_val_if_fail (entry != NULL && entry->caller != NULL, FALSE);

  if (!llm_bus_identity_is_app_id (app_id))
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "app_id must be the name of a desktop file without “.desktop”: at most "
                     "255 letters, digits, “.”, “_” and “-”, not beginning with “.” or “-”");
  if (llm_bus_identity_is_reserved (app_id))
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "“%s” begins like the name of an application in a sandbox, which nobody else "
                     "may have", app_id);
  if (entry->is_registered && entry->caller->app->uid == uid
      && g_str_equal (entry->caller->app->id, app_id))
    return TRUE;
  return (!entry->is_settled && !entry->is_registered) ||
         llm_fail (error, LLMSVC_ERROR_CONFLICT,
                   "Register “%s” before the first other call of a connection, and once", app_id);
}

gboolean
llm_bus_callers_register (LlmBusCallers  *self,
                          const char     *sender,
                          guint32         uid,
                          const char     *app_id,
                          const char     *locale,
                          GError        **error)
{
  Entry *entry;
  LlmCaller *old;

  entry = g_hash_table_lookup (self->entries, sender);
  if (!check_registration (entry, uid, app_id, error))
    return FALSE;

  old = entry->caller;
  entry->caller = llm_caller_new (uid, app_id, sender,
                                  old->kind == LLM_CALLER_ENDPOINT ? LLM_CALLER_DELEGATED
                                                                   : LLM_CALLER_REGISTERED);
  entry->is_registered = TRUE;
  llm_caller_unref (old);
  g_free (entry->locale);
  entry->locale = g_strdup (locale);
  self->identified (entry->caller, self->data);
  return TRUE;
}

const char *
llm_bus_callers_get_locale (LlmBusCallers *self,
                            const char    *sender)
{
  Entry *entry = g_hash_table_lookup (self->entries, sender);

  return entry != NULL ? entry->locale : NULL;
}

void
llm_bus_callers_announce (LlmBusCallers *self)
{
  GHashTableIter iter;
  Entry *entry;

  g_hash_table_iter_init (&iter, self->entries);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &entry))
    if (entry->caller != NULL)
      self->identified (entry->caller, self->data);
}

gboolean
llm_bus_callers_is_present (LlmBusCallers *self,
                            const char    *sender)
{
  return g_hash_table_contains (self->entries, sender);
}
