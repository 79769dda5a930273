// Package tracing follows a run through steps 2 to 5 of a slot's life: from the
// tick that planned it to the call of the executor, as OpenTelemetry spans that
// are exported by OTLP.
//
// Nothing of a trace is stored. The trace of a run is its key: the first sixteen
// bytes are the trace id, the next eight the id of the span that planned it, the
// last eight that of the one that claimed it. Each happens once in a run's life.
// So whichever process goes on with a run, after a minute or after a takeover,
// knows the parent of its span without a column for it, and the trace id is known
// for every run that there ever was. What one process hands to another at once,
// the worker to the launcher and the launcher to the executor, carries a W3C
// traceparent.
//
//	tick           one plan transaction that planned something; a trace of its own
//	plan           root of a run's trace, linked to its tick
//	└ claim        the verdict; root for a run that was asked for by hand
//	  └ launch     each delivery, as the worker sees it
//	    └ start    the same, as the launcher sees it: key, checks, DAG, record
//	      └ call   of the executor, whose traceparent names this span
//
// Tracing is off unless the standard environment names a collector
// (OTEL_EXPORTER_OTLP_ENDPOINT). A nil *Tracer is how it is off: its methods do
// nothing and allocate nothing. What is not sampled costs one look at its key.
package tracing
