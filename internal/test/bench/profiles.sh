#!/bin/sh
# profiles.sh BENCH FOLDER takes the CPU profiles that cmd/carillon/default.pgo is
# made of: of what the product spends its time with, on both stores, at rates that
# they bear.
set -eu
bench=$1
folder=$2
"$bench" sustained -n 6000 -seconds 30 -runs 1 -before 15s -systems carillon-sqlite -profile "$folder"
"$bench" sustained -n 5000 -seconds 30 -runs 1 -before 15s -systems carillon -profile "$folder"
"$bench" register -n 20000 -runs 1 -systems carillon -profile "$folder"
