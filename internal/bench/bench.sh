#!/bin/sh
# make bench: each of $WORKLOADS in turn, with the program given. Only what is
# set is handed on; docs/benchmarks.md has the defaults.
set -eu
bench=$1

for workload in ${WORKLOADS:-herd steps}; do
	if [ "$workload" = steps ]; then
		# The hot parts alone; the lines are what benchstat reads.
		go test -run '^$' -bench "${BENCH:-^Benchmark(Next|NeverFires|Parse|Decide1000OrdinarySchedules|Plan|Claim|Begin|Finish|Settle|Life|IdleClaim)$}" \
			-benchmem -count "${RUNS:-6}" -benchtime "${BENCHTIME:-1s}" \
			./internal/schedule/cronexpr ./internal/plan ./internal/store/postgres ./internal/store/sqlite
		continue
	fi
	set -- "$workload"
	[ -z "${N:-}" ] || set -- "$@" -n "$N"
	[ -z "${RUNS:-}" ] || set -- "$@" -runs "$RUNS"
	case $workload in
	herd | sustained | idle) [ -z "${PEERS:-}" ] || set -- "$@" -systems "carillon,$PEERS" ;;
	esac
	[ -z "${OUT:-}" ] || set -- "$@" -out "$OUT"
	# FLAGS are several words.
	# shellcheck disable=SC2086
	"$bench" "$@" ${FLAGS:-}
done
