/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl.h"

#include <glib/gi18n.h>
#include <libintl.h>
#include <locale.h>
#include <string.h>

#include "common/llmsvc-error-private.h"
#include "common/llmsvc-i18n.h"
#include "llmctl/bus/llmctl-place.h"
#include "llmctl/bus/llmctl-service.h"
#include "llmctl/bus/llmctl-wait.h"

#define MAX_CANDIDATES 1000

LlmctlGlobals llmctl_globals = { .bus_type = G_BUS_TYPE_NONE };

/* --- the language --- */

void
llmctl_i18n_init (void)
{
  setlocale (LC_ALL, "");
  llmsvc_i18n_init ();
  textdomain (GETTEXT_PACKAGE);
}

const char *
llmctl_i18n_get_locale (void)
{
  const char *locale = setlocale (LC_MESSAGES, NULL);
  const char *language;

  /* As gettext: in the locale C nothing is translated, whatever LANGUAGE says. */
  if (locale == NULL || g_str_equal (locale, "C") || g_str_equal (locale, "POSIX"))
    return NULL;

  language = g_get_language_names_with_category ("LC_MESSAGES")[0];
  return g_str_equal (language, "C") || g_str_has_prefix (language, "C.") ? NULL : language;
}

/* --- the bus --- */

GDBusConnection *
llmctl_connect (GError **error)
{
  static GDBusConnection *bus;   /* (owned) */

  if (bus == NULL)
    bus = llmsvc_bus_find_sync (llmctl_globals.bus_type, NULL, &llmctl_globals.found_bus_type,
                                &llmctl_globals.is_running, error);
  return bus;
}

GBusType
llmctl_find_bus_type (void)
{
  if (llmctl_connect (NULL) != NULL)
    return llmctl_globals.found_bus_type;

  return llmctl_globals.bus_type == G_BUS_TYPE_SYSTEM ? G_BUS_TYPE_SYSTEM : G_BUS_TYPE_SESSION;
}

int
llmctl_get_timeout_ms (void)
{
  double ms = llmctl_globals.timeout_s * 1000;

  if (ms <= 0)
    return G_MAXINT;
  return ms < G_MAXINT ? MAX ((int) ms, 1) : G_MAXINT;
}

/* --- calls --- */

/* (transfer full): @error, which is taken, in the domain of the service. */
static GError *
convert_error (GError *error)
{
  g_autoptr(GError) owned = error;
  LlmsvcError code = LLMSVC_ERROR_FAILED;

  if (g_error_matches (owned, G_IO_ERROR, G_IO_ERROR_TIMED_OUT))
    return g_error_new (LLMSVC_ERROR, LLMSVC_ERROR_DEADLINE_EXCEEDED,
                        _("There was no answer within %g s"), llmctl_globals.timeout_s);
  if (g_error_matches (owned, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED, _("Interrupted"));

  /* Not the caller's time limit: that of the bus for starting the service. */
  if (g_error_matches (owned, G_DBUS_ERROR, G_DBUS_ERROR_TIMEOUT) ||
      g_error_matches (owned, G_DBUS_ERROR, G_DBUS_ERROR_TIMED_OUT))
    code = LLMSVC_ERROR_NOT_AVAILABLE;
  else if (g_error_matches (owned, G_IO_ERROR, G_IO_ERROR_CLOSED))
    code = LLMSVC_ERROR_LOST;
  if (code != LLMSVC_ERROR_FAILED ||
      (owned->domain != LLMSVC_ERROR && owned->domain != G_DBUS_ERROR &&
       !g_error_matches (owned, G_IO_ERROR, G_IO_ERROR_DBUS_ERROR)))
    {
      g_dbus_error_strip_remote_error (owned);
      return g_error_new_literal (LLMSVC_ERROR, (int) code, owned->message);
    }

  llmsvc_error_convert (&owned);
  return g_steal_pointer (&owned);
}

/* The service answers in the language that the options of a call name. (transfer floating)
 * (nullable): @parameters, with the language in the options that they end with. */
static GVariant *
add_locale (const char *interface,
            GVariant   *parameters)
{
  g_autoptr(GVariant) owned = NULL;
  g_autoptr(GVariant) options = NULL;
  g_autoptr(GVariantDict) dict = NULL;
  const char *locale = llmctl_i18n_get_locale ();
  gsize n = parameters != NULL ? g_variant_n_children (parameters) : 0;
  GVariantBuilder builder;

  if (n == 0 || locale == NULL || !g_str_has_prefix (interface, LLMCTL_SERVICE_NAME))
    return parameters;
  options = g_variant_get_child_value (parameters, n - 1);
  if (!g_variant_is_of_type (options, G_VARIANT_TYPE_VARDICT))
    return parameters;

  owned = g_variant_ref_sink (parameters);
  dict = g_variant_dict_new (options);
  if (!g_variant_dict_contains (dict, "locale"))
    g_variant_dict_insert (dict, "locale", "s", locale);
  g_variant_builder_init (&builder, G_VARIANT_TYPE_TUPLE);
  for (gsize i = 0; i + 1 < n; i++)
    {
      g_autoptr(GVariant) child = g_variant_get_child_value (parameters, i);

      g_variant_builder_add_value (&builder, child);
    }
  g_variant_builder_add_value (&builder, g_variant_dict_end (dict));
  return g_variant_builder_end (&builder);
}

GVariant *
llmctl_call_with_fds (const char   *path,
                      const char   *interface,
                      const char   *method,
                      GVariant     *parameters,
                      const char   *reply_type,
                      GUnixFDList **fds,
                      GError      **error)
{
  g_autoptr(GVariant) owned = parameters != NULL ? g_variant_ref_sink (parameters) : NULL;
  GDBusConnection *bus = llmctl_connect (error);
  g_autoptr(GSource) interrupt = NULL;
  GError *local_error = NULL;
  GVariant *reply;

  if (bus == NULL)
    return NULL;
  if (llmctl_globals.must_not_start && !llmctl_globals.is_running)
    {
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_AVAILABLE,
                           _("The service is not running and holds nothing; the first question "
                             "starts it"));
      return NULL;
    }

  interrupt = llmctl_wait_watch_interrupt ();
  reply = g_dbus_connection_call_with_unix_fd_list_sync (
    bus, LLMCTL_SERVICE_NAME, path != NULL ? path : LLMCTL_SERVICE_PATH, interface, method,
    add_locale (interface, owned), reply_type != NULL ? G_VARIANT_TYPE (reply_type) : NULL,
    llmctl_globals.must_not_start ? G_DBUS_CALL_FLAGS_NO_AUTO_START
                                  : G_DBUS_CALL_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION,
    llmctl_get_timeout_ms (), NULL, fds, llmctl_wait_get_cancellable (), &local_error);
  g_source_destroy (interrupt);
  if (reply == NULL)
    g_propagate_error (error, convert_error (local_error));
  return reply;
}

GVariant *
llmctl_call (const char  *path,
             const char  *interface,
             const char  *method,
             GVariant    *parameters,
             const char  *type,
             GError     **error)
{
  g_autofree char *reply_type = g_strconcat ("(", type, ")", NULL);
  g_autoptr(GVariant) reply = llmctl_call_with_fds (path, interface, method, parameters,
                                                    reply_type, NULL, error);

  if (reply == NULL || *type == '\0')
    return g_steal_pointer (&reply);
  return g_variant_get_child_value (reply, 0);
}

/* --- completion --- */

/* A candidate and its help are one line with one tab. */
static char *
make_line (const char *text)
{
  return g_strdelimit (llmctl_output_make_harmless (text), "\n\t", ' ');
}

void
llmctl_completion_offer (LlmctlCompletion *self,
                         const char       *candidate,
                         const char       *help)
{
  g_autofree char *line = make_line (candidate);
  g_autofree char *help_line = make_line (help != NULL ? help : "");

  /* What had to be changed to be shown would not be what is meant. */
  if (!g_str_has_prefix (candidate, self->word) || strcmp (line, candidate) != 0 ||
      *candidate == '\0' || g_hash_table_size (self->offered) >= MAX_CANDIDATES ||
      !g_hash_table_add (self->offered, g_strdup (candidate)))
    return;

  llmctl_output_data (self->prefix);
  llmctl_output_data (candidate);
  llmctl_output_printf (LLMCTL_STYLE_PLAIN, "\t%s\n", help_line);
}

void
llmctl_completion_offer_all (LlmctlCompletion  *self,
                             const char        *before,
                             const char *const *choices)
{
  for (gsize i = 0; choices != NULL && choices[i] != NULL; i++)
    {
      g_autofree char *candidate = g_strconcat (before, choices[i], NULL);

      llmctl_completion_offer (self, candidate, NULL);
    }
}

/* --- what is wrong --- */

LlmctlExit
llmctl_complain_usage (const char *format,
                       ...)
{
  g_autofree char *message = NULL;
  va_list arguments;

  va_start (arguments, format);
  message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  llmctl_complain ("%s", message);
  llmctl_complain (_("“llmctl help” and “llmctl COMMAND --help” tell more"));
  return LLMCTL_EXIT_USAGE;
}

static LlmctlExit
get_status (int code)
{
  switch (code)
    {
    case LLMSVC_ERROR_INVALID_OPTION:
    case LLMSVC_ERROR_INVALID_ARGUMENT:
      return LLMCTL_EXIT_USAGE;
    case LLMSVC_ERROR_DEADLINE_EXCEEDED:
      return LLMCTL_EXIT_TIME_LIMIT;
    case LLMSVC_ERROR_NO_MODEL:
    case LLMSVC_ERROR_INVALID_MODEL:
    case LLMSVC_ERROR_NOT_AVAILABLE:
    case LLMSVC_ERROR_LOST:
    case LLMSVC_ERROR_LOST_KEPT:
    case LLMSVC_ERROR_LOST_UNKNOWN:
      return LLMCTL_EXIT_NOT_AVAILABLE;
    case LLMSVC_ERROR_NOT_AUTHORIZED:
      return LLMCTL_EXIT_NOT_AUTHORIZED;
    case LLMSVC_ERROR_OVERLOADED:
    case LLMSVC_ERROR_QUOTA_EXCEEDED:
    case LLMSVC_ERROR_NO_MEMORY:
      return LLMCTL_EXIT_OVERLOADED;
    default:
      return LLMCTL_EXIT_FAILED;
    }
}

static gboolean
can_reach_session (void)
{
  g_autoptr(GDBusConnection) bus = g_bus_get_sync (G_BUS_TYPE_SESSION, NULL, NULL);

  if (bus != NULL)
    g_dbus_connection_set_exit_on_close (bus, FALSE);
  return bus != NULL;
}

/* The library knows that the service is not there; how a person starts it we know. (nullable) */
static const char *
get_start_advice (void)
{
  if (llmctl_connect (NULL) != NULL)
    return llmctl_globals.must_not_start ? NULL : _("“llmctl doctor” tells what is wrong");
  if (llmctl_globals.bus_type != G_BUS_TYPE_SYSTEM && !can_reach_session ())
    return llmctl_globals.bus_type == G_BUS_TYPE_NONE
               ? _("The service for all users needs no login session: “sudo systemctl start "
                   "llmsvc”")
               : NULL;

  switch (llmctl_globals.bus_type)
    {
    case G_BUS_TYPE_SYSTEM:
      return _("Start it with “sudo systemctl start llmsvc”");
    case G_BUS_TYPE_SESSION:
      return _("Start it with “systemctl --user start llmsvc” or “llmsvcd &”");
    default:
      return _("Start it with “sudo systemctl start llmsvc”, or for yourself alone with “systemctl "
               "--user start llmsvc” or “llmsvcd &”");
    }
}

/* (nullable) (transfer full): what is said instead of an error, when systemd must not start the
 * service. */
static char *
explain_masked (void)
{
  GDBusConnection *bus = llmctl_connect (NULL);
  GBusType type = llmctl_globals.found_bus_type;
  g_autofree char *unmask = NULL;

  /* one that runs was started otherwise */
  if (bus == NULL || llmctl_globals.is_running || !llmctl_place_is_masked (bus))
    return NULL;

  unmask = llmctl_place_make_unmask (type);
  if (type == G_BUS_TYPE_SYSTEM)
    return g_strdup_printf (_("The administrator has masked the service for all users, so nothing "
                              "starts it: “%s” ends that"), unmask);
  if (llmctl_globals.bus_type == G_BUS_TYPE_SESSION)
    return g_strdup_printf (_("A service of your own is masked here, as there is one for all "
                              "users: leave out --session-bus to use that, or have your own with "
                              "“%s”"), unmask);
  return g_strdup_printf (_("A service of your own is masked here, and the one for all users "
                            "can't be reached: “sudo systemctl start llmsvc” starts that, and “%s” lets you "
                            "have your own"), unmask);
}

char *
llmctl_make_remedy (const GError      *error,
                    const char *const *words)
{
  g_autoptr(GString) line = g_string_new ("sudo llmctl");

  if (!g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_AUTHORIZED) || words == NULL ||
      llmctl_find_bus_type () != G_BUS_TYPE_SYSTEM)
    return NULL;

  for (gsize i = 0; words[i] != NULL; i++)
    {
      gsize n_plain = strspn (words[i], G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "-_.=/:,@%+");
      g_autofree char *quoted = g_shell_quote (words[i]);

      g_string_append_printf (line, " %s",
                              n_plain > 0 && words[i][n_plain] == '\0' ? words[i] : quoted);
    }

  return g_strdup_printf (_("As root: %s"), line->str);
}

LlmctlExit
llmctl_fail (GError *error)
{
  g_autoptr(GError) converted = NULL;
  g_autofree char *masked = NULL;
  g_autofree char *remedy = NULL;
  g_autofree char *install = NULL;
  LlmctlExit end = llmctl_wait_get_end ();
  const char *advice = NULL;

  /* Who has pressed Ctrl-C knows. */
  if (end == LLMCTL_EXIT_INTERRUPTED)
    return end;
  if (end == LLMCTL_EXIT_TIME_LIMIT &&
      !g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_DEADLINE_EXCEEDED))
    {
      llmctl_complain (_("The time limit has passed before the service was done"));
      return end;
    }

  converted = convert_error (g_error_copy (error));
  /* What is wrong with stdout is said, where it is to be said at all, at the end. */
  if (!llmctl_output_flush ())
    return get_status (converted->code);
  if (converted->code == LLMSVC_ERROR_NOT_AVAILABLE)
    masked = explain_masked ();
  llmctl_complain ("%s", masked != NULL ? masked : converted->message);
  if (llmctl_globals.is_admin)
    remedy = llmctl_make_remedy (converted, llmctl_globals.words);
  if (remedy != NULL)
    llmctl_complain_command (remedy);
  if (converted->code == LLMSVC_ERROR_NO_MODEL)
    {
      install = llmctl_place_make_install (llmctl_find_bus_type ());
      llmctl_complain (_("“%s” puts a model there; “llmctl doctor” says which size fits"), install);
    }
  if (converted->code == LLMSVC_ERROR_NOT_AVAILABLE && masked == NULL)
    advice = get_start_advice ();
  if (advice != NULL)
    llmctl_complain ("%s", advice);
  return get_status (converted->code);
}
