# SPDX-License-Identifier: LGPL-2.1-or-later

complete --command llmsvcd --no-files
complete --command llmsvcd --long-option help --description 'Show help options'
complete --command llmsvcd --long-option session --description 'Serve one user on the session bus'
complete --command llmsvcd --long-option system --description 'Serve all users on the system bus'
complete --command llmsvcd --long-option config --require-parameter --force-files --description 'Read this configuration'
complete --command llmsvcd --long-option model --require-parameter --force-files --description 'Answer with this model'
complete --command llmsvcd --long-option state-dir --require-parameter --force-files --description 'Keep contexts in this folder'
complete --command llmsvcd --long-option mock --require-parameter --force-files --description 'Answer from this script instead of a model'
complete --command llmsvcd --long-option version --description 'Print the version and exit'
