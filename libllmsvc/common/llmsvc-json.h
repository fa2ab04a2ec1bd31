/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The little of JSON that both sides of the bus need: values of results, written
 * and read. What is read is untrusted; depth, keys and entries are limited, and
 * the caller limits the bytes. Any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The inside of a string, without its quotes; @text is valid UTF-8. A NUL byte
 * becomes U+FFFD, because neither D-Bus nor C strings can carry it. */
void     llmsvc_json_append_escaped (GString     *out,
                                     const char  *text,
                                     gsize        length);

/* A value of type b, u, t, d, s, as or a{sv} of these; a double that is not
 * finite is written as null. */
void     llmsvc_json_append_value   (GString     *out,
                                     GVariant    *value);

/**
 * llmsvc_json_read_object:
 * @bytes: the text of one object, need not end with NUL
 * @length: its bytes
 * @object: (out) (transfer full): an a{sv}
 * @error: return location for an error
 *
 * Whole numbers become t (below zero x, past 64 bits d), others d, lists of
 * strings as, objects a{sv}. Null and other lists are left out.
 *
 * Returns: whether it is an object by the rules of JSON
 */
gboolean llmsvc_json_read_object    (const char  *bytes,
                                     gsize        length,
                                     GVariant   **object,
                                     GError     **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
