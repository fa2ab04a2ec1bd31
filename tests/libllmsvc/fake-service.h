/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Something on a private bus that calls itself the service and answers what a test says,
 * nonsense above all. Replies are sent from GDBus's thread, so that the test's own may block.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _FakeService FakeService;

/* Brings up the bus. A reply that is not set otherwise is a sensible one. */
FakeService     *fake_service_new         (void);
void             fake_service_free        (FakeService *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (FakeService, fake_service_free)

/* (transfer full): a connection for the client. */
GDBusConnection *fake_service_connect     (FakeService *self);

/* @body: the reply's tuple as GVariant text; NULL for no reply at all. */
void             fake_service_set_reply   (FakeService *self,
                                           const char  *method,
                                           const char  *body);
/* Replies are sensible again. */
void             fake_service_unset_reply (FakeService *self,
                                           const char  *method);
/* @name: an error on the bus; NULL for none. */
void             fake_service_set_error   (FakeService *self,
                                           const char  *method,
                                           const char  *name);
/* What the pipe of Generate carries before it ends. */
void             fake_service_set_pipe    (FakeService *self,
                                           const char  *bytes,
                                           gsize        length);
/* The replies to questions for the revision: @before the first, then @after. */
void             fake_service_set_revision (FakeService *self,
                                            guint64      before,
                                            guint64      after);
void             fake_service_emit        (FakeService *self,
                                           const char  *path,
                                           const char  *interface,
                                           const char  *signal,
                                           const char  *body);
/* (transfer full) (nullable): the arguments of the last call of @method. */
GVariant        *fake_service_dup_arguments (FakeService *self,
                                             const char  *method);

G_END_DECLS
