/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the C library says of files and memory ends some messages of the service.
 * The service translates messages whole, so these have a place in its translations.
 * Only read by xgettext.
 */

N_("No such file or directory")
N_("Permission denied")
N_("Operation not permitted")
N_("No space left on device")
N_("Disk quota exceeded")
N_("Read-only file system")
N_("Input/output error")
N_("Is a directory")
N_("Not a directory")
N_("Too many open files")
N_("Too many open files in system")
N_("Cannot allocate memory")
