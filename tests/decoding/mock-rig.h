/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A service that answers from a script, and one application that calls it; the
 * calls are bus-rig's. One thread.
 */

#pragma once

#include "bus/bus-rig.h"
#include "support/llm-test-daemon.h"

G_BEGIN_DECLS

typedef struct
{
  LlmTestDaemon *daemon;
  GDBusConnection *app;
} MockRig;

/* @rules: the list of rules, or a whole script when it begins with "{". */
MockRig   *mock_rig_new        (const char        *rules);
MockRig   *mock_rig_new_full   (const char        *rules,
                                const char        *config,
                                LlmTestDaemonFlags flags);
void       mock_rig_free       (MockRig           *rig);

/* Complete; (transfer full): the text. @results: (out) (nullable) (transfer full) */
char      *mock_complete       (MockRig           *rig,
                                const char        *prompt,
                                const char        *options,
                                GVariant         **results);
/* Fails the test unless the answer is @text. */
void       mock_assert_answer  (MockRig           *rig,
                                const char        *prompt,
                                const char        *options,
                                const char        *text);
/* Fails the test unless the call fails with that error. */
void       mock_assert_failure (MockRig           *rig,
                                const char        *prompt,
                                const char        *options,
                                const char        *name,
                                const char        *message);

/* A number of GetStatistics. */
guint64    mock_get_statistic  (MockRig           *rig,
                                const char        *key);

/* A call that is under way. */
typedef struct
{
  char *text;            /* (nullable) (owned) */
  GError *error;         /* (nullable) (owned) */
  gboolean is_done;
} MockCall;

MockCall  *mock_call_begin     (GDBusConnection   *app,
                                const char        *prompt);
/* A BusCondition of a MockCall. */
gboolean   mock_call_is_done   (gpointer           call);
void       mock_call_free      (MockCall          *call);

/* Waits for the first line of a pipe; (transfer full): its text. */
char      *mock_read_piece     (int                fd);
/* What came on a pipe, until its end: the texts of its lines with "|" behind each,
 * then "done REASON", "error NAME", or "gone" when the pipe ended before. Closes
 * @fd. (transfer full) */
char      *mock_read_stream    (int                fd);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (MockRig, mock_rig_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (MockCall, mock_call_free)

G_END_DECLS
