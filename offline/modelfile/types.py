# SPDX-License-Identifier: LGPL-2.1-or-later
"""Number formats of tensors."""
import collections

# The number in a file, weights and bytes of a block.
Type = collections.namedtuple("Type", "number block_size block_bytes")

TYPES = {
    "F32": Type(0, 1, 4), "F16": Type(1, 1, 2), "BF16": Type(30, 1, 2), "Q4_0": Type(2, 32, 18),
    "Q4_1": Type(3, 32, 20), "Q5_0": Type(6, 32, 22), "Q5_1": Type(7, 32, 24),
    "Q8_0": Type(8, 32, 34), "Q2_K": Type(10, 256, 84), "Q3_K": Type(11, 256, 110),
    "Q4_K": Type(12, 256, 144), "Q5_K": Type(13, 256, 176), "Q6_K": Type(14, 256, 210),
    "IQ4_NL": Type(20, 32, 18), "IQ4_XS": Type(23, 256, 136), "MXFP4": Type(39, 32, 17),
    "IQ2_XXS": Type(16, 256, 66), "IQ2_XS": Type(17, 256, 74), "IQ2_S": Type(22, 256, 82),
    "IQ3_XXS": Type(18, 256, 98), "IQ3_S": Type(21, 256, 110), "Q1_0": Type(41, 128, 18),
}
