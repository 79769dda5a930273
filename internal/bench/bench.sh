#!/bin/sh
# make bench: each of $WORKLOADS in turn, with the program given. Only what is
# set is handed on; docs/benchmarks.md has the defaults.
set -eu
bench=$1

for workload in ${WORKLOADS:-herd steps}; do
	if [ "$workload" = steps ]; then
		# The hot parts alone; the lines are what benchstat reads.
		go test -run '^$' -bench "${BENCH:-.}" -benchmem -count "${RUNS:-3}" \
			./internal/schedule/cronexpr ./internal/plan ./internal/store/postgres ./internal/store/sqlite
		continue
	fi
	set -- "$workload"
	[ -z "${N:-}" ] || set -- "$@" -n "$N"
	[ -z "${RUNS:-}" ] || set -- "$@" -runs "$RUNS"
	[ -z "${PEERS:-}" ] || set -- "$@" -systems "carillon,$PEERS"
	[ -z "${OUT:-}" ] || set -- "$@" -out "$OUT"
	"$bench" "$@"
done
