/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Models as #LlmsvcClient makes and follows them; its thread. */

#pragma once

#include "llmsvc-model.h"

G_BEGIN_DECLS

/* @path: its object on the bus; @properties: a{sv} of its interface. */
LlmsvcModel *llmsvc_model_new      (const char  *path,
                                    GVariant    *properties);
/* Takes the properties that are in @properties. */
void         llmsvc_model_update   (LlmsvcModel *self,
                                    GVariant    *properties);
const char  *llmsvc_model_get_path (LlmsvcModel *self);

G_END_DECLS
