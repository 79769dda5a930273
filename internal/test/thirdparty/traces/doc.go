// Package traces follows a run's spans to an OTLP collector.
package traces
