# SPDX-License-Identifier: LGPL-2.1-or-later
"""What llmsvc-distill-draft is made of."""
