// Package plan is step 2 of a slot's life: it decides, and writes nothing.
// Which slots are due (timetable.go), when each may fire (jitter.go), the whole
// decision on one schedule (decide.go), what is late and where the cursor goes
// on (catchup.go), what the catch-up policies make of it (recovery.go), and who
// may run while another does (overlap.go).
//
// Everything here is a pure function of its arguments: no context, no clock,
// no I/O, no log. The worker and the registrar's previews therefore agree.
package plan
