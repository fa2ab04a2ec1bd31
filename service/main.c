/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * llmsvcd, the service: options, signals and the main loop. What it does is in
 * service/bus and service/engine.
 */

#define G_LOG_DOMAIN "llmsvcd"

#include "config.h"

#include <gio/gio.h>
#include <glib/gi18n.h>
#include <glib-unix.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "bus/limits/llm-bus-relay.h"
#include "bus/llm-bus-service.h"
#include "common/llmsvc-command-line.h"
#include "common/llmsvc-i18n.h"

/* What the command line says. */
static struct
{
  gboolean is_system;
  gboolean is_session;
  gboolean show_version;
  char *config;       /* (nullable) */
  char *model;        /* (nullable) */
  char *mock;         /* (nullable) */
  char *state_folder; /* (nullable) */
} arguments;

typedef struct
{
  GMainLoop *loop;
  int status;
} Daemon;

static gboolean
parse_arguments (int      *argc,
                 char   ***argv,
                 GError  **error)
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  const GOptionEntry entries[] = {
    { "session", 0, 0, G_OPTION_ARG_NONE, &arguments.is_session,
      N_("Serve one user on the session bus (default)"), NULL },
    { "system", 0, 0, G_OPTION_ARG_NONE, &arguments.is_system,
      N_("Serve all users on the system bus"), NULL },
    { "config", 0, 0, G_OPTION_ARG_FILENAME, &arguments.config,
      N_("Read this configuration instead of the installed ones"), N_("FILE") },
    { "model", 0, 0, G_OPTION_ARG_FILENAME, &arguments.model,
      N_("Answer with this model"), N_("FILE") },
    { "state-dir", 0, 0, G_OPTION_ARG_FILENAME, &arguments.state_folder,
      N_("Keep contexts in this folder"), N_("DIR") },
    { "mock", 0, 0, G_OPTION_ARG_FILENAME, &arguments.mock,
      N_("Answer from this script instead of a model, for tests of apps"), N_("SCRIPT") },
    { "version", 0, 0, G_OPTION_ARG_NONE, &arguments.show_version,
      N_("Print the version and exit"), NULL },
    { NULL },
  };

  g_option_context_set_translation_domain (context, GETTEXT_PACKAGE);
  g_option_context_set_summary (context, N_("The shared on-device language model on D-Bus."));
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, argc, argv, error))
    return FALSE;

  if (*argc > 1)
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_FAILED, _("Unknown argument “%s”"),
                 (*argv)[1]);
  else if (arguments.is_system && arguments.is_session)
    g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                         _("Only one of --system and --session can be"));
  else if (arguments.mock != NULL && arguments.model != NULL)
    g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                         _("Only one of --model and --mock can be"));
  else
    return TRUE;

  return FALSE;
}

/* @argument: (nullable): a file or folder, which comes before what the configuration says. */
static void
prefer (char      **setting,
        const char *argument)
{
  if (argument == NULL)
    return;
  g_free (*setting);
  *setting = g_canonicalize_filename (argument, NULL);
}

static LlmSettings *
make_settings (GError **error)
{
  gboolean is_mock = arguments.mock != NULL;
  g_autoptr(LlmSettings) settings =
    is_mock && arguments.config == NULL
      ? llm_settings_new ()
      : llm_settings_load (arguments.is_system, arguments.config, error);

  if (settings == NULL)
    return NULL;

  /* A service with a script is the same on every machine and each time: it looks at no
   * configuration and keeps nothing on disk but where it was told to. */
  if (is_mock)
    {
      g_clear_pointer (&settings->model_file, g_free);
      g_clear_pointer (&settings->state_folder, g_free);
    }
  prefer (&settings->model_file, arguments.model);
  prefer (&settings->state_folder, arguments.state_folder);
  if (is_mock)
    {
      settings->script = llm_script_load (arguments.mock, error);
      if (settings->script == NULL ||
          !llm_script_count_start (settings->script, settings->state_folder, error))
        return NULL;
    }

  return g_steal_pointer (&settings);
}

static gboolean
on_signal (gpointer data)
{
  g_main_loop_quit (((Daemon *) data)->loop);
  return G_SOURCE_CONTINUE;
}

static void
on_lost (const char *reason,
         gpointer    data)
{
  Daemon *daemon = data;

  g_printerr ("llmsvcd: %s\n", reason);
  daemon->status = EXIT_FAILURE;
  g_main_loop_quit (daemon->loop);
}

/* As if it had crashed: nothing is ended in order. What the bus was told before is
 * on its way, so that a script says exactly what its callers see. */
static void
on_script_exit (LlmEngine       *engine,
                GDBusConnection *connection)
{
  llm_bus_relay_close (connection);
  _exit (EXIT_FAILURE);
}

static int
run (void)
{
  g_autoptr(GDBusConnection) connection = NULL;
  g_autoptr(LlmSettings) settings = NULL;
  g_autoptr(LlmEngine) engine = NULL;
  g_autoptr(LlmBusService) service = NULL;
  g_autoptr(GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  g_autoptr(GError) error = NULL;
  const LlmSettings *limits;
  static const int ends[] = { SIGTERM, SIGINT, SIGHUP };
  Daemon daemon = { .loop = loop, .status = EXIT_SUCCESS };

  settings = make_settings (&error);
  if (settings == NULL)
    {
      g_printerr ("llmsvcd: %s\n", error->message);
      return EX_CONFIG;
    }

  connection = llm_bus_relay_connect (arguments.is_system, &error);
  if (connection == NULL)
    {
      g_printerr ("llmsvcd: No %s bus: %s\n", arguments.is_system ? "system" : "session",
                  error->message);
      if (!arguments.is_system && g_getenv ("DBUS_SESSION_BUS_ADDRESS") == NULL)
        g_printerr ("llmsvcd: DBUS_SESSION_BUS_ADDRESS is not set, so this process belongs to no "
                    "login session; run it in one, with “dbus-run-session”, or for all users with "
                    "--system\n");
      return EXIT_FAILURE;
    }
  /* on_lost() ends the process in order */
  g_dbus_connection_set_exit_on_close (connection, FALSE);

  limits = settings;
  engine = llm_engine_new (g_steal_pointer (&settings));
  service = llm_bus_service_new (connection, arguments.is_system, engine, limits, &error);
  if (service == NULL)
    {
      g_printerr ("llmsvcd: %s\n", error->message);
      return EXIT_FAILURE;
    }
  g_signal_connect (engine, "script-exit", G_CALLBACK (on_script_exit), connection);

  for (guint i = 0; i < G_N_ELEMENTS (ends); i++)
    g_unix_signal_add (ends[i], on_signal, &daemon);

  llm_bus_service_start (service, on_lost, &daemon);
  g_main_loop_run (loop);

  /* answers that the engine gave up are still sent */
  llm_bus_service_stop (service);
  llm_engine_stop (engine);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  llm_bus_relay_close (connection);
  return daemon.status;
}

int
main (int   argc,
      char *argv[])
{
  g_autoptr(GError) error = NULL;

  setlocale (LC_ALL, "");
  llmsvc_i18n_init ();
  textdomain (GETTEXT_PACKAGE);
  llmsvc_command_line_fit_prints ();
  g_set_prgname ("llmsvcd");
  g_log_writer_default_set_use_stderr (TRUE);
  umask (0077);
  signal (SIGPIPE, SIG_IGN);

  if (!parse_arguments (&argc, &argv, &error))
    {
      g_printerr ("llmsvcd: %s\n", error->message);
      return EXIT_FAILURE;
    }
  if (arguments.show_version)
    {
      g_print ("llmsvcd %s\n", LLM_VERSION);
      return EXIT_SUCCESS;
    }

  /* what the service says is for a journal; its callers are told in their own languages */
  setlocale (LC_MESSAGES, "C");
  return run ();
}
