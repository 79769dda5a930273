#!/bin/sh
# make bench: runs each of $WORKLOADS with the given program, for Carillon and $PEERS
# (none: Carillon only). docs/benchmarks.md has the defaults.
set -eu
bench=$1

for workload in ${WORKLOADS:-burst steps}; do
	if [ "$workload" = steps ]; then
		# The hot parts alone; the lines are what benchstat reads. Transactions of
		# 1,000 rows are counted, not timed: what comes between two costs more.
		go test -run '^$' -bench "${BENCH:-^Benchmark(Next|NeverFires|Parse|Decide1000OrdinarySchedules)$}" \
			-benchmem -count "${RUNS:-6}" -benchtime "${BENCHTIME:-200ms}" ./internal/schedule/cronexpr ./internal/plan
		go test -run '^$' -bench "${BENCH:-^Benchmark(Plan|Claim|Begin|Finish|Settle|Life|IdleClaim)$}" \
			-benchmem -count "${RUNS:-6}" -benchtime "${BENCHTIME:-20x}" ./internal/store/postgres ./internal/store/sqlite
		# What a person waits for: docs/foresight.md.
		go test -run '^$' -bench "${BENCH:-^Benchmark(Previews1000|ForecastOf10000Schedules)$}" \
			-benchmem -count "${RUNS:-6}" -benchtime "${BENCHTIME:-5x}" ./registrar/api
		continue
	fi
	set -- "$workload"
	[ -z "${N:-}" ] || set -- "$@" -n "$N"
	[ -z "${RUNS:-}" ] || set -- "$@" -runs "$RUNS"
	case $workload in
	burst) peers=carillon-sqlite,river-tuned,river-tuned-grpc,graphile-tuned,river-tuned-periodic,river-default,river-default-periodic,robfig ;;
	sustained) peers=carillon-sqlite,river-tuned,river-tuned-periodic,graphile-tuned ;;
	idle) peers=river-tuned ;;
	drain) peers=river-tuned-grpc,graphile-tuned,carillon-sqlite ;;
	*) peers= ;; # of Carillon alone
	esac
	[ -z "$peers" ] || peers=${PEERS:-$peers}
	case $workload in register | neighbours | console | slots | keys | fair | redrive) peers=carillon-sqlite ;; esac
	[ -n "$peers" ] || peers=none
	[ "$peers" = none ] || set -- "$@" -systems "carillon,$peers"
	[ -z "${OUT:-}" ] || set -- "$@" -out "$OUT"
	# FLAGS are several words.
	# shellcheck disable=SC2086
	"$bench" "$@" ${FLAGS:-}
done
