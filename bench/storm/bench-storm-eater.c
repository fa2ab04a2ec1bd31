/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "storm/bench-storm-eater.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench-random.h"

#define MIB ((guint64) 1 << 20)
#define PAGE 4096
/* Growing goes in so many steps, */
#define N_STEPS 40
/* and a round renews one of so many parts. */
#define N_PARTS 16
#define IDLE_NS 5000000
#define MS_NS 1000000
#define SEED 7

/* Between the child and this process; each field is written by one side only, but for the two
 * figures that the child clears when it sees a new @order. */
typedef struct
{
  guint64 level;
  guint64 order;        /* counts the levels that were set */
  guint64 seen;         /* the last that the child took up */
  guint64 held;
  guint64 rounds;
  guint64 longest_ns;
} Shared;

/* What the child works on. */
typedef struct
{
  Shared *shared;
  guint8 *memory;
  guint64 most;
  int file;
  guint64 file_bytes;
  gint64 step_ns;
  guint8 *buffer;       /* of a MiB */
} Child;

struct _BenchStormEater
{
  Shared *shared;
  pid_t pid;
};

/* --- the child: after fork in a process with threads, so system calls only --- */

static guint64
load (const guint64 *at)
{
  return __atomic_load_n (at, __ATOMIC_ACQUIRE);
}

static void
store (guint64 *at,
       guint64  value)
{
  __atomic_store_n (at, value, __ATOMIC_RELEASE);
}

static gint64
now_ns (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (gint64) now.tv_sec * 1000000000 + now.tv_nsec;
}

static void
sleep_until (gint64 at_ns)
{
  const struct timespec at = { at_ns / 1000000000, at_ns % 1000000000 };

  while (clock_nanosleep (CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
    ;
}

static gboolean
is_over (const Child *child)
{
  return load (&child->shared->order) != load (&child->shared->seen);
}

static void
note_time (Child *child,
           gint64 begin_ns)
{
  guint64 spent = (guint64) (now_ns () - begin_ns);

  if (spent > load (&child->shared->longest_ns))
    store (&child->shared->longest_ns, spent);
}

static void
touch (Child  *child,
       guint64 begin,
       guint64 end)
{
  for (guint64 at = begin; at < end && !is_over (child);)
    {
      guint64 stop = MIN (at + MIB, end);
      gint64 begin_ns = now_ns ();

      for (; at < stop; at += PAGE)
        (*(volatile guint8 *) &child->memory[at])++;
      note_time (child, begin_ns);
    }
}

static void
grow (Child  *child,
      guint64 level)
{
  gint64 begin_ns = now_ns ();
  guint64 before = 0;

  for (guint step = 1; step <= N_STEPS && !is_over (child); step++)
    {
      guint64 end = level * step / N_STEPS / PAGE * PAGE;

      touch (child, before, end);
      store (&child->shared->held, end);
      before = end;
      sleep_until (begin_ns + step * child->step_ns);
    }
}

static void
read_file (Child *child)
{
  for (guint64 at = 0; at < child->file_bytes && !is_over (child); at += MIB)
    {
      gint64 begin_ns = now_ns ();

      if (pread (child->file, child->buffer, MIB, (off_t) at) < 0)
        return;
      note_time (child, begin_ns);
    }
}

static void
go_round (Child  *child,
          guint64 level,
          guint   part)
{
  guint64 begin = level * part / N_PARTS / PAGE * PAGE;
  guint64 end = level * (part + 1) / N_PARTS / PAGE * PAGE;

  madvise (child->memory + begin, end - begin, MADV_DONTNEED);
  touch (child, 0, level / PAGE * PAGE);
  read_file (child);
}

static void
run_level (Child *child)
{
  Shared *shared = child->shared;
  guint64 order = load (&shared->order);
  guint64 level = MIN (load (&shared->level), child->most);
  guint part = 0;

  store (&shared->rounds, 0);
  store (&shared->longest_ns, 0);
  store (&shared->seen, order);
  if (level == 0)
    {
      madvise (child->memory, child->most, MADV_DONTNEED);
      posix_fadvise (child->file, 0, 0, POSIX_FADV_DONTNEED);
      store (&shared->held, 0);
      return;
    }
  grow (child, level);
  while (!is_over (child))
    {
      gint64 begin_ns = now_ns ();

      go_round (child, level, part++ % N_PARTS);
      if (!is_over (child))
        store (&shared->rounds, load (&shared->rounds) + 1);
      /* who is late does not catch up */
      while (!is_over (child) && now_ns () < begin_ns + BENCH_STORM_ROUND_MS * MS_NS)
        sleep_until (MIN (now_ns () + IDLE_NS, begin_ns + BENCH_STORM_ROUND_MS * MS_NS));
    }
}

static void
run_child (Child           *child,
           BenchStormGroup *group,
           pid_t            parent)
{
  prctl (PR_SET_PDEATHSIG, SIGKILL);
  if (getppid () != parent || !bench_storm_group_enter (group, BENCH_STORM_EATER))
    _exit (1);
  for (;;)
    {
      if (is_over (child))
        run_level (child);
      sleep_until (now_ns () + IDLE_NS);
    }
}

/* --- this process --- */

/* Random bytes, on the disk only. */
static int
make_file (const char  *path,
           guint64      bytes,
           GError     **error)
{
  g_autofree guint64 *words = g_malloc (MIB);
  BenchRandom random = { SEED };
  gboolean is_written = TRUE;
  int fd = open (path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

  for (guint64 at = 0; fd >= 0 && is_written && at < bytes; at += MIB)
    {
      gsize size = (gsize) MIN (MIB, bytes - at);

      for (gsize i = 0; i < MIB / sizeof *words; i++)
        words[i] = bench_random_next (&random);
      is_written = pwrite (fd, words, size, (off_t) at) == (gssize) size;
    }
  if (fd >= 0 && is_written && fdatasync (fd) == 0)
    {
      posix_fadvise (fd, 0, 0, POSIX_FADV_DONTNEED);
      return fd;
    }
  g_set_error (error, G_IO_ERROR, (int) g_io_error_from_errno (errno), "%s: %s", path,
               g_strerror (errno));
  if (fd >= 0)
    close (fd);
  return -1;
}

BenchStormEater *
bench_storm_eater_new (BenchStormGroup *group,
                       guint64          most,
                       const char      *file,
                       guint64          file_bytes,
                       guint            grow_ms,
                       GError         **error)
{
  Child child = { .most = (most + PAGE - 1) / PAGE * PAGE, .file_bytes = file_bytes };
  pid_t own = getpid ();
  BenchStormEater *self;

  child.file = make_file (file, file_bytes, error);
  if (child.file < 0)
    return NULL;
  child.step_ns = (gint64) grow_ms * MS_NS / N_STEPS;
  child.shared = mmap (NULL, sizeof (Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0);
  child.memory = mmap (NULL, child.most, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  child.buffer = mmap (NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (child.shared == MAP_FAILED || child.memory == MAP_FAILED || child.buffer == MAP_FAILED)
    g_error ("No addresses for %" G_GUINT64_FORMAT " bytes", child.most);
  /* pages of one size, so that a step is the same everywhere */
  madvise (child.memory, child.most, MADV_NOHUGEPAGE);

  self = g_new0 (BenchStormEater, 1);
  self->shared = child.shared;
  self->pid = fork ();
  if (self->pid == 0)
    run_child (&child, group, own);
  if (self->pid < 0)
    g_error ("No process can be started");
  munmap (child.memory, child.most);
  munmap (child.buffer, MIB);
  close (child.file);
  return self;
}

void
bench_storm_eater_free (BenchStormEater *self)
{
  if (self == NULL)
    return;
  if (bench_storm_eater_is_alive (self))
    {
      kill (self->pid, SIGKILL);
      waitpid (self->pid, NULL, 0);
    }
  munmap (self->shared, sizeof (Shared));
  g_free (self);
}

void
bench_storm_eater_set_level (BenchStormEater *self,
                             guint64          bytes)
{
  store (&self->shared->level, bytes);
  store (&self->shared->order, load (&self->shared->order) + 1);
}

guint64
bench_storm_eater_get_held (BenchStormEater *self)
{
  return load (&self->shared->held);
}

guint64
bench_storm_eater_get_rounds (BenchStormEater *self)
{
  return load (&self->shared->rounds);
}

double
bench_storm_eater_get_longest_ms (BenchStormEater *self)
{
  return (double) load (&self->shared->longest_ns) / MS_NS;
}

gboolean
bench_storm_eater_is_alive (BenchStormEater *self)
{
  if (self->pid > 0 && waitpid (self->pid, NULL, WNOHANG) != 0)
    self->pid = 0;
  return self->pid > 0;
}
