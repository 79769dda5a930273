// Package plan is step 2 of a slot's life. It decides and writes nothing: which slots are due
// (timetable.go), when each may fire (jitter.go), the whole decision on one schedule (decide.go),
// what is late and where the cursor moves (catchup.go), what the catch-up policies do with late
// slots (recovery.go), and which slots of a backfill come next (backfill.go).
//
// Read-only questions are here too: what a rule will fire (preview.go), which fires an edit adds
// and removes (compare.go), how many launches are ahead (launches.go), and what would flatten them
// (flatten.go).
//
// Everything is a pure function of its arguments: no context, clock, I/O or log. The worker and
// the registrar's previews therefore agree.
package plan
