/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The real llmsvcd on a private bus, for the tests of those who call it. It has
 * its files in a temporary folder, answers with the model that the repository
 * ships, with another one, or from a script (docs/mock.md), and is linkable
 * without any library of the service's. Failures of the helper itself abort the
 * test. One thread; one daemon at a time in a process.
 *
 * The environment names the program ($LLM_DAEMON) and the shipped models
 * ($LLM_MODEL_DIR); llm_test_daemon_env in the meson.build beside this has both.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _LlmTestDaemon LlmTestDaemon;

typedef enum
{
  LLM_TEST_DAEMON_NONE = 0,
  /* The bus starts the service when it is called, as on a user's machine. Without
   * it the service runs from the beginning, and one that was ended stays away
   * until llm_test_daemon_start(). */
  LLM_TEST_DAEMON_ACTIVATABLE = 1 << 0,
  /* With --system: the private bus stands for the system's, and there is no
   * session bus. Without it there is no system bus. */
  LLM_TEST_DAEMON_SYSTEM = 1 << 1,
  /* Without --state-dir: contexts are where a service without it keeps them. */
  LLM_TEST_DAEMON_NO_STATE_DIR = 1 << 2,
} LlmTestDaemonFlags;

/* What is NULL or 0 is as said in brackets. */
typedef struct
{
  const char *model;        /* path of a model file [the shipped one] */
  const char *script;       /* JSON: answers from it, instead of a model [no script] */
  const char *config;       /* content of its llmsvc.conf [empty] */
  const char *environment;  /* "A=b C=d", for the service alone [nothing] */
  LlmTestDaemonFlags flags;
} LlmTestDaemonSetup;

/**
 * llm_test_daemon_new:
 * @setup: (nullable): NULL for the shipped model and nothing special
 *
 * Brings up a private bus, makes it this process' session bus (or system bus)
 * and starts the service there. It owns its name when this returns; the model is
 * perhaps still being loaded.
 */
LlmTestDaemon   *llm_test_daemon_new         (const LlmTestDaemonSetup *setup);
/* Ends the service and the bus and removes the folder. */
void             llm_test_daemon_free        (LlmTestDaemon *self);

/* Of the private bus. */
const char      *llm_test_daemon_get_address (LlmTestDaemon *self);
/* The temporary folder; the service's state is in "state" in it. */
const char      *llm_test_daemon_get_folder  (LlmTestDaemon *self);
/* (transfer full): a connection of its own: another caller for the service. */
GDBusConnection *llm_test_daemon_connect     (LlmTestDaemon *self);
/* The process that owns the service's name now, 0 for none. Asks the bus. */
int              llm_test_daemon_get_pid     (LlmTestDaemon *self);

/* Starts a service that is gone and waits until it owns its name. */
void             llm_test_daemon_start       (LlmTestDaemon *self);
/* Sends @signal to the service and waits until its process is gone and the bus
 * knows. SIGTERM ends it in order, SIGKILL is a crash. */
void             llm_test_daemon_kill        (LlmTestDaemon *self,
                                              int            signal);
/* Waits until the service has ended by itself. */
void             llm_test_daemon_wait_gone   (LlmTestDaemon *self);
/* SIGTERM and a new start, with the same state. */
void             llm_test_daemon_restart     (LlmTestDaemon *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmTestDaemon, llm_test_daemon_free)

G_END_DECLS
