// Package registrar is step 1 of a slot's life, and step 6: it registers,
// changes and removes schedules, answers what is asked of them, and takes the
// executors' reports. It computes; the store keeps.
package registrar
