// Package backfill has the commands of backfill: start, list, get, pause, resume and
// cancel.
package backfill
