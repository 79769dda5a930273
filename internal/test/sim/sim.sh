#!/bin/sh
# Runs the simulator: sim.sh BINARY SEEDS FIRST PROCESSES [SEED]
# Each process makes every PROCESSES-th seed on one core, so that the same seeds
# are made whatever their number.
set -eu
binary=$1 seeds=$2 first=$3 processes=$4 seed=${5-}
if [ -n "$seed" ]; then
	exec "$binary" -test.run '^TestReplay$' -sim.seed "$seed"
fi
pids=
# That a seed is always the same world is worth knowing before.
"$binary" -test.run '^TestASeedIsAlwaysTheSameWorld$'
for n in $(seq 0 $((processes - 1))); do
	"$binary" -test.run '^TestWorlds' -test.timeout 0 -sim.seeds $(((seeds - n + processes - 1) / processes)) -sim.first $((first + n)) -sim.step "$processes" &
	pids="$pids $!"
done
failed=0
for pid in $pids; do
	wait "$pid" || failed=1
done
exit $failed
