/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-pager.h"

#include <glib-unix.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static GPid pager;   /* 0: there is none */

/* (transfer full) (nullable): the command, which is there. */
static GStrv
find_command (void)
{
  const char *text = g_getenv ("PAGER");
  g_autofree char *program = NULL;
  g_auto(GStrv) words = NULL;

  if (text == NULL)
    text = "less";
  if (*text == '\0' || g_str_equal (text, "cat") || !g_shell_parse_argv (text, NULL, &words, NULL))
    return NULL;
  program = g_find_program_in_path (words[0]);
  return program != NULL ? g_steal_pointer (&words) : NULL;
}

void
llmctl_pager_begin (void)
{
  const char *term = g_getenv ("TERM");
  g_auto(GStrv) words = NULL;
  g_auto(GStrv) environment = g_get_environ ();
  int ends[2];

  if (pager != 0 || !isatty (STDOUT_FILENO) || term == NULL || g_str_equal (term, "dumb"))
    return;
  words = find_command ();
  if (words == NULL || !g_unix_open_pipe (ends, FD_CLOEXEC, NULL))
    return;
  /* less ends by itself when all fits, shows colours and leaves the screen as it is */
  environment = g_environ_setenv (environment, "LESS", "FRX", FALSE);
  if (g_spawn_async_with_fds (NULL, words, environment,
                              G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &pager,
                              ends[0], -1, -1, NULL))
    {
      (void) fflush (stdout);
      (void) dup2 (ends[1], STDOUT_FILENO);
    }
  close (ends[0]);
  close (ends[1]);
}

gboolean
llmctl_pager_is_open (void)
{
  return pager != 0;
}

void
llmctl_pager_end (void)
{
  if (pager == 0)
    return;
  /* Ctrl-C is the pager's as long as it runs. */
  signal (SIGINT, SIG_IGN);
  (void) waitpid (pager, NULL, 0);
  pager = 0;
}
