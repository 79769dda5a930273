// Package registrar is steps 1 and 6 of a slot's life: it registers, changes, removes and reads
// schedules, and takes the executors' reports. It computes; the store writes.
package registrar
