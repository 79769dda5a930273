// Package tracing exports steps 2 to 5 of a slot, from the plan to the call of the executor, as
// OpenTelemetry spans by OTLP.
//
// Traces are not stored. A run's key contains the ids: the first sixteen bytes are the trace id, the
// next eight the id of the plan span, the last eight the id of the claim span, which each happen once.
// Any process that continues a run, also after a takeover, therefore knows the parent span without a
// column, and every run has a trace id. Calls from worker to launcher and from launcher to executor
// carry a W3C traceparent.
//
//	tick           one plan transaction that planned something; a separate trace
//	plan           root of a run's trace, linked to its tick
//	└ claim        the verdict; root of a manual run
//	  └ launch     each delivery in the worker
//	    └ start    the same delivery in the launcher: key, checks, DAG, record
//	      └ call   of the executor, with this span in its traceparent
//
// Tracing is on if OTEL_EXPORTER_OTLP_ENDPOINT is set. Otherwise the *Tracer is nil: its methods do
// nothing and allocate nothing. A run that is not sampled costs one check of its key.
package tracing
