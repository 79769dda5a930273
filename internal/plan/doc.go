// Package plan is step 2 of a slot's life: it decides, and writes nothing.
// Which slots are due (timetable.go), when each may fire (jitter.go), the whole
// decision on one schedule (decide.go), what is late and where the cursor goes
// on (catchup.go), what the catch-up policies make of it (recovery.go), and which
// slots of a backfill come next (backfill.go).
//
// Beside it stand the questions that only look: what a rule will fire
// (preview.go), which of them an edit adds and removes (compare.go), how many launches
// lie ahead (launches.go), and what would flatten them (flatten.go).
//
// Everything here is a pure function of its arguments: no context, no clock,
// no I/O, no log. The worker and the registrar's previews therefore agree.
package plan
