/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "storm/bench-storm-server.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The highest there is: when the kernel has to kill, it is the server, never the eater. */
#define VICTIM_SCORE "1000"
#define MAX_LINES 20
#define STEP_US 10000
#define MAX_STEPS 3000

typedef struct
{
  BenchStormGroup *group;
  int log;
} ChildSetup;

/* Between fork and exec. */
static void
enter_group (gpointer data)
{
  ChildSetup *setup = data;
  int fd;

  prctl (PR_SET_PDEATHSIG, SIGKILL);
  dup2 (setup->log, STDOUT_FILENO);
  dup2 (setup->log, STDERR_FILENO);
  if (setup->group == NULL)
    return;
  if (!bench_storm_group_enter (setup->group, BENCH_STORM_SERVER))
    _exit (1);
  fd = open ("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write (fd, VICTIM_SCORE, strlen (VICTIM_SCORE)) < 0)
    _exit (1);
  close (fd);
}

gboolean
bench_storm_server_spawn (BenchStormServer  *self,
                          char             **argv,
                          char             **environment,
                          const char        *log,
                          BenchStormGroup   *group,
                          GError           **error)
{
  ChildSetup setup = { group, open (log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) };
  gboolean is_started;

  if (setup.log < 0)
    g_error ("%s can't be written", log);
  is_started = g_spawn_async (NULL, argv, environment,
                              G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_SEARCH_PATH, enter_group, &setup,
                              &self->pid, error);
  close (setup.log);
  return is_started;
}

gboolean
bench_storm_server_is_alive (BenchStormServer *self)
{
  int status;

  if (self->pid > 0 && waitpid (self->pid, &status, WNOHANG) == self->pid)
    {
      self->status = status;
      self->pid = 0;
    }
  return self->pid > 0;
}

void
bench_storm_server_end (BenchStormServer *self)
{
  if (bench_storm_server_is_alive (self))
    kill (self->pid, SIGTERM);
  for (guint i = 0; i < MAX_STEPS && bench_storm_server_is_alive (self); i++)
    g_usleep (STEP_US);
  if (bench_storm_server_is_alive (self))
    {
      kill (self->pid, SIGKILL);
      waitpid (self->pid, &self->status, 0);
      self->pid = 0;
    }
}

char *
bench_storm_server_describe_end (BenchStormServer *self,
                                 const char       *folder)
{
  g_autofree char *path = g_build_filename (folder, BENCH_STORM_LOG, NULL);
  g_autofree char *text = NULL;
  const char *tail;
  guint n_lines = 0;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    text = g_strdup ("");
  for (tail = text + strlen (text); tail > text && n_lines <= MAX_LINES; tail--)
    n_lines += tail[-1] == '\n';
  if (WIFSIGNALED (self->status))
    return g_strdup_printf ("ended by signal %d (%s); it said last:\n%s", WTERMSIG (self->status),
                            g_strsignal (WTERMSIG (self->status)), tail);
  return g_strdup_printf ("ended with status %d; it said last:\n%s", WEXITSTATUS (self->status),
                          tail);
}

void
bench_storm_server_free (BenchStormServer *self)
{
  if (self != NULL)
    self->funcs->free (self);
}
