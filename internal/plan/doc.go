// Package plan is step 2 of a slot's life: it decides, and writes nothing.
// Which slots are due (timetable.go), when each may fire (jitter.go), what
// becomes of those that were missed (catchup.go), the whole decision on one
// schedule (decide.go), and who may run while another does (overlap.go).
//
// Everything here is a pure function of its arguments: no context, no clock,
// no I/O, no log. The worker and the registrar's previews therefore agree.
package plan
