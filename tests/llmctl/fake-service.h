/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A service that is none: owns the name on a private session bus, has a method that no
 * llmctl was written for, and objects that answer introspection with what they should
 * not. Runs in the test's main context; one at a time.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _FakeService FakeService;

/* A bus on which starting the service makes a file, and help for its interfaces in the
 * data folders of the environment. Nobody owns the name yet. */
FakeService *fake_service_new        (void);
/* Owns the name. */
void         fake_service_start      (FakeService *self);
void         fake_service_free       (FakeService *self);

/* Whether the bus was asked to start the service. */
gboolean     fake_service_was_started (FakeService *self);
/* Whether Hang(), which never answers, or Endless(), whose stream never ends, has been
 * called since the last question. */
gboolean     fake_service_take_hanging (FakeService *self);

/* How many objects /org/llm/Service/hostile/0 and so on there are. */
guint        fake_service_count_hostile (void);

G_END_DECLS
