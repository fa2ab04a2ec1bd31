/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl doctor: what the kernel gives, the disk, and who asks. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/doctor/llmctl-doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gi18n.h>
#include <glib/gstdio.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "llmctl/output/llmctl-output.h"

/* As an unprivileged process may ask for it: its window is a multiple of 2 s. */
#define PSI_TRIGGER "some 150000 2000000"

#define LITTLE_DISK (G_GUINT64_CONSTANT (1) << 30)
#define NO_DISK     (G_GUINT64_CONSTANT (100) << 20)

#define POLKIT_NAME "org.freedesktop.PolicyKit1"

/* --- the kernel --- */

static void
check_psi (LlmctlDoctor *self)
{
  g_autofree char *path = g_strconcat (self->root, "/proc/pressure/memory", NULL);
  /* the file may be there and not be readable: then it is off */
  g_autofree char *text = llmctl_doctor_read (self, "/proc/pressure/memory");
  int fd;

  if (text == NULL || !g_str_has_prefix (text, "some "))
    {
      tell_warn (self,
                 _("The kernel has it with CONFIG_PSI, and perhaps only with psi=1 on its command "
                   "line"),
                 _("The kernel does not tell of memory pressure; the service sees only how much "
                   "memory is free"));
      return;
    }

  fd = open (path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0 && write (fd, PSI_TRIGGER, sizeof PSI_TRIGGER) > 0)
    tell_ok (self, _("The kernel tells of memory pressure at once"));
  else
    tell_note (self,
               _("The kernel tells of memory pressure, but wakes nobody for it (%s); where it "
                 "refuses the service, too, that looks every second"), g_strerror (errno));
  if (fd >= 0)
    close (fd);
}

static void
check_io_uring (LlmctlDoctor *self)
{
  g_autofree char *disabled = llmctl_doctor_read (self, "/proc/sys/kernel/io_uring_disabled");
  struct io_uring_params params = { 0 };
  int fd;

  if (disabled != NULL && !g_str_equal (disabled, "0"))
    {
      llmctl_doctor_add (self, LLMCTL_DOCTOR_NOTE,
                         _("To allow it: sysctl kernel.io_uring_disabled=0"),
                         _("io_uring is switched off (kernel.io_uring_disabled=%s); the service "
                           "reads and writes with threads"), disabled);
      return;
    }

  fd = (int) syscall (__NR_io_uring_setup, 1, &params);
  if (fd >= 0)
    tell_ok (self, _("io_uring can be used"));
  else
    tell_note (self,
               _("io_uring is refused here (%s); where it is refused to the service, too, that "
                 "reads and writes with threads"), g_strerror (errno));
  if (fd >= 0)
    close (fd);
}

/* The tightest limit of the group @path and of those above it; 0 for none. */
static guint64
find_limit (LlmctlDoctor *self,
            const char   *mount,
            const char   *path,
            const char   *name)
{
  g_autofree char *group = g_strdup (path);
  guint64 tightest = 0;

  while (*group == '/')
    {
      g_autofree char *file = g_strconcat (mount, group, "/", name, NULL);
      g_autofree char *text = llmctl_doctor_read (self, file);
      /* "max" is none, as 0 is */
      guint64 limit = text != NULL ? g_ascii_strtoull (text, NULL, 10) : 0;
      char *slash = strrchr (group, '/');

      /* what is as large as can be is none */
      if (limit > 0 && limit < G_MAXINT64 / 2 && (tightest == 0 || limit < tightest))
        tightest = limit;
      if (slash == group)
        break;
      *slash = '\0';
    }

  return tightest;
}

static void
check_group (LlmctlDoctor *self)
{
  g_autofree char *file = g_strdup_printf ("/proc/%u/cgroup", self->pid);
  g_autofree char *text = self->pid != 0 ? llmctl_doctor_read (self, file) : NULL;
  g_auto(GStrv) lines = text != NULL ? g_strsplit (text, "\n", 64) : NULL;
  guint64 limit = 0;
  g_autofree char *size = NULL;

  if (lines == NULL)
    return;
  for (gsize i = 0; lines[i] != NULL && limit == 0; i++)
    {
      g_auto(GStrv) parts = g_strsplit (lines[i], ":", 3);

      if (g_strv_length (parts) != 3 || *parts[2] != '/' || strstr (parts[2], "/..") != NULL)
        continue;
      if (g_str_equal (parts[0], "0"))
        limit = find_limit (self, "/sys/fs/cgroup", parts[2], "memory.max");
      else if (g_str_equal (parts[1], "memory"))
        limit = find_limit (self, "/sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes");
    }
  size = llmctl_format_bytes (limit);
  if (limit > 0)
    tell_note (self, _("Its control group may use %s of memory; the service stays below that"),
               size);
  else
    tell_ok (self, _("No control group limits its memory"));
}

/* --- the disk --- */

static void
check_state (LlmctlDoctor *self)
{
  g_autofree char *path = llmctl_doctor_make_path (self, FALSE);
  g_autofree char *full = g_strconcat (self->root, path, NULL);
  GStatBuf status;
  gboolean is_there = g_stat (full, &status) == 0;

  if (!is_there && errno == ENOENT)
    tell_note (self, _("%s is not there yet; the service makes it"), path);
  else if (!is_there)
    tell_warn (self, NULL, _("%s can't be looked at: %s"), path, g_strerror (errno));
  else if (!S_ISDIR (status.st_mode))
    tell_fail (self, _("Move it out of the way"), _("%s is no folder: contexts can't be stored"),
               path);
  else if ((status.st_mode & 0077) != 0)
    tell_warn (self, _("Close it: chmod 0700"),
               _("Others may look into %s, where contexts are stored (mode %04o)"), path,
               (guint) status.st_mode & 07777);
  else if (self->bus_type == G_BUS_TYPE_SESSION && status.st_uid != getuid ())
    tell_fail (self, _("Give it back with chown"),
               _("%s belongs to user %u: contexts can't be stored"), path, (guint) status.st_uid);
  else
    tell_ok (self, _("Contexts are stored in %s, which nobody else may look into"), path);
}

static void
check_disk (LlmctlDoctor *self)
{
  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *path = llmctl_doctor_make_path (self, i == 1);
      g_autofree char *at = g_strconcat (self->root, path, NULL);
      g_autofree char *size = NULL;
      struct statvfs status;
      guint64 free_bytes;

      /* or the nearest folder above it that is there */
      while (!g_file_test (at, G_FILE_TEST_EXISTS) && strrchr (at, '/') > at)
        *strrchr (at, '/') = '\0';
      if (statvfs (at, &status) != 0)
        continue;
      free_bytes = (guint64) status.f_bavail * status.f_frsize;
      size = llmctl_format_bytes (free_bytes);
      if (free_bytes >= LITTLE_DISK)
        tell_ok (self, _("%s are free for %s"), size, path);
      else
        llmctl_doctor_add (self, free_bytes < NO_DISK ? LLMCTL_DOCTOR_FAIL : LLMCTL_DOCTOR_WARN,
                           _("Make room: contexts are stored there, and prepared models"),
                           _("Only %s are free for %s"), size, path);
    }
}

/* --- who asks --- */

static void
check_file (LlmctlDoctor *self,
            const char   *path)
{
  g_autofree char *full = g_strconcat (self->root, path, NULL);
  g_autoptr(GKeyFile) file = g_key_file_new ();
  g_autoptr(GError) error = NULL;

  if (g_key_file_load_from_file (file, full, G_KEY_FILE_NONE, &error))
    tell_ok (self, _("%s can be read"), path);
  else if (!g_error_matches (error, G_FILE_ERROR, G_FILE_ERROR_NOENT))
    tell_fail (self, _("The service does not start with it; llmsvc.conf(5) says how it is written"),
               _("%s can't be read: %s"), path, error->message);
}

static void
check_configuration (LlmctlDoctor *self)
{
  g_autofree char *own = g_build_filename (g_get_user_config_dir (), "llmsvc", "llmsvc.conf", NULL);

  check_file (self, LLM_SYSCONFDIR "/llmsvc/llmsvc.conf");
  if (self->bus_type == G_BUS_TYPE_SESSION)
    check_file (self, own);
}

static void
check_polkit (LlmctlDoctor *self)
{
  g_autofree char *policy =
      g_strconcat (self->root, LLM_DATADIR "/polkit-1/actions/org.llm.Service.policy", NULL);

  if (self->bus == NULL || self->bus_type != G_BUS_TYPE_SYSTEM)
    return;
  if (!llmctl_doctor_bus_lists (self->bus, "ListNames", POLKIT_NAME) &&
      !llmctl_doctor_bus_lists (self->bus, "ListActivatableNames", POLKIT_NAME))
    tell_warn (self, _("Install polkit (the package polkitd)"),
               _("polkit is not there: only root may select a model, set budgets and quotas"));
  else if (!g_file_test (policy, G_FILE_TEST_EXISTS))
    tell_warn (self, _("Install the package llmsvc again"),
               _("polkit does not know what it should allow: %s is missing"), policy);
  else
    tell_ok (self, _("polkit decides who may select a model, set budgets and quotas"));
}

static void
check_sandbox (LlmctlDoctor *self)
{
  g_autofree char *flatpak = g_strconcat (self->root, "/.flatpak-info", NULL);
  const char *snap = g_getenv ("SNAP_NAME");

  if (g_file_test (flatpak, G_FILE_TEST_EXISTS))
    tell_note (self, _("This runs in a Flatpak, and sees that application's contexts only"));
  else if (snap != NULL && *snap != '\0')
    tell_note (self, _("This runs in the snap %s, and sees that application's contexts only"),
               snap);
  else
    tell_ok (self, _("This does not run in a sandbox"));
}

static void
check_language (LlmctlDoctor *self)
{
  const char *locale = llmctl_i18n_get_locale ();

  if (!g_get_charset (NULL))
    tell_warn (self, _("Take a locale with UTF-8, such as LC_ALL=C.UTF-8"),
               _("The locale has no UTF-8: other languages than English come out wrong"));
  else
    tell_ok (self, _("Messages are in “%s”"), locale != NULL ? locale : "en");
}

const LlmctlCheck llmctl_doctor_machine_checks[] = {
  { "psi", check_psi },
  { "io_uring", check_io_uring },
  { "cgroup", check_group },
  { "state", check_state },
  { "disk", check_disk },
  { "speed", llmctl_doctor_check_speed },
  { "configuration", check_configuration },
  { "polkit", check_polkit },
  { "sandbox", check_sandbox },
  { "language", check_language },
  { NULL },
};
