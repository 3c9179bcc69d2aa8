#!/bin/bash
# Trains on all GPUs of one machine. Arguments are those of nmt-train:
#
#   bash deploy/torchrun.sh +experiment=multi30k name=big
#
# PROCESSES=2 sets another number of processes. A process that fails is restarted with all others, up to three times,
# and the run continues from its last checkpoint.
set -euo pipefail
exec torchrun --standalone --nproc-per-node="${PROCESSES:-gpu}" --max-restarts=3 --no-python \
  nmt-train "$@"
