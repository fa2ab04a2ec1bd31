/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-turns.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* Where the started program finds its end. */
#define CHILD_FD 3

void
bench_turns_init (BenchTurns *self,
                  int         fd)
{
  *self = (BenchTurns) { .fd = fd };
}

GSubprocess *
bench_turns_start (BenchTurns  *self,
                   const char  *command,
                   const char  *options,
                   GError     **error)
{
  g_autoptr(GSubprocessLauncher) launcher =
    g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDOUT_PIPE);
  g_autofree char *line = g_strdup_printf ("%s %s --turns %d", command, options, CHILD_FD);
  g_auto(GStrv) words = NULL;
  int ends[2];

  if (!g_shell_parse_argv (line, NULL, &words, error))
    return NULL;
  if (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
    {
      g_set_error_literal (error, G_IO_ERROR, g_io_error_from_errno (errno), g_strerror (errno));
      return NULL;
    }
  *self = (BenchTurns) { .fd = ends[0], .has_turn = TRUE };
  g_subprocess_launcher_take_fd (launcher, ends[1], CHILD_FD);
  return g_subprocess_launcher_spawnv (launcher, (const char *const *) words, error);
}

void
bench_turns_clear (BenchTurns *self)
{
  if (self->fd >= 0)
    close (self->fd);
  self->fd = -1;
}

void
bench_turns_begin (BenchTurns *self)
{
  char turn;

  if (self->fd >= 0 && !self->has_turn && recv (self->fd, &turn, 1, 0) <= 0)
    bench_turns_clear (self);
  self->begin_us = g_get_monotonic_time ();
}

void
bench_turns_end (BenchTurns *self)
{
  self->seconds += (double) (g_get_monotonic_time () - self->begin_us) / G_USEC_PER_SEC;
  self->has_turn = FALSE;
  if (self->fd >= 0 && send (self->fd, "", 1, MSG_NOSIGNAL) <= 0)
    bench_turns_clear (self);
}

JsonNode *
bench_turns_finish (GSubprocess  *other,
                    GError      **error)
{
  g_autofree char *printed = NULL;
  g_autoptr(JsonNode) root = NULL;

  if (!g_subprocess_communicate_utf8 (other, NULL, NULL, &printed, NULL, error))
    return NULL;
  root = json_from_string (printed, NULL);
  if (g_subprocess_get_successful (other) && root != NULL && JSON_NODE_HOLDS_OBJECT (root) &&
      json_object_has_member (json_node_get_object (root), "results"))
    return g_steal_pointer (&root);
  g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_FAILED,
                       "The program beside printed no results: is it an llmsvc-bench that knows "
                       "“model --beside”?");
  return NULL;
}

double
bench_turns_get_speed (JsonNode   *results,
                       const char *test,
                       int         round)
{
  JsonArray *list = json_object_get_array_member (json_node_get_object (results), "results");

  for (guint i = 0; i < json_array_get_length (list); i++)
    {
      JsonObject *result = json_array_get_object_element (list, i), *figure;

      figure = json_object_get_object_member (result, "tokens-per-second");
      if (g_str_equal (json_object_get_string_member (result, "test"), test))
        return json_array_get_double_element (json_object_get_array_member (figure, "samples"),
                                              (guint) round);
    }
  return 1;
}
