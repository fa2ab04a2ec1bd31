/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Parts of “llmctl top” and “llmctl doctor”, without a terminal, a service or time that passes. */

#include "config.h"

#include <gio/gio.h>
#include <glib/gstdio.h>
#include <string.h>

#include "llmctl/llmctl.h"
#include "llmctl/doctor/llmctl-doctor.h"
#include "llmctl/output/llmctl-screen.h"
#include "llmctl/top/llmctl-sample.h"
#include "support/llm-test-folder.h"

/* The table of commands is the program's. */
const LlmctlCommand *const llmctl_commands[] = { NULL };

/* --- the last minute --- */

static void
add (LlmctlHistory *history,
     double         seconds,
     guint64        n)
{
  g_autoptr(GVariant) statistics =
      g_variant_ref_sink (g_variant_new_parsed ("{'slo-met': <%t>}", n));

  llmctl_history_add (history, (gint64) (seconds * G_USEC_PER_SEC), statistics);
}

static void
test_history (void)
{
  g_auto(LlmctlHistory) history = { G_QUEUE_INIT };

  g_assert_false (llmctl_history_has_rates (&history));
  g_assert_cmpuint (llmctl_history_get_recent (&history, "slo-met"), ==, 0);
  add (&history, 1000, 50);
  g_assert_false (llmctl_history_has_rates (&history));
  g_assert_cmpuint (llmctl_history_get_recent (&history, "slo-met"), ==, 0);
  add (&history, 1002, 60);
  g_assert_true (llmctl_history_has_rates (&history));
  g_assert_cmpfloat (llmctl_history_get_rate (&history, "slo-met"), ==, 5);
  g_assert_cmpfloat (llmctl_history_get_rate (&history, "missing"), ==, 0);
  g_assert_cmpuint (llmctl_history_get_recent (&history, "slo-met"), ==, 10);

  /* what is older than a minute is not part of it */
  for (guint i = 3; i <= 200; i++)
    add (&history, 1000 + i, 60 + i);
  g_assert_cmpuint (llmctl_history_get_recent (&history, "slo-met"), ==, 60);
  g_assert_cmpfloat (llmctl_history_get_rate (&history, "slo-met"), ==, 1);

  /* one that began anew has not gone back */
  add (&history, 1201, 3);
  g_assert_cmpfloat (llmctl_history_get_rate (&history, "slo-met"), ==, 0);
  llmctl_history_clear (&history);
  g_assert_false (llmctl_history_has_rates (&history));
}

/* Looks ten times a second are not all kept, and the minute is one all the same. */
static void
test_history_often (void)
{
  g_auto(LlmctlHistory) history = { G_QUEUE_INIT };

  for (guint i = 0; i <= 1200; i++)
    add (&history, i / 10.0, i);
  g_assert_cmpuint (llmctl_history_get_recent (&history, "slo-met"), >=, 600);
  g_assert_cmpuint (llmctl_history_get_recent (&history, "slo-met"), <=, 605);
  g_assert_cmpfloat_with_epsilon (llmctl_history_get_rate (&history, "slo-met"), 10, 0.001);
}

/* --- lines --- */

static void
test_frame (void)
{
  g_autoptr(LlmctlFrame) plain = llmctl_frame_new (10, FALSE);
  g_autoptr(LlmctlFrame) styled = llmctl_frame_new (6, TRUE);

  llmctl_frame_put (plain, LLMCTL_STYLE_BOLD, "0123456789abc");
  llmctl_frame_end_line (plain);
  llmctl_frame_put (plain, LLMCTL_STYLE_BAD, "a\033[31m\n\tb");
  llmctl_frame_end_line (plain);
  /* a character of two columns that has room for one is left out */
  llmctl_frame_put (plain, LLMCTL_STYLE_PLAIN, "汉汉汉汉x汉汉");
  llmctl_frame_end_line (plain);
  llmctl_frame_put (plain, LLMCTL_STYLE_PLAIN, "ab");
  llmctl_frame_put_right (plain, LLMCTL_STYLE_PLAIN, 9, "xyz");
  llmctl_frame_end_line (plain);
  /* no room: one column between them all the same */
  llmctl_frame_put (plain, LLMCTL_STYLE_PLAIN, "abcdef");
  llmctl_frame_put_right (plain, LLMCTL_STYLE_PLAIN, 5, "xyz");
  llmctl_frame_end_line (plain);

  g_assert_cmpuint (plain->lines->len, ==, 5);
  g_assert_cmpstr ((const char *) g_ptr_array_index (plain->lines, 0), ==, "0123456789");
  g_assert_cmpstr ((const char *) g_ptr_array_index (plain->lines, 1), ==, "a\357\277\275[31m  b");
  g_assert_cmpstr ((const char *) g_ptr_array_index (plain->lines, 2), ==, "汉汉汉汉x");
  g_assert_cmpstr ((const char *) g_ptr_array_index (plain->lines, 3), ==, "ab    xyz");
  g_assert_cmpstr ((const char *) g_ptr_array_index (plain->lines, 4), ==, "abcdef xyz");

  llmctl_frame_put (styled, LLMCTL_STYLE_BAD, "too long");
  llmctl_frame_end_line (styled);
  g_assert_cmpstr ((const char *) g_ptr_array_index (styled->lines, 0), ==, "\006too lo\001");
}

/* --- the machine, as files say it is --- */

typedef struct
{
  char *root;
  LlmctlDoctor doctor;
} Fixture;

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  fixture->root = llm_test_folder_new ();
  llmctl_doctor_init (&fixture->doctor);
  fixture->doctor.root = fixture->root;
  fixture->doctor.pid = 77;
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  llmctl_doctor_clear (&fixture->doctor);
  llm_test_folder_remove (fixture->root);
  g_free (fixture->root);
}

static void
write_file (Fixture    *fixture,
            const char *path,
            const char *text)
{
  g_autofree char *full = g_build_filename (fixture->root, path, NULL);
  g_autofree char *folder = g_path_get_dirname (full);
  g_autoptr(GError) error = NULL;

  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  g_file_set_contents (full, text, -1, &error);
  g_assert_no_error (error);
}

static void
run_check (Fixture    *fixture,
           const char *name)
{
  const LlmctlCheck *const tables[] = {
    llmctl_doctor_service_checks, llmctl_doctor_machine_checks, llmctl_doctor_http_checks,
  };

  for (gsize i = 0; i < G_N_ELEMENTS (tables); i++)
    for (const LlmctlCheck *check = tables[i]; check->name != NULL; check++)
      if (g_str_equal (check->name, name))
        {
          fixture->doctor.check = name;
          check->run (&fixture->doctor);
          return;
        }
  g_assert_not_reached ();
}

/* Of the last findings about @check. */
static void
assert_finding (Fixture          *fixture,
                const char       *check,
                LlmctlDoctorLevel level,
                const char       *text)
{
  GVariant *found = NULL;

  for (guint i = 0; i < fixture->doctor.findings->len; i++)
    {
      GVariant *finding = g_ptr_array_index (fixture->doctor.findings, i);

      if (g_str_equal (llmctl_dict_get_string (finding, "check"), check))
        found = finding;
    }
  g_assert_nonnull (found);
  if (strstr (llmctl_dict_get_string (found, "text"), text) == NULL)
    g_error ("“%s” has no “%s”", llmctl_dict_get_string (found, "text"), text);
  g_assert_cmpstr (llmctl_dict_get_string (found, "level"), ==, llmctl_doctor_levels[level]);
}

static void
test_psi (Fixture      *fixture,
          gconstpointer data)
{
  run_check (fixture, "psi");
  assert_finding (fixture, "psi", LLMCTL_DOCTOR_WARN, "does not tell of memory pressure");

  /* there, but switched off */
  write_file (fixture, "proc/pressure/memory", "");
  run_check (fixture, "psi");
  assert_finding (fixture, "psi", LLMCTL_DOCTOR_WARN, "does not tell of memory pressure");

  write_file (fixture, "proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
  run_check (fixture, "psi");
  assert_finding (fixture, "psi", LLMCTL_DOCTOR_OK, "at once");
}

static void
test_io_uring (Fixture      *fixture,
               gconstpointer data)
{
  write_file (fixture, "proc/sys/kernel/io_uring_disabled", "2\n");
  run_check (fixture, "io_uring");
  assert_finding (fixture, "io_uring", LLMCTL_DOCTOR_NOTE, "io_uring_disabled=2");
}

/* Whether the endpoint is on, and who may. */
static void
test_http (Fixture      *fixture,
           gconstpointer data)
{
  static const char listens[] = "   4: 0100007F:21C5 00000000:0000 0A 00000000:00000000 00:00000000\n";

  run_check (fixture, "http");
  g_assert_cmpuint (fixture->doctor.findings->len, ==, 0);
  write_file (fixture, LLM_LIBEXECDIR "/llmsvc-http", "");
  run_check (fixture, "http");
  assert_finding (fixture, "http", LLMCTL_DOCTOR_NOTE, "off");
  write_file (fixture, "run/llmsvc-http.sock", "");
  run_check (fixture, "http");
  assert_finding (fixture, "http", LLMCTL_DOCTOR_OK, "/run/llmsvc-http.sock");
  write_file (fixture, "proc/net/tcp", listens);
  run_check (fixture, "http");
  assert_finding (fixture, "http", LLMCTL_DOCTOR_WARN, "no application has a key");
  write_file (fixture, "etc/llmsvc/http-keys", "[notes]\nuser=1000\nhash=00\n");
  run_check (fixture, "http");
  assert_finding (fixture, "http", LLMCTL_DOCTOR_OK, "1 application with a key");
}

static void
test_group (Fixture      *fixture,
            gconstpointer data)
{
  write_file (fixture, "proc/77/cgroup", "0::/a.slice/b.service\n");
  run_check (fixture, "cgroup");
  assert_finding (fixture, "cgroup", LLMCTL_DOCTOR_OK, "No control group");

  /* the tightest one is above it */
  write_file (fixture, "sys/fs/cgroup/a.slice/b.service/memory.max", "4294967296\n");
  write_file (fixture, "sys/fs/cgroup/a.slice/memory.max", "1073741824\n");
  run_check (fixture, "cgroup");
  assert_finding (fixture, "cgroup", LLMCTL_DOCTOR_NOTE, "1.0");
  write_file (fixture, "sys/fs/cgroup/a.slice/memory.max", "max\n");
  run_check (fixture, "cgroup");
  assert_finding (fixture, "cgroup", LLMCTL_DOCTOR_NOTE, "4.0");

  /* the older kind, and its number for no limit */
  write_file (fixture, "proc/77/cgroup", "9:cpu:/x\n5:memory:/group\n");
  write_file (fixture, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  run_check (fixture, "cgroup");
  assert_finding (fixture, "cgroup", LLMCTL_DOCTOR_OK, "No control group");
  write_file (fixture, "sys/fs/cgroup/memory/group/memory.limit_in_bytes", "2147483648\n");
  run_check (fixture, "cgroup");
  assert_finding (fixture, "cgroup", LLMCTL_DOCTOR_NOTE, "2.0");

  /* what is no path is not followed */
  write_file (fixture, "proc/77/cgroup", "0::/../../etc\n0\n::::\n0::relative\n");
  run_check (fixture, "cgroup");
  assert_finding (fixture, "cgroup", LLMCTL_DOCTOR_OK, "No control group");
}

static void
use_model (Fixture *fixture,
           guint64  bytes)
{
  g_clear_pointer (&fixture->doctor.model, g_variant_unref);
  fixture->doctor.model = g_variant_ref_sink (
      g_variant_new_parsed ("{'Id': <'big'>, 'Info': <{'file-bytes': <%t>}>}", bytes));
}

/* The finding about room is the one before the last about the model. */
static void
assert_room (Fixture          *fixture,
             LlmctlDoctorLevel level,
             const char       *text)
{
  run_check (fixture, "model");
  g_ptr_array_set_size (fixture->doctor.findings,
                        (int) fixture->doctor.findings->len - 1);
  assert_finding (fixture, "model", level, text);
}

static void
test_room (Fixture      *fixture,
           gconstpointer data)
{
  fixture->doctor.bus_type = G_BUS_TYPE_SYSTEM;
  fixture->doctor.service = g_variant_ref_sink (g_variant_new_parsed ("@a{sv} {}"));
  write_file (fixture, "proc/meminfo",
              "MemTotal:        8388608 kB\nMemFree: 1 kB\nMemAvailable:    2097152 kB\n");
  use_model (fixture, G_GUINT64_CONSTANT (1) << 30);
  assert_room (fixture, LLMCTL_DOCTOR_OK, "of memory are available");
  use_model (fixture, G_GUINT64_CONSTANT (3) << 30);
  assert_room (fixture, LLMCTL_DOCTOR_WARN, "only 2.0");
  use_model (fixture, G_GUINT64_CONSTANT (7) << 30);
  assert_room (fixture, LLMCTL_DOCTOR_FAIL, "the machine 8.0");

  /* what it holds already it need not have twice */
  fixture->doctor.memory = g_variant_ref_sink (
      g_variant_new_parsed ("{'Weights': <%t>}", G_GUINT64_CONSTANT (3) << 30));
  use_model (fixture, G_GUINT64_CONSTANT (3) << 30);
  assert_room (fixture, LLMCTL_DOCTOR_OK, "of memory are available");

  /* the machine has room, and its control group has not */
  fixture->doctor.statistics = g_variant_ref_sink (g_variant_new_parsed (
    "{'group-limit-bytes': <%t>, 'group-usage-bytes': <%t>, 'streaming-bytes': <%t>}",
    G_GUINT64_CONSTANT (400) << 20, G_GUINT64_CONSTANT (300) << 20,
    G_GUINT64_CONSTANT (200) << 20));
  assert_room (fixture, LLMCTL_DOCTOR_WARN, "the control group of the service 400");
  use_model (fixture, G_GUINT64_CONSTANT (350) << 20);
  assert_room (fixture, LLMCTL_DOCTOR_OK, "100.0");
  g_clear_pointer (&fixture->doctor.memory, g_variant_unref);
  fixture->doctor.memory = g_variant_ref_sink (g_variant_new_parsed ("{'Pressure': <'none'>}"));
  run_check (fixture, "memory");
  g_ptr_array_set_size (fixture->doctor.findings, (int) fixture->doctor.findings->len - 1);
  assert_finding (fixture, "memory", LLMCTL_DOCTOR_WARN, "each token reads 200");
}

static void
test_worst (Fixture      *fixture,
            gconstpointer data)
{
  g_assert_cmpint (fixture->doctor.worst, ==, LLMCTL_DOCTOR_OK);
  fixture->doctor.check = "one";
  llmctl_doctor_add (&fixture->doctor, LLMCTL_DOCTOR_WARN, "do \377 it", "it is \377 so");
  fixture->doctor.check = "two";
  llmctl_doctor_add (&fixture->doctor, LLMCTL_DOCTOR_NOTE, NULL, "%d", 2);
  g_assert_cmpint (fixture->doctor.worst, ==, LLMCTL_DOCTOR_WARN);
  assert_finding (fixture, "one", LLMCTL_DOCTOR_WARN, "it is \357\277\275 so");
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/llmctl/history/minute", test_history);
  g_test_add_func ("/llmctl/history/often", test_history_often);
  g_test_add_func ("/llmctl/frame", test_frame);
#define ADD(path, function) \
  g_test_add ("/llmctl/doctor/" path, Fixture, NULL, set_up, function, tear_down)
  ADD ("psi", test_psi);
  ADD ("http", test_http);
  ADD ("io-uring", test_io_uring);
  ADD ("group", test_group);
  ADD ("room", test_room);
  ADD ("worst", test_worst);

  return g_test_run ();
}
