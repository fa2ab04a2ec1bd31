/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "io/llm-map-guard.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* One mapping as the signal handler sees it. The handler may run in any thread
 * at any time, so it reads nothing but these. @begin is written last when a
 * mapping is entered and first when it is taken out. */
struct _LlmMapGuard
{
  _Atomic (uintptr_t) begin;  /* 0 while the entry is free */
  _Atomic (uintptr_t) end;
  atomic_bool is_damaged;
};

static LlmMapGuard guards[LLM_MAX_MAP_GUARDS];
static GMutex guards_lock;
static uintptr_t page_size;
static struct sigaction previous_action;

/* Restores the default action. */
static void
pass_on_signal (int        number,
                siginfo_t *info,
                void      *context)
{
  if ((previous_action.sa_flags & SA_SIGINFO) != 0)
    {
      previous_action.sa_sigaction (number, info, context);
    }
  else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN)
    {
      previous_action.sa_handler (number);
    }
  else if (info->si_code > 0 || previous_action.sa_handler == SIG_DFL)
    {
      /* The access is tried again when we return and then ends the process; a signal that a process
       * sent has to be sent again. */
      struct sigaction action = { .sa_handler = SIG_DFL };

      sigaction (number, &action, NULL);
      if (info->si_code <= 0)
        raise (number);
    }
}

/* A truncated file has lost all that follows, and after a disk error the rest is useless, too: so
 * everything from here on becomes zeros, in one call, rather than a mapping and a signal for each
 * page. */
static void
on_bus_error (int        number,
              siginfo_t *info,
              void      *context)
{
  int saved_errno = errno;
  uintptr_t address = (uintptr_t) info->si_addr;

  for (guint i = 0; info->si_code > 0 && i < LLM_MAX_MAP_GUARDS; i++)
    {
      uintptr_t begin = atomic_load (&guards[i].begin);
      uintptr_t end = atomic_load (&guards[i].end);
      uintptr_t page = address & ~(page_size - 1);

      if (begin == 0 || address < begin || address >= end)
        continue;

      atomic_store (&guards[i].is_damaged, true);
      if (mmap ((void *) page, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                -1, 0) == MAP_FAILED)
        break;
      errno = saved_errno;
      return;
    }

  errno = saved_errno;
  pass_on_signal (number, info, context);
}

void
llm_map_guard_install (void)
{
  struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK };

  page_size = (uintptr_t) sysconf (_SC_PAGESIZE);
  sigemptyset (&action.sa_mask);
  sigaction (SIGBUS, &action, &previous_action);
}

LlmMapGuard *
llm_map_guard_enter (gconstpointer data,
                     guint64       size)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&guards_lock);
  uintptr_t end = (uintptr_t) data + size;

  for (LlmMapGuard *guard = guards; guard < guards + LLM_MAX_MAP_GUARDS; guard++)
    if (atomic_load (&guard->begin) == 0)
      {
        atomic_store (&guard->is_damaged, false);
        atomic_store (&guard->end, (end + page_size - 1) & ~(page_size - 1));
        atomic_store (&guard->begin, (uintptr_t) data);
        return guard;
      }
  return NULL;
}

void
llm_map_guard_leave (LlmMapGuard *self)
{
  g_mutex_lock (&guards_lock);
  atomic_store (&self->begin, 0);
  g_mutex_unlock (&guards_lock);
}

gboolean
llm_map_guard_is_damaged (LlmMapGuard *self)
{
  return atomic_load (&self->is_damaged);
}

void
llm_map_guard_set_damaged (LlmMapGuard *self)
{
  atomic_store (&self->is_damaged, true);
}
