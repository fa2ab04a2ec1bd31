/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Readings of memory from made-up kernel files, of both versions of control groups. */

#include "memory/llm-memory-reading.h"

#include <stdarg.h>

#include "base/llm-clock.h"
#include "support/llm-test-folder.h"

typedef struct
{
  char *root;
} Fixture;

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  fixture->root = llm_test_folder_new ();
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  llm_test_folder_remove (fixture->root);
  g_free (fixture->root);
}

G_GNUC_PRINTF (3, 4)
static void
put (Fixture    *fixture,
     const char *path,
     const char *format,
     ...)
{
  g_autofree char *full = g_build_filename (fixture->root, path, NULL);
  g_autofree char *folder = g_path_get_dirname (full);
  g_autofree char *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  g_assert_true (g_file_set_contents (full, text, -1, NULL));
}

static void
put_group_v1 (Fixture    *fixture,
              const char *folder,
              guint64     limit,
              guint64     usage,
              guint64     cache)
{
  g_autofree char *limit_path = g_build_filename (folder, "memory.limit_in_bytes", NULL);
  g_autofree char *usage_path = g_build_filename (folder, "memory.usage_in_bytes", NULL);
  g_autofree char *stat_path = g_build_filename (folder, "memory.stat", NULL);

  put (fixture, limit_path, "%ju\n", limit);
  put (fixture, usage_path, "%ju\n", usage);
  put (fixture, stat_path,
       "cache 9\ninactive_file 1\nactive_file 2\ntotal_cache 7\ntotal_inactive_file %ju\n"
       "total_active_file %ju\ntotal_unevictable 0\n",
       cache - cache / 2, cache / 2);
}

/* The tightest of all groups above ours counts: the one with the least room, not the least
 * limit. */
static void
test_v1 (Fixture      *fixture,
         gconstpointer data)
{
  g_autoptr(LlmMemoryGroups) groups = NULL;
  LlmGroupUsage usage;
  gboolean is_v1 = FALSE;

  put (fixture, "proc/self/cgroup", "9:name=systemd:/a\n4:cpu,memory:/a/b\n0::/\n");
  put (fixture, "proc/self/mountinfo",
       "35 31 0:32 / /sys/fs/cgroup/my\\040memory rw,relatime - cgroup cgroup rw,memory\n"
       "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  put_group_v1 (fixture, "sys/fs/cgroup/my memory", 9223372036854771712u, 5, 0);
  put_group_v1 (fixture, "sys/fs/cgroup/my memory/a", 1000, 900, 200);
  put_group_v1 (fixture, "sys/fs/cgroup/my memory/a/b", 800, 100, 0);
  groups = llm_memory_groups_new (fixture->root);
  llm_memory_groups_read (groups, &usage);
  g_assert_cmpuint (usage.limit, ==, 1000);
  g_assert_cmpuint (usage.usage, ==, 900);
  g_assert_cmpuint (usage.cache, ==, 200);
  g_assert_cmpuint (llm_group_usage_get_room (&usage), ==, 300);
  g_assert_true (g_str_has_suffix (llm_memory_groups_get_tightest (groups, &is_v1), "my memory/a"));
  g_assert_true (is_v1);

  put_group_v1 (fixture, "sys/fs/cgroup/my memory/a/b", 800, 700, 0);
  llm_memory_groups_read (groups, &usage);
  g_assert_cmpuint (usage.limit, ==, 800);
  /* more cache than usage, as the kernel counts them at different times */
  put_group_v1 (fixture, "sys/fs/cgroup/my memory/a/b", 10, 700, 5000);
  llm_memory_groups_read (groups, &usage);
  g_assert_cmpuint (llm_group_usage_get_room (&usage), ==, 10);
}

static void
test_v2 (Fixture      *fixture,
         gconstpointer data)
{
  g_autoptr(LlmMemoryGroups) groups = NULL;
  LlmGroupUsage usage;

  put (fixture, "proc/self/cgroup", "0::/system.slice/llmsvc.service\n");
  put (fixture, "proc/self/mountinfo",
       "41 31 0:38 /system.slice /sys/fs/cgroup rw - cgroup2 c rw\n");
  put (fixture, "sys/fs/cgroup/memory.max", "max\n");
  put (fixture, "sys/fs/cgroup/llmsvc.service/memory.max", "4000\n");
  put (fixture, "sys/fs/cgroup/llmsvc.service/memory.high", "3000\n");
  put (fixture, "sys/fs/cgroup/llmsvc.service/memory.current", "2500\n");
  put (fixture, "sys/fs/cgroup/llmsvc.service/memory.stat",
       "anon 3\nactive_file 100\ninactive_file 50\n");
  groups = llm_memory_groups_new (fixture->root);
  llm_memory_groups_read (groups, &usage);
  g_assert_cmpuint (usage.limit, ==, 3000);
  g_assert_cmpuint (llm_group_usage_get_room (&usage), ==, 650);
  g_assert_true (g_str_has_suffix (llm_memory_groups_get_v2 (groups), "/llmsvc.service"));

  put (fixture, "sys/fs/cgroup/llmsvc.service/memory.max", "garbage\n");
  put (fixture, "sys/fs/cgroup/llmsvc.service/memory.high", "max\n");
  llm_memory_groups_read (groups, &usage);
  g_assert_cmpuint (usage.limit, ==, 0);
  g_assert_cmpuint (llm_group_usage_get_room (&usage), ==, G_MAXUINT64);
}

/* Without any, or with files that make no sense, there is no limit. */
static void
test_none (Fixture      *fixture,
           gconstpointer data)
{
  static const char *const mountinfos[] = {
    "", "1 2 3\n", "1 2 3 4 5 6 - \n", "x - cgroup2\n", "41 31 0:38 / /nowhere rw - cgroup2 c rw\n",
  };
  LlmGroupUsage usage;

  for (guint i = 0; i < G_N_ELEMENTS (mountinfos); i++)
    {
      g_autoptr(LlmMemoryGroups) groups = NULL;

      put (fixture, "proc/self/cgroup", "%s",
           i == 3 ? "0::/../..\n" : "0::/a\nnonsense\n4:memory:\n");
      put (fixture, "proc/self/mountinfo", "%s", mountinfos[i]);
      groups = llm_memory_groups_new (fixture->root);
      llm_memory_groups_read (groups, &usage);
      g_assert_cmpuint (usage.limit, ==, 0);
    }
}

static void
put_stalls (Fixture *fixture,
            guint64  some_us,
            guint64  full_us)
{
  put (fixture, "proc/pressure/memory",
       "some avg10=0.00 avg60=0.00 avg300=0.00 total=%ju\n"
       "full avg10=0.00 avg60=0.00 avg300=0.00 total=%ju\n",
       some_us, full_us);
}

/* Shares are of the last second, whatever happened before. */
static void
test_stalls (Fixture      *fixture,
             gconstpointer data)
{
  g_autoptr(LlmMemoryReader) reader = NULL;
  LlmMemoryReading reading;
  gint64 now = 1000000;

  put (fixture, "proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 250 kB\nSwapFree: 7 kB\n");
  put_stalls (fixture, 5000000, 100);
  reader = llm_memory_reader_new (fixture->root);
  llm_clock_set_for_test (now);
  llm_memory_reader_read (reader, &reading);
  g_assert_cmpfloat (reading.machine.some, ==, 0);
  g_assert_cmpuint (reading.total, ==, 1000 * 1024);
  g_assert_cmpuint (reading.available, ==, 250 * 1024);
  g_assert_cmpuint (reading.swap_free, ==, 7 * 1024);
  g_assert_cmpuint (reading.stalled_us, ==, 5000000);

  put_stalls (fixture, 5200000, 50100);
  llm_clock_set_for_test (now += 1000000);
  llm_memory_reader_read (reader, &reading);
  g_assert_cmpfloat_with_epsilon (reading.machine.some, 0.2, 1e-9);
  g_assert_cmpfloat_with_epsilon (reading.machine.full, 0.05, 1e-9);

  for (guint i = 0; i < 20; i++)
    {
      llm_clock_set_for_test (now += 100000);
      llm_memory_reader_read (reader, &reading);
    }
  g_assert_cmpfloat (reading.machine.some, ==, 0);

  /* seen at once, within a tenth of a second */
  put_stalls (fixture, 5300000, 50100);
  llm_clock_set_for_test (now += 100000);
  llm_memory_reader_read (reader, &reading);
  g_assert_cmpfloat (reading.machine.some, >, 0.09);
  g_assert_cmpfloat (reading.machine.some, <, 0.2);

  /* a counter that went back, or is gone */
  put_stalls (fixture, 1, 1);
  llm_clock_set_for_test (now += 1000000);
  llm_memory_reader_read (reader, &reading);
  g_assert_cmpfloat (reading.machine.some, ==, 0);
  put (fixture, "proc/pressure/memory", "off\n");
  llm_memory_reader_read (reader, &reading);
  g_assert_cmpfloat (reading.machine.some, ==, 0);
  llm_clock_set_for_test (-1);
}

static void
test_hint (Fixture      *fixture,
           gconstpointer data)
{
  g_autoptr(LlmMemoryReader) reader = llm_memory_reader_new (fixture->root);
  LlmMemoryReading reading;

  llm_clock_set_for_test (10000000);
  llm_memory_reader_set_hint (reader, LLM_PRESSURE_CRITICAL);
  llm_memory_reader_set_hint (reader, LLM_PRESSURE_LOW);
  llm_memory_reader_read (reader, &reading);
  g_assert_cmpint (reading.hint, ==, LLM_PRESSURE_CRITICAL);
  g_assert_cmpuint (reading.total, ==, 0);
  llm_clock_set_for_test (20000000);
  llm_memory_reader_read (reader, &reading);
  g_assert_cmpint (reading.hint, ==, LLM_PRESSURE_NONE);
  llm_clock_set_for_test (-1);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/reading/groups-v1", Fixture, NULL, set_up, test_v1, tear_down);
  g_test_add ("/reading/groups-v2", Fixture, NULL, set_up, test_v2, tear_down);
  g_test_add ("/reading/no-groups", Fixture, NULL, set_up, test_none, tear_down);
  g_test_add ("/reading/stalls", Fixture, NULL, set_up, test_stalls, tear_down);
  g_test_add ("/reading/hint", Fixture, NULL, set_up, test_hint, tear_down);
  return g_test_run ();
}
