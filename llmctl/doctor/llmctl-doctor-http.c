/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl doctor: whether programs that speak OpenAI's HTTP are answered, and which. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/doctor/llmctl-doctor.h"

#define UNIX_SOCKET "/run/llmsvc-http.sock"
#define PROGRAM     LLM_LIBEXECDIR "/llmsvc-http"
#define KEYS        "/etc/llmsvc/http-keys"
/* As llmsvc-http-tcp.socket has it, and as the kernel writes 127.0.0.1:8645, which listens. */
#define TCP_NAME    "127.0.0.1:8645"
#define TCP_LISTENS ": 0100007F:21C5 00000000:0000 0A"

static gboolean
is_there (LlmctlDoctor *self,
          const char   *path)
{
  g_autofree char *full = g_strconcat (self->root, path, NULL);

  return g_file_test (full, G_FILE_TEST_EXISTS);
}

static guint
count_keys (LlmctlDoctor *self)
{
  g_autofree char *path = g_strconcat (self->root, KEYS, NULL);
  g_autoptr(GKeyFile) keys = g_key_file_new ();
  g_auto(GStrv) names = NULL;

  if (!g_key_file_load_from_file (keys, path, G_KEY_FILE_NONE, NULL))
    return 0;
  names = g_key_file_get_groups (keys, NULL);
  return g_strv_length (names);
}

static void
check_http (LlmctlDoctor *self)
{
  g_autofree char *sockets = llmctl_doctor_read (self, "/proc/net/tcp");
  gboolean is_tcp = sockets != NULL && strstr (sockets, TCP_LISTENS) != NULL;
  gboolean is_unix = is_there (self, UNIX_SOCKET);
  guint n_keys = count_keys (self);

  if (!is_there (self, PROGRAM))
    return;
  if (!is_unix && !is_tcp)
    llmctl_doctor_add (self, LLMCTL_DOCTOR_NOTE, _("To switch it on: systemctl enable --now llmsvc-http.socket"),
                       _("The endpoint for programs that speak OpenAI's HTTP is installed, and off"));
  if (is_unix)
    tell_ok (self, _("Programs of every user of this machine that speak OpenAI's HTTP are answered on %s"),
             UNIX_SOCKET);
  if (is_tcp && n_keys > 0)
    tell_ok (self, ngettext ("%u application with a key is answered on http://%s/v1",
                             "%u applications with a key are answered on http://%s/v1", n_keys),
             n_keys, TCP_NAME);
  else if (is_tcp)
    tell_warn (self, _("Make one: llmctl http key add NAME"),
               _("http://%s/v1 answers no program: no application has a key"), TCP_NAME);
}

const LlmctlCheck llmctl_doctor_http_checks[] = {
  { "http", check_http },
  { NULL },
};
