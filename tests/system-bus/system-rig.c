/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "system-rig.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/llmsvc-names.h"
#include "support/llm-test-folder.h"

#define ACCOUNTS "/etc/passwd"
#define POLKITD "/usr/lib/polkit-1/polkitd"
#define POLKIT_POLICY "/usr/share/dbus-1/system.d/org.freedesktop.PolicyKit1.conf"
#define POLKIT_ACTIONS "/usr/share/polkit-1/actions"
#define POLKIT_RULES "/etc/polkit-1/rules.d"
#define WAIT_STEP_US 5000
#define WAIT_MAX_US (30 * G_USEC_PER_SEC)

struct _SystemRig
{
  char *folder;
  char *socket;
  char *address;
  char *groups;           /* (nullable): a control group, for others below it */
  GPtrArray *made_groups; /* (element-type utf8) (owned) */
  guint n_made_roots;
  GSubprocess *bus;
  GSubprocess *polkit;    /* (nullable) */
  GSubprocess *daemon;
  GDBusConnection *own;
};

struct _SystemCaller
{
  GSubprocess *process;
  GDataInputStream *output;
  int pid;
  char *name;
};

/* What a machine's own system bus has, and no more. */
static const char bus_config[] =
  "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\" "
  "\"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n"
  "<busconfig><type>system</type><auth>EXTERNAL</auth><listen>unix:path=%s</listen>\n"
  "<policy context=\"default\"><allow user=\"*\"/><deny own=\"*\"/>"
  "<deny send_type=\"method_call\"/><allow send_type=\"signal\"/>"
  "<allow send_requested_reply=\"true\" send_type=\"method_return\"/>"
  "<allow send_requested_reply=\"true\" send_type=\"error\"/><allow receive_type=\"method_call\"/>"
  "<allow receive_type=\"method_return\"/><allow receive_type=\"error\"/>"
  "<allow receive_type=\"signal\"/><allow send_destination=\"org.freedesktop.DBus\" "
  "send_interface=\"org.freedesktop.DBus\"/></policy>\n"
  "<include>%s</include><include ignore_missing=\"yes\">" POLKIT_POLICY "</include></busconfig>\n";

static const char polkit_rules[] =
  "polkit.addRule(function (action, subject) {\n"
  "  if (action.id.indexOf('org.llm.Service.') == 0 && subject.user == 'trusted')\n"
  "    return polkit.Result.YES;\n"
  "});\n";

static char *
write_file (const char *folder,
            const char *name,
            const char *content)
{
  char *path = g_build_filename (folder, name, NULL);
  g_autoptr(GError) error = NULL;

  g_file_set_contents (path, content, -1, &error);
  g_assert_no_error (error);
  g_assert_cmpint (chmod (path, 0644), ==, 0);
  return path;
}

static char *
make_folder (const char *parent,
             const char *name)
{
  char *path = g_build_filename (parent, name, NULL);

  g_assert_cmpint (g_mkdir (path, 0755), ==, 0);
  return path;
}

/* Gives this process and its children accounts that the machine does not have: the first line of
 * a name is the one that counts. */
static gboolean
mount_accounts (SystemRig *self)
{
  static const struct
  {
    const char *name;
    int uid;
  } users[] = {
    { "llmsvc", RIG_SERVICE_UID },
    { "somebody", RIG_UID },
    { "another", RIG_OTHER_UID },
    { "trusted", RIG_TRUSTED_UID },
  };
  g_autoptr(GString) accounts = g_string_new (NULL);
  g_autofree char *others = NULL;
  g_autofree char *path = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (users); i++)
    g_string_append_printf (accounts, "%s:x:%d:%d::/nonexistent:/usr/sbin/nologin\n", users[i].name,
                            users[i].uid, users[i].uid);
  if (!g_file_get_contents (ACCOUNTS, &others, NULL, NULL))
    return FALSE;
  g_string_append (accounts, others);
  path = write_file (self->folder, "passwd", accounts->str);
  return mount (path, ACCOUNTS, NULL, MS_BIND, NULL) == 0;
}

static void
copy_file (const char *from,
           const char *to,
           int         mode)
{
  g_autoptr(GFile) source = g_file_new_for_path (from);
  g_autoptr(GFile) target = g_file_new_for_path (to);
  g_autoptr(GError) error = NULL;

  g_file_copy (source, target, G_FILE_COPY_NONE, NULL, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (chmod (to, (mode_t) mode), ==, 0);
}

/* A test that aborts takes its bus along, and all others end with that. */
static void
die_with_parent (gpointer data)
{
  prctl (PR_SET_PDEATHSIG, SIGTERM);
}

static GSubprocess *
start (SystemRig         *self,
       const char *const *arguments,
       gboolean           is_quiet)
{
  g_autoptr(GSubprocessLauncher) launcher =
    g_subprocess_launcher_new (is_quiet ? G_SUBPROCESS_FLAGS_STDOUT_SILENCE |
                                            G_SUBPROCESS_FLAGS_STDERR_SILENCE
                                        : G_SUBPROCESS_FLAGS_NONE);
  g_autoptr(GError) error = NULL;
  GSubprocess *process;

  g_subprocess_launcher_setenv (launcher, "DBUS_SYSTEM_BUS_ADDRESS", self->address, TRUE);
  g_subprocess_launcher_set_child_setup (launcher, die_with_parent, NULL, NULL);
  g_subprocess_launcher_unsetenv (launcher, "XDG_CACHE_HOME");
  g_subprocess_launcher_unsetenv (launcher, "MALLOC_PERTURB_");
  g_subprocess_launcher_setenv (launcher, "G_DEBUG", "fatal-criticals", TRUE);
  process = g_subprocess_launcher_spawnv (launcher, arguments, &error);
  g_assert_no_error (error);
  return process;
}

static void
stop (GSubprocess *process)
{
  g_subprocess_send_signal (process, SIGTERM);
  g_subprocess_wait (process, NULL, NULL);
  g_object_unref (process);
}

static gboolean
has_owner (SystemRig  *self,
           const char *name)
{
  g_autoptr(GVariant) reply = NULL;
  gboolean has = FALSE;

  reply = g_dbus_connection_call_sync (self->own, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                       "org.freedesktop.DBus", "NameHasOwner",
                                       g_variant_new ("(s)", name), NULL, G_DBUS_CALL_FLAGS_NONE,
                                       -1, NULL, NULL);
  if (reply != NULL)
    g_variant_get (reply, "(b)", &has);
  return has;
}

static gboolean
wait_for_name (SystemRig  *self,
               const char *name)
{
  for (gint64 waited_us = 0; waited_us < WAIT_MAX_US; waited_us += WAIT_STEP_US)
    {
      if (has_owner (self, name))
        return TRUE;
      g_usleep (WAIT_STEP_US);
    }

  return FALSE;
}

static void
start_bus (SystemRig *self)
{
  g_autofree char *config = NULL;
  g_autofree char *config_path = NULL;
  g_autofree char *argument = NULL;
  g_autoptr(GError) error = NULL;

  self->socket = g_build_filename (self->folder, "socket", NULL);
  self->address = g_strconcat ("unix:path=", self->socket, NULL);
  config = g_strdup_printf (bus_config, self->socket, g_getenv ("LLM_POLICY"));
  config_path = write_file (self->folder, "bus.conf", config);
  argument = g_strconcat ("--config-file=", config_path, NULL);
  self->bus = start (self, (const char *[]) { "dbus-daemon", "--nofork", argument, NULL }, FALSE);

  for (gint64 waited_us = 0; self->own == NULL && waited_us < WAIT_MAX_US;
       waited_us += WAIT_STEP_US)
    {
      g_clear_error (&error);
      g_usleep (WAIT_STEP_US);
      self->own =
        g_dbus_connection_new_for_address_sync (self->address,
                                                G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT |
                                                  G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
                                                NULL, NULL, &error);
    }
  g_assert_no_error (error);
}

/* Our actions and one rule, seen by this process and its children alone. */
static gboolean
mount_polkit (SystemRig *self)
{
  g_autofree char *actions = NULL;
  g_autofree char *action_file = NULL;
  g_autofree char *rules = NULL;
  g_autofree char *rule_file = NULL;

  if (!g_file_test (POLKIT_ACTIONS, G_FILE_TEST_IS_DIR) ||
      !g_file_test (POLKIT_RULES, G_FILE_TEST_IS_DIR))
    return FALSE;
  actions = make_folder (self->folder, "actions");
  rules = make_folder (self->folder, "rules.d");
  action_file = g_build_filename (actions, "org.llm.Service.policy", NULL);
  copy_file (g_getenv ("LLM_ACTIONS"), action_file, 0644);
  rule_file = write_file (rules, "10-test.rules", polkit_rules);
  return mount (actions, POLKIT_ACTIONS, NULL, MS_BIND, NULL) == 0 &&
         mount (rules, POLKIT_RULES, NULL, MS_BIND, NULL) == 0;
}

static void
start_polkit (SystemRig *self)
{
  if (!g_file_test (POLKITD, G_FILE_TEST_IS_EXECUTABLE) ||
      !g_file_test (POLKIT_POLICY, G_FILE_TEST_EXISTS) || !mount_polkit (self))
    return;
  self->polkit = start (self, (const char *[]) { POLKITD, "--no-debug", NULL }, TRUE);
  if (!wait_for_name (self, "org.freedesktop.PolicyKit1"))
    stop (g_steal_pointer (&self->polkit));
}

/* From copies: where the project lies need not be open to that user. */
static void
start_daemon (SystemRig *self)
{
  g_autofree char *model =
    g_build_filename (g_getenv ("LLM_MODEL_DIR"), "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_autofree char *model_copy = g_build_filename (self->folder, "model.gguf", NULL);
  g_autofree char *program = g_build_filename (self->folder, "llmsvcd", NULL);
  g_autofree char *state = make_folder (self->folder, "state");
  g_autofree char *cache = make_folder (self->folder, "cache");
  g_autofree char *config = write_file (self->folder, "llmsvc.conf", "[memory]\npressure=off\n");
  g_autofree char *uid = g_strdup_printf ("%d", RIG_SERVICE_UID);

  copy_file (model, model_copy, 0644);
  copy_file (g_getenv ("LLM_DAEMON"), program, 0755);
  g_assert_cmpint (chown (state, RIG_SERVICE_UID, RIG_SERVICE_UID), ==, 0);
  g_assert_cmpint (chown (cache, RIG_SERVICE_UID, RIG_SERVICE_UID), ==, 0);
  g_setenv ("CACHE_DIRECTORY", cache, TRUE);
  self->daemon = start (self,
                        (const char *[]) { "setpriv", "--reuid", uid, "--regid", uid,
                                          "--clear-groups", program, "--system", "--config", config,
                                          "--model", model_copy, "--state-dir", state, NULL },
                        FALSE);
  g_assert_true (wait_for_name (self, LLMSVC_BUS_NAME));
}

/* Where the unified hierarchy, or systemd's own of version 1, can be written. */
static char *
find_groups (void)
{
  g_autofree char *text = NULL;
  g_auto(GStrv) lines = NULL;

  g_file_get_contents ("/proc/self/mounts", &text, NULL, NULL);
  lines = g_strsplit (text != NULL ? text : "", "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_auto(GStrv) fields = g_strsplit (lines[i], " ", -1);
      g_autofree char *path = NULL;

      if (g_strv_length (fields) < 4 ||
          (!g_str_equal (fields[2], "cgroup2") &&
           !(g_str_equal (fields[2], "cgroup") && strstr (fields[3], "name=systemd") != NULL)))
        continue;
      path = g_strdup_printf ("%s/llmsvc-test-%d", fields[1], getpid ());
      if (g_mkdir (path, 0755) == 0)
        return g_steal_pointer (&path);
    }

  return NULL;
}

SystemRig *
system_rig_new (const char **why)
{
  SystemRig *self;
  g_autofree char *bus = g_find_program_in_path ("dbus-daemon");
  g_autofree char *setpriv = g_find_program_in_path ("setpriv");

  if (getuid () != 0)
    {
      *why = "it takes root to be several users";
      return NULL;
    }
  if (bus == NULL || setpriv == NULL)
    {
      *why = "there is no dbus-daemon or no setpriv";
      return NULL;
    }
  if (unshare (CLONE_NEWNS) != 0 || mount (NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    {
      *why = "no name space of mounts can be made";
      return NULL;
    }

  self = g_new0 (SystemRig, 1);
  self->folder = llm_test_folder_new ();
  g_assert_cmpint (chmod (self->folder, 0755), ==, 0);
  self->made_groups = g_ptr_array_new_with_free_func (g_free);
  self->groups = find_groups ();
  g_assert_true (mount_accounts (self));
  start_bus (self);
  start_polkit (self);
  start_daemon (self);
  return self;
}

void
system_rig_free (SystemRig *self)
{
  stop (self->daemon);
  if (self->polkit != NULL)
    stop (self->polkit);
  g_dbus_connection_close_sync (self->own, NULL, NULL);
  g_object_unref (self->own);
  stop (self->bus);
  umount (ACCOUNTS);
  umount (POLKIT_ACTIONS);
  umount (POLKIT_RULES);
  for (guint i = self->made_groups->len; i > 0; i--)
    g_rmdir (g_ptr_array_index (self->made_groups, i - 1));
  g_ptr_array_unref (self->made_groups);
  if (self->groups != NULL)
    g_rmdir (self->groups);
  g_free (self->groups);
  llm_test_folder_remove (self->folder);
  g_free (self->folder);
  g_free (self->socket);
  g_free (self->address);
  g_free (self);
}

gboolean
system_rig_has_polkit (SystemRig *self)
{
  return self->polkit != NULL;
}

gboolean
system_rig_has_groups (SystemRig *self)
{
  return self->groups != NULL;
}

char *
system_rig_make_group (SystemRig  *self,
                       const char *name)
{
  char *path = g_build_filename (self->groups, name, NULL);

  g_assert_cmpint (g_mkdir (path, 0755), ==, 0);
  g_ptr_array_add (self->made_groups, g_strdup (path));
  return path;
}

char *
system_rig_make_root (SystemRig  *self,
                      const char *app_id)
{
  g_autofree char *name = g_strdup_printf ("root-%u", self->n_made_roots++);
  char *folder = make_folder (self->folder, name);

  if (app_id != NULL)
    {
      g_autofree char *content = g_strdup_printf ("[Application]\nname=%s\n", app_id);
      g_autofree char *path = write_file (folder, ".flatpak-info", content);
    }

  return folder;
}

/* --- callers --- */

SystemCaller *
system_caller_new (SystemRig  *rig,
                   guint       uid,
                   const char *group,
                   const char *root,
                   gboolean    is_sandbox,
                   gboolean    leaves)
{
  SystemCaller *self = g_new0 (SystemCaller, 1);
  g_autofree char *uid_text = g_strdup_printf ("%u", uid);
  g_autofree char *line = NULL;
  g_autoptr(GPtrArray) arguments = g_ptr_array_new ();
  g_autoptr(GError) error = NULL;
  g_auto(GStrv) parts = NULL;

  g_ptr_array_add (arguments, (gpointer) g_getenv ("LLM_SYSTEM_CALLER"));
  g_ptr_array_add (arguments, (gpointer) "--socket");
  g_ptr_array_add (arguments, rig->socket);
  g_ptr_array_add (arguments, (gpointer) "--uid");
  g_ptr_array_add (arguments, uid_text);
  if (group != NULL)
    {
      g_ptr_array_add (arguments, (gpointer) "--group");
      g_ptr_array_add (arguments, (gpointer) group);
    }
  if (root != NULL)
    {
      g_ptr_array_add (arguments, (gpointer) "--root");
      g_ptr_array_add (arguments, (gpointer) root);
    }
  if (is_sandbox)
    g_ptr_array_add (arguments, (gpointer) "--sandbox");
  if (leaves)
    g_ptr_array_add (arguments, (gpointer) "--leave");
  g_ptr_array_add (arguments, NULL);

  self->process =
    g_subprocess_newv ((const char *const *) arguments->pdata,
                       G_SUBPROCESS_FLAGS_STDIN_PIPE | G_SUBPROCESS_FLAGS_STDOUT_PIPE, &error);
  g_assert_no_error (error);
  self->output = g_data_input_stream_new (g_subprocess_get_stdout_pipe (self->process));
  line = g_data_input_stream_read_line (self->output, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_nonnull (line);
  parts = g_strsplit (line, " ", 2);
  self->pid = atoi (parts[0]);
  self->name = g_strdup (parts[1]);
  return self;
}

/* The process ends with its input. */
void
system_caller_free (SystemCaller *self)
{
  g_autofree char *rest = NULL;

  g_output_stream_close (g_subprocess_get_stdin_pipe (self->process), NULL, NULL);
  rest = g_data_input_stream_read_line (self->output, NULL, NULL, NULL);
  g_subprocess_wait (self->process, NULL, NULL);
  g_object_unref (self->output);
  g_object_unref (self->process);
  g_free (self->name);
  g_free (self);
}

int
system_caller_get_pid (SystemCaller *self)
{
  return self->pid;
}

const char *
system_caller_get_name (SystemCaller *self)
{
  return self->name;
}

char *
system_call (SystemCaller *self,
             const char   *path,
             const char   *interface,
             const char   *method,
             const char   *arguments)
{
  gboolean is_short = interface[0] == '\0' || interface[0] == '.';
  g_autofree char *line =
    g_strdup_printf ("%s %s%s %s %s\n", path != NULL ? path : LLMSVC_PATH,
                     is_short ? LLMSVC_INTERFACE : "", interface, method, arguments);
  g_autoptr(GError) error = NULL;
  char *reply;

  g_output_stream_write_all (g_subprocess_get_stdin_pipe (self->process), line, strlen (line), NULL,
                             NULL, &error);
  g_assert_no_error (error);
  reply = g_data_input_stream_read_line (self->output, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_nonnull (reply);
  g_test_message ("%s: %s", method, reply);
  return reply;
}
