/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Who a connection is, from what the bus says of its process. */

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bus/identity/llm-bus-caller.h"
#include "gate-rig.h"
#include "support/llm-test-folder.h"

/* More than GLib makes threads for, of which it has ten and then one more now and then. */
#define N_SLOW 300

typedef struct
{
  LlmCaller *caller;
  GError *error;
} Found;

static void
on_found (LlmCaller    *caller,
          const GError *error,
          gpointer      data)
{
  Found *found = data;

  found->caller = caller != NULL ? llm_caller_ref (caller) : NULL;
  found->error = error != NULL ? g_error_copy (error) : NULL;
}

static void
on_identified (LlmCaller *caller,
               gpointer   data)
{
}

static void
on_gone (const char *connection,
         gpointer    data)
{
}

/* Which kind the service takes this process for; the kind it has in truth depends on where the
 * test runs. */
static LlmCallerKind
resolve (GateRig *rig)
{
  const char *const folders[] = { NULL };
  LlmBusCallers *callers =
    llm_bus_callers_new (rig->service, rig->gate, "/proc", folders, on_identified, on_gone, NULL);
  g_autoptr(LlmCaller) caller = NULL;
  Found found = { NULL };

  llm_bus_callers_resolve (callers, SENDER, on_found, &found);
  while (found.caller == NULL && found.error == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_no_error (found.error);
  caller = found.caller;
  llm_bus_callers_free (callers);
  g_assert_cmpuint (caller->app->uid, ==, getuid ());
  return caller->kind;
}

/* The bus gives the process itself along: one that is gone has left its number to others. */
static void
test_process_fd (GateRig      *rig,
                 gconstpointer data)
{
  LlmCallerKind kind = resolve (rig);
  int pid;

  g_assert_cmpint (kind, !=, LLM_CALLER_UNKNOWN);
  g_assert_cmpuint (rig->n_asked, ==, 1);

  rig->pidfd = (int) syscall (SYS_pidfd_open, getpid (), 0);
  g_assert_cmpint (rig->pidfd, >=, 0);
  g_assert_cmpint (resolve (rig), ==, kind);
  g_assert_cmpuint (rig->n_asked, ==, 1);
  close (rig->pidfd);

  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    _exit (0);
  rig->pidfd = (int) syscall (SYS_pidfd_open, pid, 0);
  g_assert_cmpint (rig->pidfd, >=, 0);
  g_assert_cmpint (waitpid (pid, NULL, 0), ==, pid);
  g_assert_cmpint (resolve (rig), ==, LLM_CALLER_UNKNOWN);
  close (rig->pidfd);
}

/* Files of a user's processes that are slow to read, here for ever, hold up that user alone. */
static void
test_slow (GateRig      *rig,
           gconstpointer data)
{
  const char *const folders[] = { NULL };
  g_autofree char *root = llm_test_folder_new ();
  g_autofree char *folder = g_strdup_printf ("%s/%d", root, getpid ());
  g_autofree char *stat_path = g_build_filename (folder, "stat", NULL);
  LlmBusCallers *callers =
    llm_bus_callers_new (rig->service, rig->gate, root, folders, on_identified, on_gone, NULL);
  Found slow[N_SLOW] = { { NULL } }, other = { NULL };
  guint n_found = 0;
  int fd;

  g_assert_cmpint (mkdir (folder, 0700), ==, 0);
  g_assert_cmpint (mkfifo (stat_path, 0600), ==, 0);
  for (guint i = 0; i < N_SLOW; i++)
    {
      g_autofree char *name = g_strdup_printf (":1.%u", i + 100);

      llm_bus_callers_resolve (callers, name, on_found, &slow[i]);
    }
  llm_bus_callers_resolve (callers, GATE_RIG_OTHER_USER "1", on_found, &other);
  while (other.caller == NULL && other.error == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_no_error (other.error);
  for (guint i = 0; i < N_SLOW; i++)
    g_assert_null (slow[i].caller);

  /* now they can be read: one after the other, all are answered */
  fd = open (stat_path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (unlink (stat_path), ==, 0);
  close (fd);
  while (n_found < N_SLOW)
    {
      g_main_context_iteration (NULL, TRUE);
      n_found = 0;
      for (guint i = 0; i < N_SLOW; i++)
        n_found += slow[i].caller != NULL;
    }
  for (guint i = 0; i < N_SLOW; i++)
    llm_caller_unref (slow[i].caller);
  llm_caller_unref (other.caller);
  llm_bus_callers_free (callers);
  llm_test_folder_remove (root);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add ("/bus/relay/process-fd", GateRig, GINT_TO_POINTER (TRUE), gate_rig_set_up,
              test_process_fd, gate_rig_tear_down);

  g_test_add ("/bus/callers/slow", GateRig, GINT_TO_POINTER (TRUE), gate_rig_set_up, test_slow,
              gate_rig_tear_down);

  return g_test_run ();
}
