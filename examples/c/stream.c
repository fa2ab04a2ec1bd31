/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An answer word by word as it is made, with a main loop. Ctrl-C stops the answer,
 * here and at the service.
 *
 *   cc stream.c -o stream $(pkg-config --cflags --libs llmsvc-1)
 *   ./stream "Find me a comedy movie."
 */

#include <glib-unix.h>
#include <llmsvc.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct
{
  GMainLoop *loop;
  GCancellable *cancellable;
  const char *prompt;
  LlmsvcOptions *options;
  int status;
} App;

static void
fail (App          *app,
      const GError *error)
{
  fprintf (stderr, "%s\n", error->message);
  app->status = EXIT_FAILURE;
  g_main_loop_quit (app->loop);
}

static void
on_piece (GObject      *source,
          GAsyncResult *result,
          gpointer      user_data)
{
  App *app = user_data;
  LlmsvcGeneration *generation = LLMSVC_GENERATION (source);
  g_autoptr(GError) error = NULL;
  g_autofree char *piece = llmsvc_generation_next_finish (generation, result, &error);

  if (error != NULL)
    {
      fail (app, error);
    }
  else if (piece == NULL)
    {
      putchar ('\n');
      g_main_loop_quit (app->loop);
    }
  else
    {
      fputs (piece, stdout);
      fflush (stdout);
      llmsvc_generation_next_async (generation, app->cancellable, on_piece, app);
    }
}

static void
on_answer_begins (GObject      *source,
                  GAsyncResult *result,
                  gpointer      user_data)
{
  App *app = user_data;
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmsvcGeneration) generation =
    llmsvc_context_prompt_finish (LLMSVC_CONTEXT (source), result, &error);

  if (generation == NULL)
    fail (app, error);
  else
    llmsvc_generation_next_async (generation, app->cancellable, on_piece, app);
}

static void
on_context (GObject      *source,
            GAsyncResult *result,
            gpointer      user_data)
{
  App *app = user_data;
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmsvcContext) context =
    llmsvc_client_create_context_finish (LLMSVC_CLIENT (source), result, &error);

  if (context == NULL)
    fail (app, error);
  else
    llmsvc_context_prompt_async (context, app->prompt, app->options, app->cancellable,
                                 on_answer_begins, app);
}

static void
on_client (GObject      *source,
           GAsyncResult *result,
           gpointer      user_data)
{
  App *app = user_data;
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmsvcClient) client = llmsvc_client_new_finish (result, &error);

  if (client == NULL)
    fail (app, error);
  else
    llmsvc_client_create_context_async (client, NULL, app->cancellable, on_context, app);
}

static gboolean
on_interrupt (gpointer user_data)
{
  App *app = user_data;

  g_cancellable_cancel (app->cancellable);
  return G_SOURCE_CONTINUE;
}

int
main (int    argc,
      char **argv)
{
  g_autoptr(GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(LlmsvcOptions) options =
    g_object_new (LLMSVC_TYPE_OPTIONS, "max-tokens", 64, "temperature", 0.0, NULL);
  App app = { loop, cancellable, argc > 1 ? argv[1] : "Hello!", options, EXIT_SUCCESS };

  setlocale (LC_ALL, "");
  g_unix_signal_add (SIGINT, on_interrupt, &app);

  llmsvc_client_new_async (G_BUS_TYPE_NONE, NULL, cancellable, on_client, &app);
  g_main_loop_run (loop);
  return app.status;
}
